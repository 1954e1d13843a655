"""Metrics as pure functions of ranks (per user) or of top-k lists (of the whole catalogue).

Ranks are flat, as in `purerec.ranking.ranks.Ranks`: `ranks` (n_positives,), 1-based and ascending within each user,
and `indptr` (n_users + 1,). Every per-user function returns (n_users,) float64; a user without positives gets 0
everywhere and is better left out. In the formulas, r_1 < r_2 < ... < r_n are the ranks of a user's n positives.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from purerec.data.pairs import Csr
from purerec.data.plugins.named import import_object, is_path
from purerec.errors import ConfigError, nearest
from purerec.evaluation.own import OwnMetric, add, own_metric, own_names
from purerec.types import F64

IntArray = npt.NDArray[np.integer[Any]]
"""Ranks of held-out items, from 1, user by user; or where each user's start"""

DEFAULT_METRICS = ("P@3", "P@5", "P@10", "NDCG@3", "NDCG@5", "NDCG@10", "MAP", "MRR")
"""The columns of the paper's tables."""

_PAIRS_AT_ONCE = 1 << 16
"""Pairs of items whose users are compared at once"""


# ---------------------------------------------------------------------- per user


def precision(ranks: IntArray, indptr: IntArray, k: int) -> F64:
    """P@k = |{i : r_i <= k}| / k

    Divided by k even if the user has fewer positives or candidates: a short list is not a precise one.
    """
    return _hits(ranks, indptr, k) / k


def recall(ranks: IntArray, indptr: IntArray, k: int) -> F64:
    """Recall@k = |{i : r_i <= k}| / n"""
    return _hits(ranks, indptr, k) / np.maximum(np.diff(indptr), 1)


def hit_rate(ranks: IntArray, indptr: IntArray, k: int) -> F64:
    """HitRate@k = 1 if r_1 <= k else 0"""
    return (_hits(ranks, indptr, k) > 0).astype(np.float64)


def ndcg(ranks: IntArray, indptr: IntArray, k: int) -> F64:
    """NDCG@k = sum_{i : r_i <= k} 1 / log2(r_i + 1)  /  sum_{j=1}^{min(n, k)} 1 / log2(j + 1)

    The denominator is the best value that this user's positives can reach in k places.
    """
    near = ranks <= k
    gains = 1 / np.log2(ranks[near] + 1.0)
    dcg = np.bincount(_user_of(indptr)[near], weights=gains, minlength=len(indptr) - 1)
    longest = max(min(k, int(np.diff(indptr).max(initial=0))), 1)
    ideal = np.cumsum(1 / np.log2(np.arange(1, longest + 1) + 1.0))
    return np.asarray(dcg / ideal[np.clip(np.diff(indptr), 1, longest) - 1], dtype=np.float64)


def average_precision(ranks: IntArray, indptr: IntArray) -> F64:
    """AP = 1/n sum_i i / r_i

    Over the whole ranking and divided by all n positives; its mean over users is MAP.
    """
    ordinal = np.arange(1, len(ranks) + 1) - np.repeat(indptr[:-1], np.diff(indptr))
    return _sum(ordinal / ranks, indptr) / np.maximum(np.diff(indptr), 1)


def reciprocal_rank(ranks: IntArray, indptr: IntArray) -> F64:
    """RR = 1 / r_1; its mean over users is MRR."""
    result = np.zeros(len(indptr) - 1)
    filled = np.diff(indptr) > 0
    result[filled] = 1 / ranks[indptr[:-1][filled]]
    return result


def auc(ranks: IntArray, indptr: IntArray, candidates: IntArray) -> F64:
    """AUC = 1 - sum_i (r_i - i) / (n (c - n))

    The share of pairs of a positive and another candidate that are ordered correctly. `candidates` (n_users,) holds
    the number c of items ranked, including positives. Without other candidates, it is 1/2.
    """
    n = np.diff(indptr)
    ordinal = np.arange(1, len(ranks) + 1) - np.repeat(indptr[:-1], n)
    pairs = n * (candidates - n)
    return np.where(pairs > 0, 1 - _sum((ranks - ordinal).astype(np.float64), indptr) / np.maximum(pairs, 1), 0.5)


def _user_of(indptr: IntArray) -> IntArray:
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def _hits(ranks: IntArray, indptr: IntArray, k: int) -> F64:
    return np.bincount(_user_of(indptr)[ranks <= k], minlength=len(indptr) - 1).astype(np.float64)


def _sum(values: F64, indptr: IntArray) -> F64:
    # Not a difference of running sums, which would make a user's value depend on earlier users.
    sums: F64 = np.bincount(_user_of(indptr), weights=values, minlength=len(indptr) - 1)  # type: ignore[assignment]  # typed as counts; weights make them floats
    return sums


# ---------------------------------------------------------------------- of lists


def coverage(lists: IntArray, n_items: int) -> float:
    """Coverage@k = |items in at least one list| / n_items

    lists: (n_users, k), padded with -1.
    """
    return float(np.count_nonzero(_exposure(lists, n_items)) / max(n_items, 1))


def gini(lists: IntArray, n_items: int) -> float:
    """Gini@k = sum_{j=1}^{m} (2 j - m - 1) x_j / (m sum_j x_j),  x_1 <= ... <= x_m: times each item is listed

    0: all m items of the catalogue are listed equally often; near 1: a few are listed all the time.
    """
    exposure = np.sort(_exposure(lists, n_items)).astype(np.float64)
    total = exposure.sum()
    if total == 0:
        return 0.0
    weights = 2 * np.arange(1, n_items + 1) - n_items - 1
    return float(weights @ exposure / (n_items * total))


def novelty(lists: IntArray, item_counts: IntArray, n_users: int) -> F64:
    """Novelty@k = 1/k sum_{i in list} -log2(max(c_i, 1) / n_users)

    (n_users,): mean self-information of a user's list. c_i is the number of train users with item i; an item that
    nobody has counts as if one user had it, the highest measurable novelty. Empty places are left out of the mean; a
    user with an empty list gets 0.
    """
    information = np.log2(max(n_users, 1)) - np.log2(np.maximum(item_counts, 1))
    filled = lists >= 0
    total = np.where(filled, information[np.where(filled, lists, 0)], 0.0).sum(axis=1)
    return np.asarray(total / np.maximum(filled.sum(axis=1), 1), dtype=np.float64)


def popularity(lists: IntArray, item_counts: IntArray) -> F64:
    """Popularity@k = 1/k sum_{i in list} (|{j : c_j < c_i}| + |{j : c_j = c_i}| / 2) / m

    (n_users,): mean percentile, from 0 to 1, of the listed items among all m items by their number of train users c.
    For lists of random items, it is 1/2. Empty places are left out of the mean; a user with an empty list gets 0.
    """
    counts, at = np.unique(item_counts, return_inverse=True)
    sizes = np.bincount(at, minlength=len(counts))
    percentile = ((np.cumsum(sizes) - sizes / 2) / max(len(item_counts), 1))[at]
    filled = lists >= 0
    total = np.where(filled, percentile[np.where(filled, lists, 0)], 0.0).sum(axis=1)
    return np.asarray(total / np.maximum(filled.sum(axis=1), 1), dtype=np.float64)


def diversity(lists: IntArray, train: Csr) -> F64:
    """ILD@k = 2 / (k (k - 1)) sum_{i < j in list} 1 - |U_i and U_j| / sqrt(|U_i| |U_j|)

    (n_users,): intra-list diversity, the mean distance between two listed items; U_i are the train users of item i.
    An item that nobody has is at distance 1 from all others. A list of fewer than two items gets 0.
    """
    by_item = train.to_scipy().T.tocsr()
    first, second = np.triu_indices(lists.shape[1], 1)
    a, b = np.minimum(lists[:, first], lists[:, second]), np.maximum(lists[:, first], lists[:, second])
    both = a >= 0
    pairs, at = np.unique(a[both].astype(np.int64) * train.shape[1] + b[both], return_inverse=True)
    one, other = np.divmod(pairs, train.shape[1])
    size = np.maximum(train.item_counts, 1).astype(np.float64)
    distance = np.ones(len(pairs))
    for start in range(0, len(pairs), _PAIRS_AT_ONCE):
        cut = slice(start, start + _PAIRS_AT_ONCE)
        shared = by_item[one[cut]].multiply(by_item[other[cut]]).sum(axis=1)
        distance[cut] -= np.asarray(shared).ravel() / np.sqrt(size[one[cut]] * size[other[cut]])
    total = np.zeros(both.shape)
    total[both] = distance[at]
    return np.asarray(total.sum(axis=1) / np.maximum(both.sum(axis=1), 1), dtype=np.float64)


def serendipity(lists: IntArray, popular: IntArray, relevant: IntArray) -> F64:
    """Serendipity@k = |{i in list : i is relevant and not among the k most popular}| / k

    (n_users,): hits that a list of popular items would have missed (Ge et al., RecSys 2010).
    `popular` (n_users, k) are the most popular of the user's candidates; `relevant` (n_users, k) is true where the
    list has a positive.
    """
    expected = (lists[:, :, None] == popular[:, None, :]).any(axis=2)
    return np.asarray((relevant & ~expected).sum(axis=1) / lists.shape[1], dtype=np.float64)


def _exposure(lists: IntArray, n_items: int) -> IntArray:
    return np.bincount(lists[lists >= 0], minlength=n_items)


# ---------------------------------------------------------------------- names

_OF_RANKS_AT_K: dict[str, Callable[[IntArray, IntArray, int], F64]] = {
    "P": precision,
    "NDCG": ndcg,
    "Recall": recall,
    "HitRate": hit_rate,
}
_OF_RANKS: dict[str, Callable[[IntArray, IntArray], F64]] = {"MAP": average_precision, "MRR": reciprocal_rank}
_OF_LISTS = ("Coverage", "Novelty", "Gini", "Popularity", "ILD", "Serendipity")
_OF_CANDIDATES: dict[str, Callable[[IntArray, IntArray, IntArray], F64]] = {"AUC": auc}
_ELSEWHERE = {"precision": "P", "hr": "HitRate", "hit": "HitRate", "diversity": "ILD"}
"""Their names in other libraries, in lower case"""


@dataclass(frozen=True)
class Metric:
    """A metric by its name, such as `P@5` or `MAP`."""

    name: str
    kind: str
    k: int | None

    own: OwnMetric | None = None
    """Only for a custom metric"""

    @property
    def needs_lists(self) -> bool:
        return self.kind in _OF_LISTS if self.own is None else self.own.of_lists

    def of_ranks(self, ranks: IntArray, indptr: IntArray, candidates: IntArray | None = None) -> F64:
        """(n_users,); AUC needs the number of candidates of each user."""
        if self.own is not None:
            return self.own.values(np.split(ranks, indptr[1:-1]), self.k)
        if self.kind in _OF_CANDIDATES:
            assert candidates is not None
            return _OF_CANDIDATES[self.kind](ranks, indptr, candidates)
        if self.k is None:
            return _OF_RANKS[self.kind](ranks, indptr)
        return _OF_RANKS_AT_K[self.kind](ranks, indptr, self.k)


def parse(name: str, *, imports: bool = True) -> Metric:
    """The metric named `P@20`, `NDCG@10`, `Recall@10`, `HitRate@10`, `MAP`, `MRR`, `Coverage@10`, ...

    A custom metric has the name of its function, or is given as `module:function` or `module:function@10`. The module
    is imported unless `imports` is false, as it must be if the name comes from a file.
    """
    match = re.fullmatch(r"([\w.:]+)(?:@([1-9][0-9]{0,8}))?", name) if isinstance(name, str) else None
    kind, k = match.groups() if match else ("", None)
    kinds = (*_OF_RANKS, *_OF_CANDIDATES) if k is None else (*_OF_RANKS_AT_K, *_OF_LISTS)
    if kind in kinds:
        return Metric(name, kind, None if k is None else int(k))
    own = own_metric(kind) if not is_path(kind) else add(import_object(kind)) if imports else None
    if own is not None:
        if own.at_k == (k is None):
            raise ConfigError(f"the metric {own.name} {'needs a k' if own.at_k else 'has no k'}: write {own.written}")
        return Metric(own.name if k is None else f"{own.name}@{k}", own.name, None if k is None else int(k), own)
    known = [*_OF_RANKS, *(f"{known}@k" for known in (*_OF_RANKS_AT_K, *_OF_LISTS)), *_OF_CANDIDATES, *own_names()]
    raise ConfigError(
        f"unknown metric {name!r}; {_guess(kind, k)}choose from {', '.join(known)}; k is an integer, as in P@10"
    )


def _guess(kind: str, k: str | None) -> str:
    """The metric that was probably meant, as a question: misspelled, without its k, or under another name."""
    written = re.fullmatch(r"(.*?[a-z])_?(?:at_?)?([0-9]{1,9})?", kind.lower())
    name, number = written.groups() if written else (kind.lower(), None)
    at = f"@{k or number or 10}"
    spelled = {known.lower(): known for known in (*_OF_RANKS, *_OF_CANDIDATES)}
    spelled |= {known.lower(): f"{known}{at}" for known in (*_OF_RANKS_AT_K, *_OF_LISTS)}
    spelled |= {known.removesuffix("@k").lower(): known.replace("@k", at) for known in own_names()}
    near = nearest(_ELSEWHERE.get(name, name).lower(), spelled, alike=0.75)
    return "" if near is None else f"did you mean {spelled[near]}? "


def parse_of_ranks(name: str) -> Metric:
    """A metric of how well a user's positives are ranked, by which models and settings can be chosen."""
    metric = parse(name)
    if metric.needs_lists:
        raise ConfigError(f"{name} does not measure hits; choose a rank metric, such as P@5 or MRR")
    return metric
