"""One run: fit a model and evaluate it."""

from __future__ import annotations

import typing
from dataclasses import replace
from typing import Any

from purerec.data.interactions import Interactions
from purerec.data.memory import Peak
from purerec.data.splits import Split
from purerec.data.splits import split as make_split
from purerec.errors import ConfigError
from purerec.evaluation.parts import Evaluator
from purerec.evaluation.protocols import Protocol, evaluate
from purerec.experiments.provenance import provenance
from purerec.experiments.results import RunResult
from purerec.models.contract.fitted_on import Stopwatch
from purerec.models.contract.recommender import Recommender
from purerec.models.registry import model_class
from purerec.ranking.scorers import Scorer
from purerec.training.run import Run


class Way(typing.Protocol):
    """How a model gets its scores, if not just by a fit on the train part."""

    @property
    def facts(self) -> dict[str, Any]:
        """Everything that it depends on besides the split, the model and the seed, as JSON."""

    def scorer(self, model: Recommender, split: Split, seed: int, options: Run | None) -> tuple[Scorer, float]:
        """Fit the model; return the scorer to evaluate, and the seconds that count."""


def run(
    split: Split,
    model: Recommender,
    *,
    seed: int = 0,
    protocol: Protocol = "exact",
    options: Run | None = None,
    evaluator: Evaluator = evaluate,
    way: Way | None = None,
    **evaluation: Any,
) -> RunResult:
    """Fit a model on all of train with fixed settings, and evaluate it on the test part.

    A model that is already fitted is only evaluated; `evaluate` raises an error if it has seen the test part.
    """
    peak = Peak()
    watch = Stopwatch()
    scorer: Scorer = model
    if way is not None:
        scorer, fitted = way.scorer(model, split, seed, options)
    else:
        if not model.is_fitted:
            model.fit(split.full_train, seed=seed, run=options)
        fitted = watch.seconds
    ready = watch.seconds
    result = evaluator(scorer, split, protocol=protocol, seed=seed, **evaluation)
    done = watch.seconds
    return RunResult(
        split.train.name,
        split.label,
        model.name,
        model.config.model_dump(mode="json"),
        dict(model.fitted_on.resolved),
        seed,
        result,
        fitted,
        done - ready,
        peak.mb,
        peak.mb - peak.before_mb,
        provenance(),
    )


def check_epochs(model: str) -> None:
    """Raise an error for early stopping of a model without epochs."""
    if "patience" not in model_class(model).config_class.model_fields:
        raise ConfigError(f"{model} is not fitted in epochs, so there is nothing to stop early")


def fit_with_early_stopping(
    model: Recommender, train: Interactions, *, seed: int, options: Run, patience: int = 5
) -> None:
    """Find the number of epochs on a validation part split off from train, then refit on all of train."""
    check_epochs(model.name)
    fields = model.config.model_dump()
    probe = type(model)(**{**fields, "patience": fields["patience"] or patience})
    parts = make_split(replace(train, name="train"), "ratio", test=0.1, valid=False, seed=seed)
    probe.fit(parts.train, valid=parts.test, seed=seed, run=replace(options, checkpoint=None, resume=False))
    best = getattr(probe, "history", None)
    epochs = None if best is None or best.best_epoch is None else best.best_epoch + 1
    model.fit(train, seed=seed, run=replace(options, stop_after=epochs))
    model._amend(epochs_found=epochs)
