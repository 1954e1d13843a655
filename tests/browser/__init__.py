"""Tests of the page; a package, so that its conftest is not taken for that of all tests."""
