"""Kernels that find the vector of a new person, with the items fixed.

    pointwise    under the logistic risk of GMF, PU-GMF and PURE
    pairwise     under the pairwise risk of BPR and its kin

Which risk a model has: `models.families.foldin`.
"""
