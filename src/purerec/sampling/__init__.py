"""Unlabeled pairs.

    unlabeled    how many are needed, and the way to draw them from Python
    draws        the same inside kernels
    dynamic      hard ones, chosen by score

May import what is above it: errors, rng, jit, data."""
