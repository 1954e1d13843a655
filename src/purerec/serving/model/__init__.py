"""A model in memory, and its answers to requests."""
