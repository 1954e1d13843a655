"""What models share that are fitted in epochs: their settings, schedules, and the way into `training`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Literal, Protocol

import numpy as np
from pydantic import Field

from purerec.interactions import F32, I64, Interactions, Mask
from purerec.models.base import Config, Recommender, State
from purerec.ranking import Factors
from purerec.training import Game, History, Run, train

Schedule = Literal["steps", "cosine", "constant"]


class EpochConfig(Config):
    """Settings of a model that is fitted in epochs."""

    epochs: int = Field(default=20, ge=0, le=100_000)
    """Passes over the data."""
    metric: str = "P@5"
    """What is measured on validation data, if there is any."""
    validate_every: int = Field(default=5, ge=1)
    """Epochs between validations."""
    patience: Annotated[int, Field(ge=1)] | None = None
    """Stop when so many validations in a row were no better, and go back to the best. None: never."""


class Fitting(Game, Protocol):
    """A game that can tell the parameters reached so far."""

    def parameters(self) -> State:
        """What the model scores with."""
        ...


class EpochModel(Recommender):
    """Base of models whose parameters, a dict of arrays, are improved by epochs."""

    config: EpochConfig
    history: History | None = None
    _params: State

    def _train(
        self, fitting: Fitting, log: Interactions, valid: Interactions | None, seed: int, run: Run, *, remedy: str
    ) -> None:
        validate = None
        if valid is not None and valid.n_positives:
            validate = self._validator(fitting, log, valid)
        identity = {
            "model": self.name,
            "settings": self.config.model_dump(mode="json"),
            "seed": seed,
            "data": log.fingerprint,
        }
        self.history = train(
            fitting,
            epochs=self.config.epochs,
            run=run,
            identity=identity,
            validate=validate,
            metric=self.config.metric,
            validate_every=self.config.validate_every,
            patience=self.config.patience if validate is not None else None,
            remedy=remedy,
        )
        self._params = fitting.parameters()

    def _validator(self, fitting: Fitting, log: Interactions, valid: Interactions) -> Callable[[], float]:
        from purerec.evaluating import evaluate
        from purerec.splitting import Split

        split = Split(log, None, valid)

        def validate() -> float:
            self._params = fitting.parameters()
            self._remember(log, 0, 0.0)
            return evaluate(self, split, metrics=(self.config.metric,)).metrics[self.config.metric]

        return validate

    def factors(self) -> Factors | None:
        return Factors(self._params["user"], self._params["item"], self._params.get("item_bias"))

    def _score(self, user_idx: I64) -> F32:
        scores: F32 = self._params["user"][user_idx] @ self._params["item"].T
        if "item_bias" in self._params:
            scores += self._params["item_bias"]
        return scores

    def _state(self) -> State:
        return dict(self._params)

    def _set_state(self, state: State) -> None:
        self._params = dict(state)


def scheduled(schedule: Schedule, rate: float, number: int, epochs: int) -> float:
    """The learning rate of epoch `number`, from 0."""
    done = number / max(1, epochs)
    if schedule == "cosine":
        return rate * 0.5 * (1 + math.cos(math.pi * done))
    if schedule == "steps":
        return rate * (1.0 if done < 2 / 3 else 0.2 if done < 8 / 9 else 0.04)
    return rate


def with_strangers(vectors: F32, known: Mask) -> F32:
    """A copy of the users' vectors in which those of whom nothing is known have the mean of the others."""
    found = vectors.copy()
    found[~known] = vectors[known].mean(axis=0)
    return found


def mean_norms(params: State) -> dict[str, float]:
    """Mean lengths of users' and items' vectors, for the history and the check of divergence."""
    return {f"{side}_norm": float(np.linalg.norm(params[side], axis=1).mean()) for side in ("user", "item")}
