"""Kernels that find the vector of a new person, with the items fixed."""
