"""Shared by BPR, LambdaFM, IRGAN and GraphGAN: factors with an item bias, trained epoch by epoch.

score(u, i) = e_u.q_i + b_i
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, ClassVar

from pydantic import Field

from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.engines.bpr import PairwiseEngine, PairwiseSettings
from purerec.models.contract.data_defaults import DIM, default_dim, shrinking
from purerec.models.contract.foldin import Folding, PairwiseFolding
from purerec.models.contract.iterative import EpochConfig, EpochModel, Fitting, RateSchedule, scheduled
from purerec.models.contract.search_space import Floats, Ints, SearchSpace
from purerec.rng import named_rng
from purerec.storage import Layout, Part
from purerec.training.history import Measures
from purerec.types import State


class FactorConfig(EpochConfig):
    """Settings that they all share."""

    dim: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Width of the factors. None: 5, 16 or 32, for up to 200, up to 2,000 or more users."""
    epochs: int = Field(default=100, ge=0, le=100_000)
    """Passes over the positives."""
    learning_rate: Annotated[float, Field(gt=0, le=10)] | None = None
    """Initial step size of SGD. None: 0.1 for up to 2,000 users, 0.3 for more."""
    schedule: RateSchedule = "cosine"
    """cosine: the rate falls to zero over the epochs; steps: to a fifth after two thirds of the epochs, to a
    twenty-fifth after eight ninths."""
    regularization: Annotated[float, Field(ge=0, le=100)] | None = None
    """L2 on the factors of a triple, at each step. None: 0.2 / sqrt(positives per user), at most 0.06."""
    bias_regularization: float = Field(default=0.001, ge=0, le=100)
    """L2 on the item biases of a triple."""
    init_std: float = Field(default=0.1, gt=0, le=10)
    """Standard deviation of the initial factors."""

    search_space: ClassVar[SearchSpace] = {
        "dim": DIM,
        "epochs": Ints(20, 250),
        "learning_rate": Floats(0.01, 0.5, start=lambda positives: default_rate(positives.shape[0])),
        "regularization": Floats(0.001, 0.2, start=lambda positives: default_regularization(positives)),
        "bias_regularization": Floats(1e-4, 0.1),
    }


def default_regularization(positives: Csr) -> float:
    """The default L2. Beyond its upper limit, models of sparse logs learn nothing but popularity."""
    return min(shrinking(0.2, positives), 0.06)


def default_rate(n_users: int) -> float:
    """The default step size. Larger logs have longer tails of people and items with few steps each: at a small rate,
    their factors are still near the start when the epochs end, and lists are close to popularity."""
    return 0.1 if n_users <= 2_000 else 0.3


class FactorModel(EpochModel):
    """Base of models whose score is a dot product and an item bias: user, item and item_bias."""

    config: FactorConfig

    @abstractmethod
    def _start(self, positives: Csr, seed: int) -> Fitting:
        """A fresh start."""

    def _fitting(self, train: Interactions, seed: int) -> Fitting:
        return self._start(train.positives, seed)

    def _layout(self) -> Layout:
        return {**super()._layout(), "item_bias": Part(("items",))}

    def _dim(self, n_users: int) -> int:
        return self.config.dim if self.config.dim is not None else default_dim(n_users)

    def _regularization(self, positives: Csr) -> float:
        given = self.config.regularization
        return self._default_regularization(positives) if given is None else given

    def _default_regularization(self, positives: Csr) -> float:
        return default_regularization(positives)

    def _rate(self, n_users: int) -> float:
        """The step size of the first epoch."""
        return self.config.learning_rate if self.config.learning_rate is not None else default_rate(n_users)

    def _remedy(self) -> str:
        rate = self.config.learning_rate
        now = "0.1, or 0.3 for more than 2,000 users" if rate is None else f"{rate:g}"
        return f"lower learning_rate (now {now}) or raise regularization"

    def _folding(self) -> Folding:
        """Use the risk of BPR, with the negatives of training or others that are equally hard."""
        p = self._params
        return PairwiseFolding(
            p["item"],
            p["item_bias"],
            self._regularization(self.seen),
            named_rng(0, "folding"),
            candidates=self._hard_negatives(),
        )

    def _hard_negatives(self) -> int:
        """The number of random items of which the best is the negative."""
        return 1 if getattr(self.config, "negatives", None) == "uniform" else getattr(self.config, "candidates", 1)


class PairwiseFitting:
    """SGD on triples, as `training` expects it."""

    def __init__(self, model: FactorModel, positives: Csr, settings: PairwiseSettings, seed: int) -> None:
        self._config, self._rate = model.config, model._rate(positives.shape[0])
        self.engine = PairwiseEngine(positives, settings, seed=seed)

    def epoch(self, number: int) -> Measures:
        rate = scheduled(self._config.schedule, self._rate, number, self._config.epochs)
        loss = self.engine.epoch(number, rate)
        return {"phase": "triples", "loss": loss, "learning_rate": rate, **self.engine.norms()}

    def parameters(self) -> State:
        return dict(self.engine.state())

    def state(self) -> State:
        return self.parameters()

    def restore(self, state: State, number: int) -> None:
        self.engine.restore(state)
