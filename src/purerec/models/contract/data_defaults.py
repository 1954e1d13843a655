"""What settings are if nobody says, where that depends on the data.

Chosen on random validation splits of ML-100k, ML-1M and Yelp, and of the first two thinned to a dozen positives a
person: the sparser the data, the more L2 (see also `chance`). The widths of the paper (5, 8 and 16 for its three data
sets) are too narrow there: what that costs, and that it costs nothing on a split in time, is in docs/results.md.
"""

from __future__ import annotations

import math

from purerec.data.interactions import Csr
from purerec.models.contract.search_space import Ints


def usual_dim(n_users: int) -> int:
    """How wide vectors are: 5, 16 or 32 by the number of users (up to 200, 2,000, more)."""
    return 5 if n_users <= 200 else 16 if n_users <= 2_000 else 32


DIM = Ints(4, 64, start=lambda positives: usual_dim(positives.shape[0]))
"""Where to look for a better one; `--set dim=8` keeps it fixed."""


def shrinking(c: float, positives: Csr) -> float:
    """c / sqrt(positives per user), of those who have any: the form of every L2 here that follows the data."""
    active = int((positives.counts > 0).sum())
    return c / math.sqrt(len(positives) / active) if active else c


def observed_share(positives: Csr) -> float:
    """Of the pairs of all items and those who have any: positives; below a half, as a prior has to be."""
    active = int((positives.counts > 0).sum())
    return min(0.49, max(1, len(positives)) / max(1, active * positives.shape[1]))
