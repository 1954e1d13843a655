"""Stochastic gradient descent on squared errors of targets: how SVD and PMF are fitted.

    min  sum over known pairs of 1/2 (r_ui - mean - b_u - b_i - p_u.q_i)^2 + 1/2 decay_u (b_u^2 + |p_u|^2)
                                                                           + 1/2 decay_i (b_i^2 + |q_i|^2)

SVD has the same decay for all rows, which penalises a row as often as it occurs. PMF has none of the biases, and a
decay divided by the number of pairs of the row, which penalises each row once. Pairs come in a new random order in
each epoch, and with binary targets with a new draw of unlabeled pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
from pydantic import Field

from purerec.compiled import Scalar, kernel
from purerec.engines.vectors import LANES, load, store, total
from purerec.interactions import F32, I32, I64, Csr, Interactions
from purerec.models.ratings import Targets, drawn_zeros, need_positives, rating_scale, rating_targets, unlabeled_weight
from purerec.models.rating_factors import FactorConfig, FactorRatingModel
from purerec.models.sizes import default_dim
from purerec.randomness import generator
from purerec.sampling import UnlabeledSampler
from purerec.training import Record, Run, State

_CHUNK = 1 << 20
"""Pairs that are shuffled together: all that is needed in memory besides the data."""


class SgdConfig(FactorConfig):
    """Settings of a factor model fitted by gradient descent."""

    learning_rate: float = Field(default=0.01, gt=0, le=10)
    """Of the first epoch."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """cosine: the rate falls to nothing with the epochs."""
    init_std: float = Field(default=0.1, gt=0, le=10)
    """Deviation of the random start of the vectors."""
    regularization: float = Field(default=0.02, ge=0, le=1e6)
    """L2 on vectors and biases."""


class SgdModel(FactorRatingModel):
    """Base of SVD and PMF."""

    config: SgdConfig

    def _fit(self, train: Interactions, valid: Interactions | None, seed: int, run: Run) -> None:
        ratings = rating_targets(train) if self.config.target == "rating" else None
        self._scale = rating_scale(train, ratings)
        feed: Feed = (
            RatingFeed(ratings, train.shape, seed)
            if ratings is not None
            else BinaryFeed(need_positives(train), self.config.unlabeled_ratio, seed)
        )
        remedy = f"lower learning_rate (now {self.config.learning_rate:g}) or raise regularization"
        self._train(Descent(self, feed, seed), train, valid, seed, run, remedy=remedy)

    def biased(self) -> bool:
        """Whether there is a mean and a bias of users and items."""
        raise NotImplementedError

    def decay(self, n_pairs: np.ndarray) -> F32:
        """(n_rows,) the penalty at each pair of rows that have so many."""
        raise NotImplementedError


class Feed:
    """Known pairs, epoch by epoch."""

    shape: tuple[int, int]
    mean: float
    """Of the targets."""
    n_pairs: int
    """In an epoch, about."""
    user_pairs: np.ndarray
    """(n_users,) expected pairs of each user in an epoch"""
    item_pairs: np.ndarray
    """(n_items,)"""

    def epoch(self, number: int) -> Iterator[Targets]:
        """All pairs of epoch `number` in random order, in parts. The same for the same number."""
        raise NotImplementedError


class RatingFeed(Feed):
    def __init__(self, known: Targets, shape: tuple[int, int], seed: int) -> None:
        self.known, self.shape, self.seed = known, shape, seed
        self.mean, self.n_pairs = known.mean, len(known.value)
        self.user_pairs = np.bincount(known.user_idx, minlength=shape[0])
        self.item_pairs = np.bincount(known.item_idx, minlength=shape[1])

    def epoch(self, number: int) -> Iterator[Targets]:
        order = generator(self.seed, f"order/{number}").permutation(self.n_pairs)
        known = self.known
        for start in range(0, len(order), _CHUNK):
            part = order[start : start + _CHUNK]
            yield Targets(known.user_idx[part], known.item_idx[part], known.value[part])


class BinaryFeed(Feed):
    def __init__(self, positives: Csr, ratio: float, seed: int) -> None:
        self.positives, self.ratio, self.seed, self.shape = positives, ratio, seed, positives.shape
        n_items = positives.shape[1]
        self.sampler = UnlabeledSampler(positives.indptr, positives.indices, n_items, full_users="skip")
        counts = positives.counts
        weight = unlabeled_weight(counts, n_items, ratio)
        self.user_pairs = counts + weight * (n_items - counts)
        of_positives = np.bincount(positives.indices, weight[positives.users], n_items)
        self.item_pairs = positives.item_counts + weight.sum() - of_positives
        self.n_pairs = round(float(self.user_pairs.sum()))
        self.mean = len(positives) / self.n_pairs

    def epoch(self, number: int) -> Iterator[Targets]:
        rng = generator(self.seed, f"order/{number}")
        order = rng.permutation(len(self.positives))
        size = max(1, int(_CHUNK / (1 + self.ratio)))
        most = math.ceil(self.ratio) * size  # draws of a part
        parts = math.ceil(len(order) / size)
        for k in range(parts):
            part = order[k * size : (k + 1) * size]
            users = self.positives.users[part]
            zeros = drawn_zeros(self.sampler, users, self.ratio, seed=self.seed, counter=(number * parts + k) * most)
            value = np.zeros(len(part) + len(zeros[0]), dtype=np.float32)
            value[: len(part)] = 1
            mixed = rng.permutation(len(value))
            yield Targets(
                np.concatenate([users, zeros[0]])[mixed],
                np.concatenate([self.positives.indices[part], zeros[1]])[mixed],
                value[mixed],
            )


class Descent:
    """One fit, as `training` wants it. Vectors are padded with zeros to whole vectors of the processor."""

    def __init__(self, model: SgdModel, feed: Feed, seed: int) -> None:
        self.model, self.feed = model, feed
        self.biased = model.biased()
        self.mean = np.float32(feed.mean if self.biased else 0.0)
        self.dim = model.config.dim if model.config.dim is not None else default_dim(feed.shape[0])
        self.user_decay, self.item_decay = model.decay(feed.user_pairs), model.decay(feed.item_pairs)
        width = -(-self.dim // LANES) * LANES
        rng = generator(seed, "init")
        self.weights: State = {}
        for name, n, pairs in (("user", feed.shape[0], feed.user_pairs), ("item", feed.shape[1], feed.item_pairs)):
            vectors = np.zeros((n, width), dtype=np.float32)
            vectors[:, : self.dim] = model.config.init_std * rng.standard_normal((n, self.dim), dtype=np.float32)
            vectors[pairs == 0] = 0
            self.weights[name] = vectors
            self.weights[f"{name}_bias"] = np.zeros(n, dtype=np.float32)

    def epoch(self, number: int) -> Record:
        rate, w, error, seen = self.learning_rate(number), self.weights, 0.0, 0
        for part in self.feed.epoch(number):
            error += sgd(
                part.user_idx, part.item_idx, part.value, self.mean, np.float32(rate), self.biased,
                w["user"].ravel(), w["item"].ravel(), w["user_bias"], w["item_bias"], w["user"].shape[1],
                self.user_decay, self.item_decay,
            )  # fmt: skip
            seen += len(part.value)
        return {
            "phase": "fitting",
            "loss": error / max(seen, 1),
            "learning_rate": rate,
            "user_norm": float(np.linalg.norm(w["user"], axis=1).mean()),
            "item_norm": float(np.linalg.norm(w["item"], axis=1).mean()),
        }

    def learning_rate(self, number: int) -> float:
        config = self.model.config
        if config.schedule == "constant":
            return config.learning_rate
        return config.learning_rate * 0.5 * (1 + math.cos(math.pi * number / max(1, config.epochs)))

    def parameters(self) -> State:
        w = self.weights
        found = {name: w[name][:, : self.dim].copy() for name in ("user", "item")}
        found["mean"] = np.array([self.feed.mean], dtype=np.float32)
        if self.biased:
            found |= {name: w[name].copy() for name in ("user_bias", "item_bias")}
        return found

    def state(self) -> State:
        return self.weights

    def restore(self, state: State, number: int) -> None:
        self.weights = {name: np.array(array, dtype=np.float32) for name, array in state.items()}


@kernel(depends_on=("purerec.engines.vectors",))
def sgd(
    users: I32,
    items: I32,
    values: F32,
    mean: Scalar,
    rate: Scalar,
    biased: Scalar,
    p: F32,
    q: F32,
    user_bias: F32,
    item_bias: F32,
    width: Scalar,
    user_decay: F32,
    item_decay: F32,
) -> Scalar:
    """One step at each pair in turn; the sum of squared errors before the steps. Vectors are `width` apart."""
    found = 0.0
    for n in range(values.size):
        u, i = np.int64(users[n]), np.int64(items[n])
        at_p, at_q = u * width, i * width
        acc = load(p, at_p) * load(q, at_q)
        for k in range(LANES, width, LANES):
            acc = acc + load(p, at_p + k) * load(q, at_q + k)
        error = values[n] - (mean + user_bias[u] + item_bias[i] + total(acc))
        found += error * error
        step = rate * error
        keep_p, keep_q = np.float32(1.0) - rate * user_decay[u], np.float32(1.0) - rate * item_decay[i]
        if biased:
            user_bias[u] = user_bias[u] * keep_p + step
            item_bias[i] = item_bias[i] * keep_q + step
        for k in range(0, width, LANES):
            v, w = load(p, at_p + k), load(q, at_q + k)
            store(p, at_p + k, v * keep_p + w * step)
            store(q, at_q + k, w * keep_q + v * step)
    return found
