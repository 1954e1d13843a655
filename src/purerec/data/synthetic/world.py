"""A synthetic world whose true relevance is known. In real logs, nobody knows which items were merely not seen.

Three things are kept separate. Relevance: rho(u, i) = sigmoid(affinity <p_u, q_i> + quality_i + c), with c chosen
so that its mean is the given prior; whether a pair *is* relevant is one coin toss per pair. Exposure: user u is shown
item i with probability e(u, i) = 1 - exp(-rate_u w_i), where w decreases with a popularity rank that is independent
of relevance. The log: relevant AND exposed. So an unobserved pair is either irrelevant or unseen, and the world
knows which.

Coins are a hash of (seed, user, item), so the truth of any pair can be recomputed and none is stored. Users are
generated one at a time, and items are visited by jumping from one possible exposure to the next, so time grows with
the exposed pairs and memory with the observed ones; no user-item matrix is ever built.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from purerec.data.interactions import Interactions
from purerec.data.synthetic.calibration import calibration_pairs, increasing_root, sigmoid
from purerec.data.synthetic.kernels import fill_logits, fill_observed, fill_relevance, fill_truth
from purerec.data.vocabulary import Vocabulary
from purerec.errors import ConfigError
from purerec.rng import key64, named_rng
from purerec.types import F32, F64, I32, I64, Mask

if TYPE_CHECKING:
    from purerec.data.splits import Split

_BLOCK_CELLS = 1 << 24
_PER_USER = 20


@dataclass(frozen=True)
class WorldSettings:
    """The settings of a world, checked at construction."""

    users: int = 1000
    items: int = 500
    dim: int = 8
    """Length of the latent vectors of true taste."""
    prior: float = 0.05
    """Mean of the true relevance over all pairs: the class prior of PU learning."""
    exposure: float = 1.0
    """Popularity bias: w decreases as rank**-exposure. At 0, every item is shown equally often."""
    interactions: int | None = None
    """Expected length of the log. None: 20 per user, but at most half of the relevant pairs."""
    affinity: float = 2.0
    """Standard deviation of the personal part of the relevance logit; 0 leaves only item quality."""
    quality: float = 0.5
    """Standard deviation of the item's part of the relevance logit."""
    activity: float = 0.5
    """Standard deviation of the logarithm of a user's exposure rate; 0 makes all users equally active."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("users", "items", "dim"):
            _check_whole(name, getattr(self, name), 1, 2**31 - 1)
        if self.interactions is not None:
            _check_whole("interactions", self.interactions, 1, 2**40)
        _check_number("prior", self.prior, 0.0, 1.0, open_ends=True)
        for name, most in (("exposure", 4.0), ("affinity", 20.0), ("quality", 20.0), ("activity", 4.0)):
            _check_number(name, getattr(self, name), 0.0, most)
        relevant = self.prior * self.users * self.items
        if self.interactions is not None and self.interactions > 0.95 * relevant:
            raise ConfigError(
                f"interactions={self.interactions:,} cannot be observed where about {relevant:,.0f} pairs are "
                f"relevant; ask for at most {int(0.95 * relevant):,}, or raise prior, users or items"
            )

    @property
    def expected(self) -> float:
        """Expected number of observed interactions."""
        if self.interactions is not None:
            return float(self.interactions)
        return min(float(_PER_USER * self.users), 0.5 * self.prior * self.users * self.items)


def _check_whole(name: str, value: Any, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        raise ConfigError(f"{name} must be a whole number of {least} to {most:,}, not {value!r}")


def _check_number(name: str, value: Any, least: float, most: float, *, open_ends: bool = False) -> None:
    number = not isinstance(value, bool) and isinstance(value, int | float | np.number)
    if not (number and math.isfinite(value) and (least < value < most if open_ends else least <= value <= most)):
        between = f"strictly between {least:g} and {most:g}" if open_ends else f"from {least:g} to {most:g}"
        raise ConfigError(f"{name} must be a number {between}, not {value!r}")


@dataclass(frozen=True, eq=False)
class World:
    """A log, and the truth behind it. Ids are the internal indices: user 7 is `user_idx` 7."""

    settings: WorldSettings
    observed: Interactions
    """The log: relevant and exposed pairs, one row each, sorted by user and then by item."""
    user_factors: F32
    """(n_users, dim) p_u"""
    item_factors: F32
    """(n_items, dim) affinity times q_i"""
    item_bias: F32
    """(n_items,) quality_i + c"""
    item_weight: F64
    """(n_items,) w_i, of mean 1"""
    user_rate: F64
    """(n_users,)"""

    def __post_init__(self) -> None:
        for array in (self.user_factors, self.item_factors, self.item_bias, self.item_weight, self.user_rate):
            array.flags.writeable = False

    def __repr__(self) -> str:
        return f"World({self.settings}, observed={self.observed!r})"

    @property
    def n_users(self) -> int:
        return self.settings.users

    @property
    def n_items(self) -> int:
        return self.settings.items

    def relevance(self, user_idx: npt.ArrayLike) -> F32:
        """True probability of relevance, the best possible score: (len(user_idx), n_items) float32."""
        user = self._checked(user_idx)
        out = np.empty((len(user), self.n_items), dtype=np.float32)
        fill_relevance(self.user_factors, self.item_factors, self.item_bias, user, out)
        return out

    def truth(self, user_idx: npt.ArrayLike) -> Mask:
        """Whether each item is relevant, seen or not: (len(user_idx), n_items) bool."""
        user = self._checked(user_idx)
        out = np.empty((len(user), self.n_items), dtype=np.bool_)
        key = key64(self.settings.seed, "world.relevance")
        fill_truth(self.user_factors, self.item_factors, self.item_bias, key, user, out)
        return out

    def exposure(self, user_idx: npt.ArrayLike) -> F32:
        """Probability that each item was shown to the user, the propensity: (len(user_idx), n_items) float32."""
        rate = self.user_rate[self._checked(user_idx)]
        return (-np.expm1(-rate[:, None] * self.item_weight)).astype(np.float32)

    def exposed(self, user_idx: npt.ArrayLike) -> Mask:
        """Whether each item was shown to the user, relevant or not: (len(user_idx), n_items) bool."""
        user = self._checked(user_idx)
        out = np.zeros((len(user), self.n_items), dtype=np.bool_)
        _, indptr, items = _observe(self, user, relevant_only=False)
        out[np.repeat(np.arange(len(user)), np.diff(indptr)), items] = True
        return out

    def hidden(self, *, users: int | None = 1000, seed: int = 0) -> Interactions:
        """What a recommender should find: relevant pairs that were not observed, with the log's vocabularies.

        For this many random users (None: all, which gives about prior * n_users * n_items rows). As a test set, with
        the log as train, it measures against the truth, not against what happened to be shown.
        """
        if users is not None:
            _check_whole("users", users, 1, 2**31 - 1)
        chosen = np.arange(self.n_users)
        if users is not None and users < self.n_users:
            rng = named_rng(seed, "world.hidden")
            chosen = np.sort(rng.choice(self.n_users, size=users, replace=False))
        pairs = self.observed.pairs
        user_parts, item_parts = [], []
        step = max(1, _BLOCK_CELLS // self.n_items)
        for start in range(0, len(chosen), step):
            block = chosen[start : start + step]
            truth = self.truth(block)
            for row, user in enumerate(block):
                truth[row, pairs.row(int(user))] = False
            row_idx, item_idx = np.nonzero(truth)
            user_parts.append(block[row_idx].astype(np.int32))
            item_parts.append(item_idx.astype(np.int32))
        return Interactions(
            self.observed.users,
            self.observed.items,
            np.concatenate(user_parts),
            np.concatenate(item_parts),
            name=f"{self.observed.name}-hidden",
        )

    def true_split(self, *, users: int | None = 1000, seed: int = 0) -> Split:
        """A split that trains on the whole log and tests on what is `hidden`, to evaluate against the truth."""
        from purerec.data.made import Made, SplitParameters
        from purerec.data.splits import Split

        test = self.hidden(users=users, seed=seed)
        n, asked = len(self.observed), SplitParameters(users=users)
        made = Made(method="truth", seed=seed, parameters=asked, rows=n, train=n, test=len(test))
        return Split(self.observed, None, test, made)

    def _checked(self, user_idx: npt.ArrayLike) -> I64:
        user = np.atleast_1d(np.asarray(user_idx))
        if user.dtype.kind not in "iu" and user.size:
            raise ConfigError(f"user_idx must be whole numbers, not {user.dtype}")
        if user.size and not (int(user.min()) >= 0 and int(user.max()) < self.n_users):
            raise ConfigError(f"user_idx must lie from 0 to {self.n_users - 1}, not {user.min()} to {user.max()}")
        return user.astype(np.int64)


def make_world(
    *,
    users: int = 1000,
    items: int = 500,
    dim: int = 8,
    prior: float = 0.05,
    exposure: float = 1.0,
    interactions: int | None = None,
    affinity: float = 2.0,
    quality: float = 0.5,
    activity: float = 0.5,
    seed: int = 0,
    name: str = "world",
) -> World:
    """A world with these settings, explained in `WorldSettings`. The same settings give the same bits.

    In worlds of up to a million pairs, the mean relevance is exactly the prior, and the expected length of the log is
    exact too. In larger worlds, both constants are fitted on a million pairs, which leaves a deviation of about half
    a percent.
    """
    settings = WorldSettings(users, items, dim, prior, exposure, interactions, affinity, quality, activity, seed)
    rng = named_rng(seed, "world.factors")
    user_factors = rng.standard_normal((users, dim), dtype=np.float32)
    item_factors = rng.standard_normal((items, dim), dtype=np.float32)
    item_factors *= np.float32(affinity / math.sqrt(dim))  # the personal part gets the standard deviation `affinity`
    item_bias = rng.standard_normal(items, dtype=np.float32) * np.float32(quality)
    item_weight: F64 = np.power(1.0 + rng.permutation(items), -float(exposure), dtype=np.float64)
    item_weight /= item_weight.mean()
    user_rate = np.exp(activity * rng.standard_normal(users))
    user_rate /= user_rate.mean()

    user_idx, item_idx, cells = calibration_pairs(users, items, item_weight, named_rng(seed, "world.calibration"))
    logit = np.empty(len(user_idx))
    fill_logits(user_factors, item_factors, item_bias, user_idx, item_idx, logit)
    centre = math.log(prior / (1.0 - prior))
    low, high = centre - float(logit.max()) - 1.0, centre - float(logit.min()) + 1.0
    shift = increasing_root(lambda c: float(np.dot(cells, sigmoid(logit + c))), prior, low, high)
    item_bias += np.float32(shift)

    relevance = cells * sigmoid(logit + shift)
    pull = user_rate[user_idx] * item_weight[item_idx]
    share = settings.expected / (float(users) * items)
    log_rate = increasing_root(lambda c: float(np.dot(relevance, -np.expm1(-math.exp(c) * pull))), share, -60.0, 60.0)
    user_rate *= math.exp(log_rate)

    # A World needs a log, and making the log needs a World: the first one has an empty log.
    vocabularies = (
        Vocabulary(pl.Series(np.arange(users, dtype=np.int64)), "user"),
        Vocabulary(pl.Series(np.arange(items, dtype=np.int64)), "item"),
    )
    nothing = Interactions(*vocabularies, np.zeros(0, np.int32), np.zeros(0, np.int32), name=name)
    empty = World(settings, nothing, user_factors, item_factors, item_bias, item_weight, user_rate)
    user, indptr, item = _observe(empty, np.arange(users, dtype=np.int64), relevant_only=True)
    log = Interactions(*vocabularies, np.repeat(user.astype(np.int32), np.diff(indptr)), item, name=name)
    return World(settings, log, user_factors, item_factors, item_bias, item_weight, user_rate)


def setting_names() -> tuple[str, ...]:
    """The parameters of `make_world`, for error messages and help texts."""
    return tuple(f.name for f in fields(WorldSettings))


def _observe(world: World, user: I64, *, relevant_only: bool) -> tuple[I64, I64, I32]:
    """CSR of the items that each of these users was shown (and that are relevant): (users, indptr, items)."""
    settings = world.settings
    by_rank = np.argsort(-world.item_weight, kind="stable").astype(np.int32)
    expected = settings.expected * len(user) / settings.users if relevant_only else 0.0
    out = np.empty(int(1.02 * expected + 6.0 * math.sqrt(expected)) + settings.items, dtype=np.int32)
    indptr = np.zeros(len(user) + 1, dtype=np.int64)
    done = 0
    while True:
        done = fill_observed(
            world.user_factors,
            world.item_factors,
            world.item_bias,
            by_rank,
            world.item_weight[by_rank],
            world.user_rate,
            key64(settings.seed, "world.exposure"),
            key64(settings.seed, "world.relevance"),
            relevant_only,
            user,
            done,
            indptr,
            out,
        )
        if done == len(user):
            break
        # The next user may not fit; resize in place, so that the peak stays near the final size.
        out.resize(int(len(out) * 1.25) + settings.items, refcheck=False)
    out.resize(int(indptr[-1]), refcheck=False)
    return user, indptr, out
