"""Unlabeled pairs. How many are needed, Theorem 1, is in `paper.theory`.

    unlabeled    the way to draw them from Python
    draws        the same inside kernels
    dynamic      hard ones, chosen by score

May import what is above it: errors, rng, jit, data."""
