"""How often two items were liked by the same people, summed over processes that each have some of the people.

If all people count the same (`user_power` 0, as in PURE's history and by default in EASE), processes count people,
and items are weighted afterwards. Sums of integers have no rounding, so the result does not depend on the number of
processes, for up to 2^24 people who like the same two items, the most that single precision can count.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from purerec.engines.closed_form.dense import products
from purerec.engines.distributed.group import Group, current_group
from purerec.types import F32


def multiplier() -> Callable[[Any], F32]:
    """A function for x'x, shared with the current group of processes or for this process alone."""
    group = current_group()
    return products if group is None else partial(lead_products, group)


def lead_products(group: Group, x: Any) -> F32:
    """x'x as a dense matrix, in the first process, which has all rows of the sparse matrix x."""
    weight = _of_items(x)
    if weight is not None:
        x = x.astype(bool).astype(np.float32)
    cuts = np.searchsorted(x.indptr, np.linspace(0, x.nnz, group.size + 1)[1:-1])
    cuts = np.concatenate([[0], cuts, [x.shape[0]]])
    parts = [x[cuts[n] : cuts[n + 1]] for n in range(group.size)]
    group.tell({"do": "gram", "items": x.shape[1], "parts": [[part.shape[0], part.nnz] for part in parts]})
    for worker, part in enumerate(parts[1:], start=1):
        arrays = part.indptr.astype(np.int64), part.indices.astype(np.int32), part.data.astype(np.float32)
        group.exchange([(worker, n, array) for n, array in enumerate(arrays)], [])
    found = products(parts[0])
    group.add_up(found)
    if weight is not None:
        found *= weight[:, None]
        found *= weight
    return found


def _of_items(x: Any) -> F32 | None:
    """(n_items,) the weight of each item, if it is the same for all people."""
    weight = np.zeros(x.shape[1], np.float32)
    weight[x.indices] = x.data
    return weight if np.array_equal(weight[x.indices], x.data) else None


def follow_products(group: Group, told: dict[str, Any]) -> None:
    """In the other processes."""
    from scipy.sparse import csr_array

    n, pairs = told["parts"][group.rank]
    arrays = np.zeros(n + 1, np.int64), np.zeros(pairs, np.int32), np.zeros(pairs, np.float32)
    group.exchange([], [(0, k, array) for k, array in enumerate(arrays)])
    indptr, indices, data = arrays
    group.add_up(products(csr_array((data, indices, indptr), shape=(n, told["items"]))))
