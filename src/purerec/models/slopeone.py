"""Weighted Slope One: what people think of i compared with j, averaged over the items j that somebody knows.

Lemire, Maclachlan (2005), Slope One Predictors for Online Rating-Based Collaborative Filtering.

    dev(i, j) = mean of r_vi - r_vj over the c(i, j) people v with both
    r(u, i) = sum of (dev(i, j) + r_uj) c(i, j) over u's items j other than i, divided by the sum of the c(i, j)

For implicit feedback a positive is 1 and unlabeled pairs, drawn once, are 0. With all of them instead of a draw every
c(i, j) is the number of users, and the prediction is popularity but for a constant: that is the paper's row for
SlopeOne, which repeats the row of ItemPop. A sparse draw keeps c(i, j), and with it the taste, of u's positives.

All of it is sparse matrix products: with the ratings R and the mask M of known pairs, c = M'M and c * dev = R'M - M'R.
They cost the sum over users of (number of items)^2 and 8 n_items^2 bytes (ML-1M: 110 MB). Where that is more than
`memory_mb`, nothing is kept and the products are taken over users when scoring. Use it as a baseline.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from purerec.interactions import F32, I32, I64, Interactions
from purerec.models.base import State
from purerec.models.ratings import (
    RatingConfig,
    RatingModel,
    Targets,
    binary_targets,
    need_positives,
    rating_scale,
    rating_targets,
    unlabeled_weight,
)
from purerec.training import Run

_BLOCK = 1024


class SlopeOneConfig(RatingConfig):
    """Settings of Slope One."""

    unlabeled_ratio: float = Field(default=1.0, gt=0, le=1000)
    """Unlabeled pairs drawn per positive of a user, once (binary only)."""
    weighted: bool = True
    """Weigh items j by c(i, j). Otherwise all count alike, r_uj is replaced by the mean of u, and i itself counts
    with a deviation of 0: the plain Slope One of Surprise."""
    memory_mb: float = Field(default=1024.0, ge=0)
    """The most that matrices between all items may take; above, scoring is slower."""
