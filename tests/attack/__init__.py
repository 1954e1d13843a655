"""Attempts to break it, as somebody would who wants to."""
