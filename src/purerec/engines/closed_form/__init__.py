"""Weights between items in closed form: EASE, and its systems of a few neighbours for large catalogues.

fit              the entry point: `fit_item_weights`, and `check_memory` before it
weights          the result: scores, shares, storage
dense            one inverse for all items
neighborhoods    a small system for each item
gram             which items were liked together, and how often
cholesky         the solver of small systems
parts            work in several threads
"""

from purerec.engines.closed_form.fit import check_memory, fit_item_weights
from purerec.engines.closed_form.gram import Weighting, mean_diagonal
from purerec.engines.closed_form.weights import DenseWeights, ItemWeights, SparseWeights

__all__ = [
    "DenseWeights",
    "ItemWeights",
    "SparseWeights",
    "Weighting",
    "check_memory",
    "fit_item_weights",
    "mean_diagonal",
]
