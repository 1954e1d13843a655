"""Protocols: from a fitted model and a split to metrics, with a value for each user.

    exact           all items are ranked except those that the user is known to like (train positives, and at test
                    time validation positives). An item that the user rated low in train stays a candidate.
    sampled         the test positives are ranked among `pool` random items (the paper: 500) that the user has
                    never touched.
                    Not an estimate of the exact metrics (Krichene and Rendle, KDD 2020): the two are never
                    shown side by side.
    as_published    sampled, with each positive listed `repetitions` times, all copies relevant.
                    The defect behind several rows of Tables 3 and 4 of the paper, kept to show where they
                    come from. Everything but MRR is inflated.

Users without a test positive are left out and counted. A model that was fitted on users or items that the split does
not have, or on positives it is evaluated on, raises an error (`purerec.evaluation.leakage`).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from purerec.data.display.html import html_table
from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.data.splits import Split
from purerec.errors import ConfigError, DataError, counted
from purerec.evaluation.choosing import MetricNames, check_protocol, default_metrics, parse_all
from purerec.evaluation.leakage import check_unseen
from purerec.evaluation.lists import LIST_LENGTH, Lists
from purerec.evaluation.metrics import Metric
from purerec.evaluation.users import check_part, mean_of, of_part, users_of
from purerec.evaluation.widened import widened
from purerec.jit.counter_rng import mulhi, splitmix64
from purerec.jit.decorator import Scalar, kernel
from purerec.ranking.ranks import Ranks, ranks
from purerec.ranking.scorers import as_scorer
from purerec.rng import key64
from purerec.types import F64, I32, I64

Protocol = Literal["exact", "sampled", "as_published"]
HeldOut = Literal["test", "valid"]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How well one model ranked, on average and for each user.

    model, protocol, seed   what was evaluated, and how
    on                      the part: test or valid
    seconds                 how long it took
    """

    model: str
    protocol: Protocol
    on: HeldOut
    metrics: dict[str, float]
    """Means over users, in the order requested."""
    per_user: dict[str, F64]
    """(n_users_evaluated,) for every metric with a value per user"""
    user_idx: I64
    """(n_users_evaluated,) the users behind the values"""
    n_users_skipped: int
    """Users left out because they have no positive to find."""
    seconds: float
    seed: int
    pool: int | None
    """Random candidates per user; None: all items are candidates."""
    repetitions: int | None
    """How often each positive is listed, if more than once."""
    fingerprint: str
    """Differs between evaluations with different positives, candidates or protocols. Excludes the seed, which breaks
    ties and draws the candidates of the sampled protocols."""

    @property
    def n_users_evaluated(self) -> int:
        """Users who have a positive to find."""
        return len(self.user_idx)

    @property
    def label(self) -> str:
        """The protocol in words, to be shown with every result."""
        if self.protocol == "exact":
            return "exact, all items ranked"
        if self.protocol == "sampled":
            return f"sampled, {counted(self.pool or 0, 'candidate')}"
        return (
            f"as published, {self.pool} candidates, each positive listed {self.repetitions} times: "
            "a defective protocol, inflated in all but MRR"
        )

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; without the values per user."""
        return {
            "model": self.model,
            "protocol": self.protocol,
            "label": self.label,
            "on": self.on,
            "metrics": dict(self.metrics),
            "users": self.n_users_evaluated,
            "users_skipped": self.n_users_skipped,
            "seed": self.seed,
            "pool": self.pool,
            "repetitions": self.repetitions,
            "seconds": self.seconds,
            "fingerprint": self.fingerprint,
        }

    @property
    def users_told(self) -> str:
        """The numbers of users evaluated and skipped, in words."""
        left_out = f"{self.n_users_skipped:,} skipped (no {self.on} positive)"
        return f"{counted(self.n_users_evaluated, 'user')}, {left_out}"

    def by(self, groups: Sequence[object]) -> pl.DataFrame:
        """Means per group of users: a table of group, users and the metrics, the largest group first.

        `groups` has a label for each user of the data, by internal index; `evaluate_by` reads them from a table.
        """
        if len(groups) != self.n_users_evaluated + self.n_users_skipped:
            fact = f"{len(groups):,} labels for {self.n_users_evaluated + self.n_users_skipped:,} users"
            raise ConfigError(f"{fact}; give one for each user, by internal index")
        labels = pl.Series("group", [str(groups[user]) for user in self.user_idx])
        means = pl.DataFrame({"group": labels, **self.per_user}).group_by("group")
        return means.agg(pl.len().cast(pl.Int64).alias("users"), pl.all().mean()).sort(
            "users", "group", descending=[True, False]
        )

    def _repr_html_(self) -> str:
        title, note = f"{self.model} on {self.on}", f"{self.label}; {self.users_told}"
        return html_table(title, list(self.metrics), [list(self.metrics.values())], note)

    def __repr__(self) -> str:
        users = self.users_told
        widths = [max(len(name), 6) for name in self.metrics]
        names = "  ".join(name.rjust(width) for name, width in zip(self.metrics, widths, strict=True))
        values = "  ".join(
            f"{value:.4f}".rjust(width) for value, width in zip(self.metrics.values(), widths, strict=True)
        )
        return f"{self.model} on {self.on} ({self.label}; {users})\n{names}\n{values}"


def evaluate(
    model: Any,
    split: Split,
    *,
    protocol: Protocol = "exact",
    metrics: MetricNames | None = None,
    seed: int = 0,
    pool: int = 500,
    repetitions: int = 50,
    memory_mb: float = 256,
    threads: int | None = None,
    on: HeldOut = "test",
    part: tuple[int, int] | None = None,
) -> Evaluation:
    """Rank items for every user of the split's test (or validation) part, and compute metrics.

    `model` is a fitted model, or any object whose `score(user_idx)` returns (len(user_idx), n_items) numbers.

    `metrics` are names such as "Recall@20" (see `purerec.evaluation.metrics`); by default those of the paper, or
    those used in published results on the data set.

    `seed` decides how ties are broken and which items are in a sampled pool; neither depends on the model, so models
    evaluated with the same seed are compared on the same lists.

    A model that knows what it was fitted on (`users`, `items` and `seen`, as all models of this package do) must have
    been fitted on users and items of the split and on none of the positives to find; otherwise a DataError is raised.
    Users and items that are new to it are kept (see `purerec.evaluation.widened`). Other scorers are accepted as is.

    `part=(n, of)` evaluates part `n` of `of` parts of the users; `purerec.evaluation.parts` merges them.
    """
    if not isinstance(split, Split):
        raise ConfigError(f"evaluate() takes a split, such as pr.split(data), not {type(split).__name__}")
    start = time.perf_counter()
    wanted = parse_all(default_metrics(split.train.name) if metrics is None else metrics)
    _check(protocol, wanted, pool, repetitions)
    target, known = _parts(split, on)
    relevant = target.positives
    if not len(relevant):
        raise DataError(
            f"no user has a positive in the {on} part, so there is nothing to rank; hold out more "
            "interactions, or lower the rating that counts as positive"
        )
    as_scorer(model)  # refuses what is none, such as a class
    model = widened(model, split, target)
    check_unseen(model, split, target, on)
    model, asked = as_scorer(model), relevant
    if part is not None:
        check_part(part, wanted)
        asked = of_part(relevant, part)
    limits: dict[str, Any] = {"seed": seed, "memory_mb": memory_mb, "threads": threads}
    if protocol == "exact":
        found = ranks(model, asked, excluded=known, **limits)
        candidates = split.train.n_items - known.counts[found.user_idx]
    else:
        pools = draw_pools(split, asked, pool, seed)
        found = ranks(model, asked, pool=pools, **limits)
        if protocol == "as_published":
            found = repeat_positives(found, repetitions)
        candidates = pools.counts[found.user_idx] + np.diff(found.indptr)

    means: dict[str, float] = {}
    per_user: dict[str, F64] = {}
    longest = max((m.k or LIST_LENGTH for m in wanted if m.needs_lists), default=LIST_LENGTH)
    lists = Lists(model, found.user_idx, split.train, known, relevant, longest, limits)
    for metric in wanted:
        value = (
            lists.measure(metric) if metric.needs_lists else metric.of_ranks(found.values, found.indptr, candidates)
        )
        if isinstance(value, float):
            means[metric.name] = value
        else:
            per_user[metric.name] = value
    means |= {name: mean_of(values) for name, values in per_user.items()}
    sampled = protocol != "exact"
    return Evaluation(
        model=model.name,
        protocol=protocol,
        on=on,
        metrics={metric.name: means[metric.name] for metric in wanted},
        per_user=per_user,
        user_idx=found.user_idx,
        n_users_skipped=len(users_of(split.train.n_users, part)) - len(found.user_idx),
        seconds=time.perf_counter() - start,
        seed=int(seed),
        pool=min(int(pool), split.train.n_items) if sampled else None,
        repetitions=int(repetitions) if protocol == "as_published" else None,
        fingerprint=_fingerprint(relevant, known, protocol, *((pool, repetitions) if sampled else ())),
    )


def _check(protocol: str, metrics: list[Metric], pool: int, repetitions: int) -> None:
    if protocol not in get_args(Protocol):
        raise ConfigError(f"unknown protocol {protocol!r}; choose {', '.join(get_args(Protocol))}")
    check_protocol(metrics, protocol)
    for name, value in (("pool", pool), ("repetitions", repetitions)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise ConfigError(f"{name} must be a whole number of at least 1, not {value!r}")


def held_out(split: Split, on: HeldOut) -> Interactions:
    """The part that a model is evaluated on."""
    if on not in get_args(HeldOut):
        raise ConfigError(f"a model is evaluated on 'test' or 'valid', not on {on!r}")
    if on == "test":
        return split.test
    if split.valid is None:
        raise ConfigError("the split has no validation part; make one, or evaluate on='test'")
    return split.valid


def _parts(split: Split, on: HeldOut) -> tuple[Interactions, Csr]:
    """The positives to find, and those already known, which are not candidates."""
    target, known = held_out(split, on), split.train.positives
    return target, known if on == "valid" or split.valid is None else known.union(split.valid.positives)


def _fingerprint(relevant: Csr, known: Csr, *how: object) -> str:
    digest = hashlib.sha256(f"{relevant.shape} {how}".encode())
    for array in (relevant.indptr, relevant.indices, known.indptr, known.indices):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]


# ---------------------------------------------------------------------- pools


def draw_pools(split: Split, relevant: Csr, pool: int, seed: int) -> Csr:
    """For each user with something to find, `pool` items that the user has not touched in any part.

    Drawn without replacement; if there are fewer, all of them. A user's draw depends on the seed and on what the user
    touched, not on the model or on other users.
    """
    touched = split.train.pairs.union(split.test.pairs)
    if split.valid is not None:
        touched = touched.union(split.valid.pairs)
    n_users, n_items = touched.shape
    sizes = np.where(relevant.counts > 0, np.minimum(pool, n_items - touched.counts), 0)
    indptr = np.zeros(n_users + 1, dtype=np.int64)
    np.cumsum(sizes, out=indptr[1:])
    indices = np.empty(indptr[-1], dtype=np.int32)
    mark = np.zeros(n_items, dtype=np.uint8)
    _draw_pools(indptr, touched.indptr, touched.indices, key64(seed, "evaluation"), mark, indices)
    return Csr(indptr, indices, touched.shape)


@kernel()
def _draw_pools(
    ptr: I64, touched_ptr: I64, touched: I32, key: Scalar, mark: npt.NDArray[np.uint8], indices: I32
) -> None:
    n_items = len(mark)
    for u in range(len(ptr) - 1):
        size = ptr[u + 1] - ptr[u]
        if size == 0:
            continue
        mark[:] = 0
        for t in range(touched_ptr[u], touched_ptr[u + 1]):
            mark[touched[t]] = 1
        free = n_items - (touched_ptr[u + 1] - touched_ptr[u])
        stream = splitmix64(key, np.uint64(u + 1))
        number = np.uint64(0)
        at = ptr[u]
        if size * 2 <= free:
            # Draw until enough are new: at least half of the free items stay free, so this ends quickly.
            drawn = 0
            while drawn < size:
                number += np.uint64(1)
                i = mulhi(splitmix64(stream, number), np.uint64(n_items))
                if mark[i] == 0:
                    mark[i] = 2
                    drawn += 1
            for j in range(n_items):
                if mark[j] == 2:
                    indices[at] = j
                    at += 1
        else:
            # Go through the free items, taking each with the probability that makes all samples equally likely.
            missing = size
            for j in range(n_items):
                if mark[j] == 0:
                    number += np.uint64(1)
                    if mulhi(splitmix64(stream, number), np.uint64(free)) < np.uint64(missing):
                        indices[at] = j
                        at += 1
                        missing -= 1
                    free -= 1


def repeat_positives(found: Ranks, repetitions: int) -> Ranks:
    """Ranks of all copies when each positive is listed `repetitions` times.

    Copies have the same score and are listed together. The i-th positive, at rank r, has r - i other items before
    it, and (i - 1) * repetitions copies of better positives. Metrics then treat every copy as a separate positive:
    the ideal DCG is that of min(copies, k) hits, and average precision is divided by the number of copies. This
    reproduces the pattern of the published tables. With one repetition, it is the sampled protocol.
    """
    order = np.arange(len(found.values)) - np.repeat(found.indptr[:-1], np.diff(found.indptr))
    before = found.values - 1 - order + order * repetitions
    copies = before[:, None] + np.arange(1, repetitions + 1)
    return Ranks(found.user_idx, found.indptr * repetitions, copies.ravel().astype(np.int32))
