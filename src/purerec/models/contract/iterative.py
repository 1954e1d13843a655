"""What models fitted in epochs share: settings, schedules and the interface to `training`."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self

import numpy as np
from pydantic import AfterValidator, Field

from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.evaluation.metrics import parse
from purerec.models.contract.config import Config
from purerec.models.contract.fitted_on import Known
from purerec.models.contract.recommender import Recommender
from purerec.models.contract.trained import Trained
from purerec.ranking.scorers import Factors
from purerec.storage import Layout, Part
from purerec.training.history import History
from purerec.training.loop import run_epochs
from purerec.training.run import Run, Trainable
from purerec.types import F32, I64, Mask, State

RateSchedule = Literal["steps", "cosine", "constant"]

_EPOCHS_TO_CONTINUE = 0.1
"""Epochs of an update, as a share of those of a fit"""
_RATE_TO_CONTINUE = 0.1
"""Learning rate of an update, as a share of that of a fit"""


def _metric_name(name: str) -> str:
    return parse(name, imports=False).name  # settings may come from files, which must not trigger imports


class EpochConfig(Config):
    """Settings of a model that is fitted in epochs."""

    epochs: int = Field(default=20, ge=0, le=100_000)
    """Passes over the data."""
    metric: Annotated[str, AfterValidator(_metric_name)] = "P@5"
    """What is measured on validation data, if there is any."""
    validate_every: int = Field(default=5, ge=1)
    """Epochs between validations."""
    patience: Annotated[int, Field(ge=1)] | None = None
    """Stop after this many validations in a row without improvement and return to the best. None: never."""


class Fitting(Trainable, Protocol):
    """A `Trainable` that can return its current parameters."""

    def parameters(self) -> State:
        """What the model scores with."""
        ...


class EpochModel(Recommender):
    """Base of models whose parameters, a dict of arrays, are trained in epochs."""

    config: EpochConfig
    learned: Trained
    continues: ClassVar[bool] = True
    """Whether an update continues from the last fit (see `updating`)"""

    @property
    def history(self) -> History | None:
        """How the last fit went; None if there was none, or the model was loaded."""
        return self.learned.history if self.is_fitted else None

    @property
    def stopped_by(self) -> Csr | None:
        """The validation positives that decided how long the fit took, if any."""
        return self.learned.stopped_by if self.is_fitted else None

    @property
    def _params(self) -> State:
        return self.learned.params

    @abstractmethod
    def _fitting(self, train: Interactions, seed: int) -> Fitting:
        """A fit of `train` that is about to begin, with its initial parameters."""

    def _remedy(self) -> str:
        """What to do if training diverges."""
        return f"lower learning_rate (now {getattr(self.config, 'learning_rate', 0):g}) or raise regularization"

    def _fit(self, train: Interactions, valid: Interactions | None, seed: int, run: Run) -> Trained:
        return self._train(self._fitting(train, seed), train, valid, seed, run)

    def _train(
        self,
        fitting: Fitting,
        log: Interactions,
        valid: Interactions | None,
        seed: int,
        run: Run,
        start: Trained | None = None,
    ) -> Trained:
        """Run the epochs. `start`: what an earlier fit learned, if this one continues from it."""
        validate = None
        if valid is not None and valid.n_positives:
            validate = self._validator(fitting, log, valid)
        config = self.config
        identity = {
            "model": self.name,
            "settings": config.model_dump(mode="json"),
            "seed": seed,
            "data": log.fingerprint,
            "start": None if start is None else start.digest(),
            "valid": None if validate is None or valid is None else valid.fingerprint,
        }
        history = run_epochs(
            fitting,
            epochs=config.epochs,
            run=run,
            identity=identity,
            validate=validate,
            metric=config.metric,
            validate_every=config.validate_every,
            patience=config.patience if validate is not None else None,
            remedy=self._remedy(),
        )
        learned = replace(self._extract(fitting, log.positives), history=history)
        if valid is not None and config.patience is not None:
            learned = learned.also_stopped_by(valid.positives)
        if start is not None and start.stopped_by is not None:
            learned = learned.also_stopped_by(start.stopped_by.widened(log.shape))
        return learned

    def _extract(self, fitting: Fitting, positives: Csr) -> Trained:
        """The current parameters, in the form that the model scores with."""
        return Trained(fitting.parameters())

    def _validator(self, fitting: Fitting, log: Interactions, valid: Interactions) -> Callable[[], float]:
        from purerec.data.splits import Split
        from purerec.evaluation.protocols import evaluate

        split, probe = Split(log, None, valid), copy(self)

        def validate() -> float:
            probe._finish_fit(self._extract(fitting, log.positives), log, 0, 0.0)
            return evaluate(probe, split, metrics=(self.config.metric,)).metrics[self.config.metric]

        return validate

    def _chosen(self, learned: Trained) -> dict[str, int | float]:
        found = dict(learned.chosen)
        if "user" in learned.params:
            found["dim"] = learned.params["user"].shape[1]  # an update keeps it, whatever the data would give now
        return {name: value for name, value in found.items() if getattr(self.config, name, value) is None}

    # ------------------------------------------------------------------ more data

    def _continue(self, train: Interactions, epochs: int | None, seed: int, run: Run) -> tuple[Trained, int]:
        """A few epochs at a lower rate, starting from the current parameters."""
        brief = self._with_settings(self._settings_to_continue(epochs))
        fitting = brief._fitting(train, seed)
        fitting.restore(_with_known(fitting.state(), self._known_state()), 0)
        return brief._train(fitting, train, None, seed, run, self.learned), brief.config.epochs

    def _with_settings(self, settings: Mapping[str, Any]) -> Self:
        """A copy of the model with some settings replaced."""
        other = copy(self)
        other.config = self.config.model_copy(update=dict(settings))
        return other

    def _known_state(self) -> State:
        """The parameters, under their names in the state of a fitting."""
        return dict(self._params)

    def _settings_to_continue(self, epochs: int | None) -> dict[str, Any]:
        """The settings that differ in a continued fit."""
        found: dict[str, Any] = {"epochs": epochs or max(1, round(_EPOCHS_TO_CONTINUE * self.config.epochs))}
        if "dim" in type(self.config).model_fields:  # None would depend on the number of users
            found["dim"] = self._params["user"].shape[1]
        rate = getattr(self.config, "learning_rate", None) or self.fitted_on.resolved.get("learning_rate")
        if rate is not None:
            found["learning_rate"] = rate * _RATE_TO_CONTINUE
        return found

    # ------------------------------------------------------------------ scoring and storing

    def factors(self) -> Factors | None:
        return Factors(self._params["user"], self._params["item"], self._params.get("item_bias"))

    def _score(self, user_idx: I64) -> F32:
        scores: F32 = self._params["user"][user_idx] @ self._params["item"].T
        if "item_bias" in self._params:
            scores += self._params["item_bias"]
        return scores

    def _layout(self) -> Layout:
        return {"user": Part(("users", "dim")), "item": Part(("items", "dim"))}

    def _state(self) -> State:
        return dict(self._params)

    def _from_state(self, state: State, known: Known) -> Trained:
        return Trained(dict(state))


def _with_known(fresh: State, known: State) -> State:
    """Fresh arrays with the known values in their first rows and columns; the rest, new ids and padding, is kept."""
    found = {}
    for name, array in fresh.items():
        found[name] = array
        if name in known:
            found[name] = np.array(array)
            found[name][tuple(slice(n) for n in known[name].shape)] = known[name]
    return found


def scheduled(schedule: RateSchedule, rate: float, number: int, epochs: int) -> float:
    """The learning rate of epoch `number`, from 0."""
    done = number / max(1, epochs)
    if schedule == "cosine":
        return rate * 0.5 * (1 + math.cos(math.pi * done))
    if schedule == "steps":
        return rate * (1.0 if done < 2 / 3 else 0.2 if done < 8 / 9 else 0.04)
    return rate


def with_strangers(vectors: F32, known: Mask) -> F32:
    """A copy of the users' vectors, with the mean of the known users for all others."""
    found = vectors.copy()
    found[~known] = vectors[known].mean(axis=0)
    return found
