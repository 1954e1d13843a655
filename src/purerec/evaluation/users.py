"""Splits users into parts, each of which can be evaluated on a different machine."""

from __future__ import annotations

import numpy as np

from purerec.data.pairs import Csr
from purerec.errors import ConfigError
from purerec.evaluation.metrics import Metric
from purerec.types import F64


def users_of(n_users: int, part: tuple[int, int] | None) -> range:
    """The users of part (n, of), or all of them."""
    return range(n_users) if part is None else range(part[0], n_users, part[1])


def check_part(part: tuple[int, int], metrics: list[Metric]) -> None:
    is_pair = isinstance(part, tuple) and [type(number) for number in part] == [int, int]
    if not is_pair or not 0 <= part[0] < part[1]:
        raise ConfigError(f"part must be (n, of) with 0 <= n < of, not {part!r}")
    if whole := [metric.name for metric in metrics if metric.needs_lists]:
        raise ConfigError(f"{whole[0]} needs the lists of all users at once; leave it or `part` out")


def of_part(relevant: Csr, part: tuple[int, int]) -> Csr:
    """The positives of a part's users; other users have none."""
    own = np.zeros(relevant.shape[0], dtype=bool)
    own[part[0] :: part[1]] = True
    counts = np.where(own, relevant.counts, 0)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Csr(indptr, relevant.indices[own[relevant.users]], relevant.shape)


def mean_of(values: F64) -> float:
    """The mean of the values of all users, or 0 for a part without users."""
    return float(values.mean()) if len(values) else 0.0
