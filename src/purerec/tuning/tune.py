"""`pr.tune`: the best settings of a model for some data."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from purerec.data.given import with_parts
from purerec.data.interactions import Interactions
from purerec.data.splits import Split
from purerec.evaluation.choosing import deciding_metric
from purerec.evaluation.metrics import parse_of_ranks
from purerec.evaluation.protocols import Protocol
from purerec.models.registry import model_name
from purerec.training.times import seconds_of
from purerec.tuning import search
from purerec.tuning.objective import Task
from purerec.tuning.search import Budget, Tuned


def tune(
    data: Interactions | Split,
    model: str | type,
    *,
    trials: int | None = None,
    limit: float | str | None = None,
    metric: str | None = None,
    folds: int = 2,
    fresh_folds: int = 3,
    settings: Mapping[str, Any] | None = None,
    also: Mapping[str, Any] | None = None,
    study: str | os.PathLike[str] | None = None,
    seed: int = 0,
    split: str | Split = "auto",
    protocol: Protocol = "exact",
    pool: int = 500,
    tell: Callable[[str], None] = lambda _: None,
) -> Tuned:
    """Search for the settings of a model on validation folds of the train part; the test part is never used.

    data                 a log, or a split of one
    trials, limit        when to stop, whichever comes first; a limit is seconds or '5m'; by default 30 trials
    metric               the metric that settings are chosen by; by default the data's own
    folds, fresh_folds   folds to search on, and fresh ones to check the best on
    settings             fixed, not searched
    also                 settings to try right after the defaults
    study                file for the trials; an existing search in it is continued
    split                how to split a log, or a `Split` of it
    tell                 called with a line for each trial
    """
    log, parts = with_parts(data, split)
    decides = parse_of_ranks(metric or deciding_metric(log.name)).name
    task = Task(parts.full_train, parts.made, decides, protocol, pool, folds, fresh_folds, seed)
    budget = Budget(trials, None if limit is None else seconds_of(limit))
    place = None if study is None else Path(study)
    name = model_name(model)
    return search.tune(task, name, fixed=settings, also=also, budget=budget, study=place, tell=tell)
