"""Drawing unlabeled pairs. How many are needed (Theorem 1) is in `paper.theory`.

    unlabeled    the tables that draws are made from, and draws from Python
    draws        the same inside kernels
    dynamic      hard ones, chosen by score

May import errors to data, in the order of CONTRIBUTING.md.
"""
