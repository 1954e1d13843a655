"""What both engines agree on: the settings of the game, its parameters, and one explicit batch.

The discriminator scores a pair with phi(u, i) = scorer(e_u, e_i) + bias, D = sigmoid(phi), and minimises,
per batch, the normalised objective

    L_D = risk(P, U) + (fake_weight/prior) * ( mean softplus(phi(u, i')) + mean softplus(phi(u', i)) )
          + (regularization/2) * ( mean_P |e_u|^2 + |e_i|^2  +  mean_U |e_u|^2 + |e_i|^2 )

    risk = -mean_P phi + positive * mean_P softplus(phi) + unlabeled * mean_U softplus(phi)

with the weights `positive` and `unlabeled` of `purerec.paper.risks.LogisticRisk`: PN, PU as printed, or PU with the
stratum of observed pairs. nnpu: while  unlabeled * mean_U softplus(phi) >= (1 - positive) * mean_P softplus(phi);
else the step descends on minus that difference (Kiryo et al. 2017, beta = 0, gamma = 1), fakes and L2 unchanged.

softmax, a prior per user: `purerec.paper.risks.SoftmaxRisk` replaces the risk above. Draw k of a batch belongs to the
user of positive k modulo n_p. What all pairs of a user share does not change this risk, so the bias and users' biases
keep their initial values. Fakes are added as above, with the observed share as the prior.

Division by the prior keeps gradients of order one, so that Adam's epsilon stays small relative to them.

The generators minimise, over fakes only and with D fixed,

    nonsaturating:  L_G = mean softplus(-phi(u, i')) + mean softplus(-phi(u', i))        Algorithm 1 (label 1)
    saturating:     L_G = -mean softplus(phi(u, i')) - mean softplus(phi(u', i))         Eq. (final objective)

Adam follows torch.optim.SparseAdam on embedding rows (moments of untouched rows are kept, bias correction by the
global step count) and torch.optim.Adam on everything else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from purerec.errors import ConfigError, DataError
from purerec.paper.risks import LogisticRisk, SoftmaxRisk
from purerec.sampling.dynamic import Negatives
from purerec.types import F32, F64, I32

Params = dict[str, F32]

EngineName = Literal["cpu", "torch"]
ScorerName = Literal["mf", "gmf", "bilinear", "fm", "mlp"]
RiskName = Literal["pu", "nnpu", "pn", "softmax"]
Unlabeled = Literal["per_user", "global", "popularity", "shared"]
Sides = Literal["none", "item", "user", "both"]
Constraint = Literal["none", "norm", "recolour"]


@dataclass(frozen=True)
class GameSettings:
    """Everything an engine needs besides the data and the seed. Validated by the model's config."""

    dim: int = 8
    """Width of the user embedding."""
    item_dim: int | None = None
    """Width of the item embedding; None: the same. Only `bilinear` and `mlp` may differ."""
    scorer: ScorerName = "gmf"
    risk: RiskName = "pu"
    prior: float = 1e-4
    observed: float = 0.0
    """Share of all pairs that is observed, which the unlabeled part of the PU risk counts besides the draws; 0: the
    printed form, whose unlabeled part leaves them out."""
    temperature: float = 1.0
    """Temperature of the softmax risk."""
    unlabeled: Unlabeled = "per_user"
    """per_user: unobserved items of the positive's own user; global: uniform over all unobserved pairs;
    popularity: the positive's own user, items in proportion to their number of positives;
    shared: items for a whole batch, each with the users of all of its positives, observed pairs left out."""
    unlabeled_per_epoch: int = 0
    """How many unlabeled pairs an epoch draws in all, spread evenly over its batches."""
    negatives: Negatives = "uniform"
    """Dynamic: an unlabeled pair gets the highest-scoring of `candidates` items drawn like this (dns), or one at
    random in proportion to exp(score) (drns). Does not apply to generator steps."""
    candidates: int = 1
    batch_size: int = 128
    """Positives per step."""
    regularization: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    init_std: float = 0.1
    train_bias: bool = True
    # --- generators
    generators: Sides = "none"
    fake_weight: float = 1.0
    fake_ratio: float = 1.0
    """Fakes per sampled unlabeled pair (the paper's ratio is 1). The first round(ratio * n_u) unlabeled pairs
    (u, i) of a batch each give one (u, i') and, with a user generator, one (u', i). At most 1. With shared
    draws, the users and items of the batch are paired one to one, in order."""
    hidden: int = 16
    noise: float = 0.01
    """Standard deviation of the generators' Gaussian input."""
    conditional: bool = False
    """The item generator also sees e_u, the user generator e_i (held fixed in the generator's gradient)."""
    output: Literal["relu", "linear"] = "relu"
    constraint: Constraint = "none"
    """What is done to the raw fakes. `norm`: a fake longer than the mean norm of the real embeddings is scaled
    down to it. `recolour`: the fakes of a batch are mapped affinely to the mean and covariance of the real
    embeddings (weighted by number of positives). The map is held constant in the gradient."""
    generator_loss: Literal["nonsaturating", "saturating"] = "nonsaturating"

    def __post_init__(self) -> None:
        """Reject settings with which kernels would read out of bounds or divide by zero."""
        if self.dim_i != self.dim and self.scorer not in ("bilinear", "mlp"):
            raise ConfigError(
                f"item_dim {self.dim_i} differs from dim {self.dim}, which {self.scorer!r} cannot score"
            )
        if min(self.dim, self.dim_i, self.hidden, self.batch_size, self.candidates) < 1:
            raise ConfigError("dim, item_dim, hidden, batch_size and candidates must be at least 1")
        if not 0.0 < self.prior < 1.0:
            raise ConfigError(f"prior must lie between 0 and 1, not {self.prior}")
        if not 0.0 <= self.observed < 1.0:
            raise ConfigError(f"observed must lie in [0, 1), not {self.observed}")
        if not 0.0 <= self.fake_ratio <= 1.0:
            raise ConfigError(f"fake_ratio must lie in [0, 1], not {self.fake_ratio}")
        if self.unlabeled == "shared" and (self.risk == "softmax" or self.negatives != "uniform"):
            raise ConfigError("shared draws are neither compared user by user (softmax) nor chosen (dns, drns)")
        if not min(self.epsilon, self.temperature) > 0.0:
            raise ConfigError(f"epsilon and temperature must be positive, not {self.epsilon} and {self.temperature}")

    def shared_items(self, n_positives: int, n_items: int) -> int:
        """How many items a batch draws if it shares them."""
        return min(n_items, max(1, round(self.unlabeled_per_epoch / n_positives)))

    @property
    def dim_i(self) -> int:
        return self.dim if self.item_dim is None else self.item_dim

    @property
    def generators_of(self) -> tuple[str, ...]:
        """The sides that have a generator."""
        return tuple(side for side in ("item", "user") if self.generators in (side, "both"))

    @property
    def logistic(self) -> LogisticRisk:
        """The weights of the PN or PU risk."""
        assert self.risk != "softmax", "the softmax risk has other weights"
        return LogisticRisk.of(self.risk, self.prior, self.observed)

    @property
    def softmax(self) -> SoftmaxRisk | None:
        """The risk with a prior per user; None for another risk."""
        return SoftmaxRisk(self.observed, self.temperature) if self.risk == "softmax" else None

    @property
    def learns_bias(self) -> bool:
        """False if the risk depends neither on the bias nor on users' biases."""
        return self.train_bias and self.softmax is None


@dataclass(frozen=True)
class GamePart:
    """What an engine also needs if it trains one part of a larger game; see `engines.distributed`."""

    asked: I32
    """(n,) the user of each positive of these users, whichever part its item is in: unlabeled pairs are drawn for
    them uniformly, so that the pairs of all parts together are those of the whole game."""
    weight: float
    """Factor on the unlabeled part of the risk: the share of the unlabeled pairs that are drawn from this part, over
    the share of positives in it."""


@dataclass(frozen=True)
class Batch:
    """One discriminator or generator step, spelled out (used for parity between engines).

    The first `n_fakes` unlabeled pairs are the ones whose item or user is replaced by a fake.
    """

    pos_user: I32
    pos_item: I32
    unl_user: I32
    unl_item: I32
    item_noise: F32
    """(n_fakes, dim_i) standard normal times `noise`; empty without an item generator."""
    user_noise: F32
    """(n_fakes, dim) likewise for the user generator."""


def check_batch(batch: Batch, shape: tuple[int, int], settings: GameSettings) -> None:
    """Reject indices beyond (n_users, n_items), and noise without a generator."""
    for kind, n in zip(("user", "item"), shape, strict=True):
        for part in ("pos", "unl"):
            index: I32 = getattr(batch, f"{part}_{kind}")
            if index.size and (index.min() < 0 or index.max() >= n):
                raise DataError(f"{part}_{kind} of the batch must lie in range({n})")
    if batch.pos_user.shape != batch.pos_item.shape or batch.unl_user.shape != batch.unl_item.shape:
        raise DataError("the batch must have as many users as items")
    for name, noise, dim in (
        ("item", batch.item_noise, settings.dim_i),
        ("user", batch.user_noise, settings.dim),
    ):
        if not len(noise):
            continue
        if name not in settings.generators_of:
            raise ConfigError(f"the batch has {name}_noise, but there is no {name} generator")
        if noise.shape != (len(noise), dim) or len(noise) > batch.unl_user.size:
            raise DataError(f"{name}_noise has shape {noise.shape}; at most {batch.unl_user.size} rows of {dim} fit")


def check_draws(batch: Batch, settings: GameSettings) -> None:
    """Reject draws that are not for the positives' users, round by round, if the softmax risk requires that."""
    n, users = batch.pos_user.size, batch.unl_user
    if settings.softmax is None:
        return
    if n > users.size or not np.array_equal(np.resize(batch.pos_user, users.size), users):
        raise DataError(
            "with the softmax risk, draw k of a batch must be of the user of positive k modulo their number"
        )


@dataclass(frozen=True)
class EpochStats:
    """Means over one epoch; NaN if there is no such quantity. With the softmax risk, shares replace D."""

    loss: float
    d_positive: float
    d_unlabeled: float
    d_fake: float
    fake_norm: float
    samples: int


LOSS, PENALTY, D_POSITIVE, D_UNLABELED, D_FAKE, FAKE_NORM, N_STEPS, N_POSITIVE, N_UNLABELED, N_FAKES = range(10)
"""Places in the array of an epoch's sums, which can be added to those of other parts"""
N_SUMS = 10


def stats_of(sums: F64) -> EpochStats:
    """Means; NaN if there was nothing to average."""

    def mean(total: int, count: int) -> float:
        return float(sums[total] / sums[count]) if sums[count] else float("nan")

    return EpochStats(
        loss=mean(LOSS, N_STEPS) + mean(PENALTY, N_STEPS),
        d_positive=mean(D_POSITIVE, N_POSITIVE),
        d_unlabeled=mean(D_UNLABELED, N_UNLABELED),
        d_fake=mean(D_FAKE, N_FAKES),
        fake_norm=mean(FAKE_NORM, N_FAKES),
        samples=int(sums[N_POSITIVE] + sums[N_UNLABELED] + sums[N_FAKES]),
    )


class Engine(Protocol):
    """What every engine of `registry.ENGINES` does. It is built from a data source, settings, a seed and parameters:

    engine_class(source: DataSource, settings: GameSettings, *, seed: int, params: Params | None = None)
    """

    def train_discriminator(self, *, learning_rate: float, use_fakes: bool = True) -> EpochStats:
        """One epoch over all positives."""

    def train_generators(self, *, learning_rate: float, steps: int) -> EpochStats:
        """Run `steps` generator steps, each on `batch_size` freshly drawn unlabeled pairs."""

    def step_discriminator(self, batch: Batch, *, learning_rate: float) -> float:
        """Take one step on a given batch; return its loss before the update."""

    def step_generators(self, batch: Batch, *, learning_rate: float) -> float:
        """Take one generator step on a given batch; return its loss before the update."""

    def parameters(self) -> Params:
        """Copies, unpadded: user, item, bias, and by scorer relation (gmf: (d,), bilinear: (d_u, d_i)),
        user_bias, item_bias (fm); item_gen.w1/b1/w2/b2 and user_gen.w1/b1/w2/b2."""

    def norms(self) -> dict[str, float]:
        """user_norm and item_norm, the mean norms of the vectors, and bias. Copies no parameters."""

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """Everything that `restore` needs to continue bit for bit: parameters, moments, counters."""

    def restore(self, state: dict[str, npt.NDArray[np.generic]]) -> None: ...


@runtime_checkable
class SharedEngine(Engine, Protocol):
    """An engine whose state is spread over several processes, each storing its own part: see `SharedTrainable`."""

    def write_parts(
        self, folder: Path, generation: int
    ) -> tuple[dict[str, npt.NDArray[np.generic]], Mapping[str, str]]: ...

    def restore_parts(
        self, rest: dict[str, npt.NDArray[np.generic]], folder: Path, parts: Mapping[str, str]
    ) -> None: ...


def logit(p: float) -> float:
    return math.log(p) - math.log1p(-p)


def initial_parameters(n_users: int, n_items: int, settings: GameSettings, rng: np.random.Generator) -> Params:
    """Initial values: N(0, init_std^2) embeddings, identity relation, bias at logit(prior), lecun-uniform MLPs."""
    d_u, d_i = settings.dim, settings.dim_i

    def normal(*shape: int) -> F32:
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(settings.init_std)

    params: Params = {
        "user": normal(n_users, d_u),
        "item": normal(n_items, d_i),
        # Otherwise, training with a small prior would spend its first epochs moving only the bias.
        "bias": np.array([logit(settings.prior)], dtype=np.float32),
    }
    if settings.scorer == "gmf":
        params["relation"] = np.ones(d_u, dtype=np.float32)
    elif settings.scorer == "bilinear":
        params["relation"] = np.eye(d_u, d_i, dtype=np.float32)
    elif settings.scorer == "fm":
        params["user_bias"] = np.zeros(n_users, dtype=np.float32)
        params["item_bias"] = np.zeros(n_items, dtype=np.float32)
    if "item" in settings.generators_of:
        params |= _mlp(rng, "item_gen", d_i + (d_u if settings.conditional else 0), settings.hidden, d_i)
    if "user" in settings.generators_of:
        params |= _mlp(rng, "user_gen", d_u + (d_i if settings.conditional else 0), settings.hidden, d_u)
    return params


def _mlp(rng: np.random.Generator, name: str, n_in: int, hidden: int, n_out: int) -> Params:
    def lecun_uniform(fan_out: int, fan_in: int) -> F32:
        limit = math.sqrt(3.0 / fan_in)
        return rng.uniform(-limit, limit, (fan_out, fan_in)).astype(np.float32)

    return {
        f"{name}.w1": lecun_uniform(hidden, n_in),
        f"{name}.b1": np.zeros(hidden, dtype=np.float32),
        f"{name}.w2": lecun_uniform(n_out, hidden),
        f"{name}.b2": np.zeros(n_out, dtype=np.float32),
    }
