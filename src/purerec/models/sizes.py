"""How wide vectors are, if nobody says: what the paper has for its three data sets."""

from __future__ import annotations

from purerec.models.spaces import Ints


def default_dim(n_users: int) -> int:
    """5, 8 or 16 by the number of users (up to 2,000, 10,000, more)."""
    return 5 if n_users <= 2_000 else 8 if n_users <= 10_000 else 16


DIM = Ints(4, 64, start=lambda positives: default_dim(positives.shape[0]))
"""Where to look for a better one; `--set dim=8` keeps it fixed."""
