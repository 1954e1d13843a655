"""Stochastic gradient descent on squared errors of targets: how SVD and PMF are fitted.

    min  sum over known pairs of 1/2 (r_ui - mean - b_u - b_i - p_u.q_i)^2 + 1/2 decay_u (b_u^2 + |p_u|^2)
                                                                           + 1/2 decay_i (b_i^2 + |q_i|^2)

SVD has the same decay for all rows, which penalises a row each time it occurs. PMF has no biases, and a decay divided
by the row's number of pairs, which penalises each row once. Each epoch visits the pairs in a new random order; with
binary targets it also redraws the unlabeled pairs.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.jit.counter_rng import splitmix64
from purerec.jit.decorator import Scalar, kernel
from purerec.jit.simd import LANES, load, store, total
from purerec.models.contract.data_defaults import default_dim
from purerec.models.contract.fitted_on import need_positives
from purerec.models.contract.iterative import with_strangers
from purerec.models.families.rating_factors import FactorRatingModel, RatingFactorConfig
from purerec.models.families.ratings import Targets, rating_scale, rating_targets, unlabeled_weight
from purerec.rng import key64, named_rng
from purerec.sampling.draws import Tables, draw_items
from purerec.sampling.dynamic import BEST, RULES, Negatives, best_of, softmax_of, unit
from purerec.sampling.unlabeled import UnlabeledSampler
from purerec.storage import Layout, Part
from purerec.training.history import Measures, mean_norms
from purerec.types import F32, F64, I32, I64, State

_BLOCK = 128
"""Positives whose unlabeled pairs are drawn together."""


class SgdConfig(RatingFactorConfig):
    """Settings of a factor model fitted by gradient descent."""

    for_ratings: ClassVar[dict[str, Any]] = {"epochs": 20, "learning_rate": 0.005, "schedule": "constant"}

    epochs: int = Field(default=60, ge=0, le=100_000)
    """Passes over the positives, or over the ratings (20)."""
    learning_rate: float = Field(default=0.1, gt=0, le=10)
    """Learning rate of the first epoch (0.005 for ratings)."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """cosine: the rate falls to zero over the epochs; constant: it stays the same (default for ratings)."""
    init_std: float = Field(default=0.1, gt=0, le=10)
    """Standard deviation of the initial vectors."""
    negatives: Negatives = "uniform"
    """uniform: any unlabeled item of the positive's user; dns: the highest-scoring of `candidates` such items; drns:
    one of them at random, in proportion to exp(score) (binary only)."""
    candidates: int = Field(default=10, ge=1, le=1000)
    """Items that dns and drns choose from."""


class SgdModel(FactorRatingModel):
    """Base of SVD and PMF."""

    config: SgdConfig

    def _fitting(self, train: Interactions, seed: int) -> Descent:
        ratings = rating_targets(train) if self.config.target == "rating" else None
        feed: Ratings | Positives = (
            Ratings(ratings, train.shape, seed)
            if ratings is not None
            else Positives(need_positives(train), self.config.unlabeled_ratio, seed, self._choice())
        )
        return Descent(self, feed, rating_scale(train, ratings), named_rng(seed, "init"))

    def _choice(self) -> PairChoice | None:
        config = self.config
        return None if config.negatives == "uniform" else new_choice(config.negatives, config.candidates)

    def _layout(self) -> Layout:
        biases = {"user_bias": Part(("users",)), "item_bias": Part(("items",))}
        return {**super()._layout(), **(biases if self.biased() else {})}

    @abstractmethod
    def biased(self) -> bool:
        """Whether there is a global mean and biases of users and items."""

    @abstractmethod
    def decay(self, n_pairs: F64) -> F32:
        """(n_rows,) the penalty per pair, for rows with this many pairs."""


class Weights(NamedTuple):
    """The model, as kernels expect it. Vectors are padded with zeros to full SIMD vectors."""

    user: F32
    """(n_users * width,)"""
    item: F32
    user_bias: F32
    """(n_users,)"""
    item_bias: F32
    user_decay: F32
    """(n_users,) the penalty per pair"""
    item_decay: F32
    width: int
    mean: float
    biased: bool


class PairChoice(NamedTuple):
    """Dynamic negatives: the rule and its scratch. With None instead, `binary_epoch` is compiled without them."""

    rule: int
    """BEST or SOFTMAX of `negatives`."""
    candidates: int
    scores: F32
    """(candidates,)"""


def new_choice(negatives: Negatives, candidates: int) -> PairChoice:
    return PairChoice(RULES[negatives], candidates, np.empty(candidates, np.float32))


class Ratings:
    """Rated pairs, in a new order in each epoch."""

    def __init__(self, known: Targets, shape: tuple[int, int], seed: int) -> None:
        self.known, self.shape, self.seed, self.mean, self.n = known, shape, seed, known.mean, len(known.value)
        self.user_pairs = np.bincount(known.user_idx, minlength=shape[0]).astype(np.float64)
        self.item_pairs = np.bincount(known.item_idx, minlength=shape[1]).astype(np.float64)

    def epoch(self, number: int, weights: Weights, rate: float) -> float:
        """Mean squared error before each step."""
        order, known = named_rng(self.seed, f"order/{number}").permutation(self.n), self.known
        found = rating_epoch(weights, known.user_idx, known.item_idx, known.value, order, np.float32(rate))
        return float(found) / max(self.n, 1)


class Positives:
    """Positives, in a new order in each epoch, and a new draw of unlabeled pairs."""

    def __init__(self, positives: Csr, ratio: float, seed: int, choice: PairChoice | None = None) -> None:
        self.positives, self.ratio, self.seed, self.shape = positives, ratio, seed, positives.shape
        self.choice = choice
        n_items = positives.shape[1]
        self.sampler = UnlabeledSampler(positives.indptr, positives.indices, n_items, full_users="skip")
        counts = positives.counts
        weight = unlabeled_weight(counts, n_items, ratio)
        self.user_pairs = counts + weight * (n_items - counts)
        of_positives = np.bincount(positives.indices, weight[positives.users], n_items)
        self.item_pairs = positives.item_counts + weight.sum() - of_positives
        self.n = float(self.user_pairs.sum())
        self.mean = len(positives) / self.n

    def epoch(self, number: int, weights: Weights, rate: float) -> float:
        """Mean squared error before each step."""
        positives = self.positives
        order = named_rng(self.seed, f"order/{number}").permutation(len(positives))
        each = 1 if self.choice is None else self.choice.candidates
        drawn = np.empty((2, _BLOCK * math.ceil(self.ratio) * each), dtype=np.int32)
        found = binary_epoch(
            weights, self.sampler.tables, positives.users[order], positives.indices[order], self.ratio,
            key64(self.seed, "sampling"), np.uint64(number * math.ceil(self.ratio) * len(positives)),
            drawn[0], drawn[1], np.float32(rate), self.choice, key64(self.seed, f"choice/{number}"),
        )  # fmt: skip
        return float(found) / self.n


class Descent:
    """One fit, as `training` expects it."""

    def __init__(self, model: SgdModel, feed: Ratings | Positives, scale: F32, rng: np.random.Generator) -> None:
        config, self.feed, self.scale = model.config, feed, scale
        self.config, self.biased = config, model.biased()
        self.dim = config.dim if config.dim is not None else default_dim(feed.shape[0])
        self.width = -(-self.dim // LANES) * LANES
        self.user_decay, self.item_decay = model.decay(feed.user_pairs), model.decay(feed.item_pairs)
        self.arrays: State = {}
        for name, pairs in (("user", feed.user_pairs), ("item", feed.item_pairs)):
            vectors = np.zeros((len(pairs), self.width), dtype=np.float32)
            vectors[:, : self.dim] = config.init_std * rng.standard_normal((len(pairs), self.dim), dtype=np.float32)
            vectors[pairs == 0] = 0
            self.arrays |= {name: vectors, f"{name}_bias": np.zeros(len(pairs), dtype=np.float32)}

    def epoch(self, number: int) -> Measures:
        a, rate = self.arrays, self.learning_rate(number)
        weights = Weights(
            a["user"].ravel(), a["item"].ravel(), a["user_bias"], a["item_bias"], self.user_decay, self.item_decay,
            self.width, self.feed.mean if self.biased else 0.0, self.biased,
        )  # fmt: skip
        return {
            "phase": "fitting",
            "loss": self.feed.epoch(number, weights, rate),
            "learning_rate": rate,
            **mean_norms(a),
        }

    def learning_rate(self, number: int) -> float:
        config = self.config
        if config.schedule == "constant":
            return config.learning_rate
        return config.learning_rate * 0.5 * (1 + math.cos(math.pi * number / max(1, config.epochs)))

    def parameters(self) -> State:
        found = {name: self.arrays[name][:, : self.dim].copy() for name in ("user", "item")}
        if self.config.target == "binary":
            found["user"] = with_strangers(found["user"], self.feed.user_pairs > 0)
        found |= {"scale": self.scale, "mean": np.array([self.feed.mean], dtype=np.float32)}
        found["user_pairs"], found["item_pairs"] = (
            pairs.astype(np.float32) for pairs in (self.feed.user_pairs, self.feed.item_pairs)
        )
        if self.biased:
            found |= {name: self.arrays[name].copy() for name in ("user_bias", "item_bias")}
        return found

    def state(self) -> State:
        return self.arrays

    def restore(self, state: State, number: int) -> None:
        self.arrays = {name: np.array(array, dtype=np.float32) for name, array in state.items()}


@kernel(inner=True)
def step(w: Weights, u: Scalar, i: Scalar, target: Scalar, rate: Scalar) -> Scalar:
    """One gradient step at a pair; returns the squared error before it."""
    p, q = u * w.width, i * w.width
    acc = load(w.user, p) * load(w.item, q)
    for k in range(LANES, w.width, LANES):
        acc = acc + load(w.user, p + k) * load(w.item, q + k)
    error = target - (np.float32(w.mean) + w.user_bias[u] + w.item_bias[i] + total(acc))
    by = rate * error
    keep_p, keep_q = np.float32(1.0) - rate * w.user_decay[u], np.float32(1.0) - rate * w.item_decay[i]
    if w.biased:
        w.user_bias[u] = w.user_bias[u] * keep_p + by
        w.item_bias[i] = w.item_bias[i] * keep_q + by
    for k in range(0, w.width, LANES):
        a, b = load(w.user, p + k), load(w.item, q + k)
        store(w.user, p + k, a * keep_p + b * by)
        store(w.item, q + k, b * keep_q + a * by)
    return error * error


@kernel()
def rating_epoch(w: Weights, users: I32, items: I32, values: F32, order: I64, rate: Scalar) -> Scalar:
    """A step at each pair, in the order given; returns the sum of squared errors."""
    found = 0.0
    for n in range(order.size):
        at = order[n]
        found += step(w, np.int64(users[at]), np.int64(items[at]), values[at], rate)
    return found


@kernel()
def binary_epoch(
    w: Weights,
    t: Tables,
    users: I32,
    items: I32,
    ratio: Scalar,
    key: Scalar,
    counter: Scalar,
    drawn_users: I32,
    drawn_items: I32,
    rate: Scalar,
    choice: PairChoice | None,
    choice_key: Scalar,
) -> Scalar:
    """A step at each positive (target 1) in turn, interleaved with unlabeled pairs (target 0).

    For positive number n, floor((n + 1) ratio) - floor(n ratio) are drawn, so that fractions come out right.
    With a choice, each is picked from several candidates when its turn comes.
    """
    found = 0.0
    each: Scalar = np.int64(1)
    if choice is not None:
        each = np.int64(choice.candidates)
    for first in range(0, users.size, _BLOCK):
        size = min(_BLOCK, users.size - first)
        before = np.int64(first * ratio)
        drawn = np.int64((first + size) * ratio) - before
        for m in range(first, first + size):
            for j in range(np.int64(m * ratio) * each, np.int64((m + 1) * ratio) * each):
                drawn_users[j - before * each] = users[m]
        start = (counter + np.uint64(before)) * np.uint64(each)
        draw_items(t, drawn_users, drawn * each, key, start, drawn_items)
        # A positive, then the n-th, (n + size)-th, ... of those drawn for the block: neighbours have different users,
        # so that a step need not wait for the one before it.
        n: Scalar = first
        k: Scalar = drawn
        for _ in range(size + drawn):
            if k >= drawn:
                user, item, target = np.int64(users[n]), np.int64(items[n]), np.float32(1.0)
                k = n - first
                n += 1
            else:
                at = k * each
                if choice is not None:
                    x = unit(splitmix64(choice_key, np.uint64(before + k)))
                    at += _choose(w, choice, drawn_users, drawn_items, at, x)
                user, item, target = np.int64(drawn_users[at]), np.int64(drawn_items[at]), np.float32(0.0)
                k += size
            if item >= 0:
                found += step(w, user, item, target, rate)
    return found


@kernel(inner=True)
def _choose(w: Weights, choice: PairChoice, users: I32, items: I32, first: Scalar, x: Scalar) -> Scalar:
    """Which candidate to take, counted from `first`; 0 for a user who has touched every item."""
    if items[first] < 0:
        return np.int64(0)
    for k in range(choice.candidates):
        p, q = np.int64(users[first]) * w.width, np.int64(items[first + k]) * w.width
        acc = load(w.user, p) * load(w.item, q)
        for j in range(LANES, w.width, LANES):
            acc = acc + load(w.user, p + j) * load(w.item, q + j)
        choice.scores[k] = total(acc) + w.item_bias[items[first + k]]
    if choice.rule == BEST:
        return np.int64(best_of(choice.scores, choice.candidates))
    return np.int64(softmax_of(choice.scores, choice.candidates, x))
