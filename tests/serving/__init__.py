"""Tests of the service; a package, so that its conftest is not taken for that of all tests."""
