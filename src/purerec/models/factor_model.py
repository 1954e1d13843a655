"""What BPR, LambdaFM, IRGAN and GraphGAN share: factors with an item bias, trained epoch by epoch.

score(u, i) = e_u.q_i + b_i
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from purerec.engines.pairwise import PairwiseEngine, PairwiseSettings
from purerec.interactions import F32, I32, Csr, Interactions
from purerec.models.base import State
from purerec.models.epochs import EpochConfig, EpochModel, Fitting, Schedule, mean_norms, scheduled
from purerec.models.sizes import DIM, default_dim
from purerec.models.spaces import Floats, Ints, SearchSpace
from purerec.randomness import generator
from purerec.training import Record, Run

_FOLD_PAIRS = 20_000
_FOLD_STEPS = 30


class FactorConfig(EpochConfig):
    """Settings that all of them have."""

    dim: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Width of the factors. None: 5, 8 or 16 by the number of users (up to 2,000, 10,000, more)."""
    epochs: int = Field(default=100, ge=0, le=100_000)
    """Passes over the positives."""
    learning_rate: float = Field(default=0.1, gt=0, le=10)
    """Step size of SGD, at the start."""
    schedule: Schedule = "cosine"
    """cosine: falls to zero over the epochs; steps: a fifth of the rate after two thirds of the epochs, a
    twenty-fifth after eight ninths."""
    regularization: float = Field(default=0.02, ge=0, le=100)
    """L2 on the factors of a triple, at each step."""
    bias_regularization: float = Field(default=0.001, ge=0, le=100)
    """L2 on the item biases of a triple."""
    init_std: float = Field(default=0.1, gt=0, le=10)
    """Deviation of the random start of the factors."""

    search_space: ClassVar[SearchSpace] = {
        "dim": DIM,
        "epochs": Ints(20, 250),
        "learning_rate": Floats(0.01, 0.5),
        "regularization": Floats(0.001, 0.2),
        "bias_regularization": Floats(1e-4, 0.1),
    }


class FactorModel(EpochModel):
    """Base of models whose score is a dot product and an item bias: user, item and item_bias."""

    config: FactorConfig

    @abstractmethod
    def _game(self, positives: Csr, seed: int) -> Fitting:
        """A fresh game."""

    def _fit(self, log: Interactions, valid: Interactions | None, seed: int, run: Run) -> None:
        remedy = f"lower learning_rate (now {self.config.learning_rate:g}) or raise regularization"
        self._train(self._game(log.positives, seed), log, valid, seed, run, remedy=remedy)

    def _dim(self, n_users: int) -> int:
        return self.config.dim if self.config.dim is not None else default_dim(n_users)

    def learning_rate(self, number: int) -> float:
        """The rate of an epoch under the schedule."""
        return scheduled(self.config.schedule, self.config.learning_rate, number, self.config.epochs)

    def _score_history(self, item_idx: I32) -> F32:
        p = self._params
        vector = fold_in_pairwise(p["item"], p["item_bias"], item_idx, self.config.regularization)
        scores: F32 = p["item"] @ vector + p["item_bias"]
        return scores


class PairwiseGame:
    """SGD on triples, as `training` wants it."""

    def __init__(self, model: FactorModel, positives: Csr, settings: PairwiseSettings, seed: int) -> None:
        self.model = model
        self.engine = PairwiseEngine(positives, settings, seed=seed)

    def epoch(self, number: int) -> Record:
        rate = self.model.learning_rate(number)
        loss = self.engine.epoch(number, rate)
        return {"phase": "triples", "loss": loss, "learning_rate": rate, **mean_norms(self.parameters())}

    def parameters(self) -> State:
        return dict(self.engine.state())

    def state(self) -> State:
        return self.parameters()

    def restore(self, state: State, number: int) -> None:
        self.engine.restore(state)


def fold_in_pairwise(items: F32, bias: F32, history: I32, regularization: float) -> F32:
    """(dim,) the vector of a person who was not in training: the risk of BPR, minimised with the items fixed.

        min_e  mean_{i in history, j not} softplus(-(e.(q_i - q_j) + b_i - b_j)) + reg/2 |e|^2

    Convex; a few steps of Newton's method. Of long histories and large catalogues an even sample is taken.
    """
    rng = generator(0, "folding")
    others = np.setdiff1d(np.arange(len(items)), history)
    if not len(others):
        return np.zeros(items.shape[1], np.float32)
    liked = history if len(history) <= 100 else rng.choice(history, 100, replace=False)
    n_others = min(len(others), max(1, _FOLD_PAIRS // len(liked)))
    others = rng.choice(others, n_others, replace=False)
    differ = (items[liked][:, None, :] - items[others][None, :, :]).reshape(-1, items.shape[1]).astype(np.float64)
    offset = (bias[liked][:, None] - bias[others][None, :]).ravel().astype(np.float64)
    penalty = max(regularization, 1e-3)
    vector = np.zeros(items.shape[1])

    def value(e: Any) -> float:
        return float(np.logaddexp(0, -(differ @ e + offset)).mean() + 0.5 * penalty * e @ e)

    current = value(vector)
    for _ in range(_FOLD_STEPS):
        slope = 0.5 * (1 - np.tanh(0.5 * (differ @ vector + offset)))
        gradient = -(slope @ differ) / len(differ) + penalty * vector
        curve = (differ.T * (slope * (1 - slope))) @ differ / len(differ) + penalty * np.eye(len(vector))
        step, rate = np.linalg.solve(curve, gradient), 1.0
        while (after := value(vector - rate * step)) > current and rate > 1e-8:
            rate /= 2
        if current - after < 1e-10 * abs(current) + 1e-12:
            break
        vector, current = vector - rate * step, after
    return vector.astype(np.float32)
