"""`pr.tune`: the best settings of a model for some data."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from purerec.data.interactions import Interactions
from purerec.data.splits import Split
from purerec.data.splits import split as make_split
from purerec.evaluation.metrics import parse_of_ranks
from purerec.evaluation.protocols import Protocol
from purerec.models.registry import model_name
from purerec.tuning import search
from purerec.tuning.objective import Task
from purerec.tuning.search import Budget, Tuned


def tune(
    data: Interactions,
    model: str | type,
    *,
    trials: int | None = None,
    minutes: float | None = None,
    metric: str = "P@5",
    folds: int = 2,
    fresh: int = 3,
    settings: Mapping[str, Any] | None = None,
    also: Mapping[str, Any] | None = None,
    study: str | os.PathLike[str] | None = None,
    seed: int = 0,
    split: str | Split = "auto",
    protocol: Protocol = "exact",
    pool: int = 500,
    tell: Callable[[str], None] = lambda _: None,
) -> Tuned:
    """Search for the settings of a model on validation folds of the train part; the test part is not looked at.

    trials, minutes   when to stop, whichever comes first; 30 trials if neither is given
    metric            what settings are chosen by
    folds, fresh      folds to search on, and fresh ones to check the best on
    settings          fixed, not searched
    also              settings to try right after the defaults
    study             file for the trials; a search that it has is continued
    split             how to split the data, or a `Split` of it
    tell              called with a line for each trial
    """
    parts = split if isinstance(split, Split) else make_split(data, split)
    task = Task(parts.full_train, parts.made, parse_of_ranks(metric).name, protocol, pool, folds, fresh, seed)
    place = None if study is None else Path(study)
    name = model_name(model)
    return search.tune(task, name, fixed=settings, also=also, budget=Budget(trials, minutes), study=place, tell=tell)
