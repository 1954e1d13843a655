"""A model in memory, and the answers that a request asks for."""
