"""`pr.compare` and `purerec compare`: several models on the same split, with paired tests."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from purerec.data.interactions import Interactions
from purerec.data.splits import Split
from purerec.data.splits import split as make_split
from purerec.evaluation.choosing import Names, check_choice
from purerec.evaluation.protocols import Protocol
from purerec.experiments.plans import Plan
from purerec.experiments.results import Comparison
from purerec.experiments.run import RunStore, compare_models
from purerec.models.registry import REGISTRY, model_name, settings_for_each
from purerec.tuning.settings_file import check_searched, chosen_file, settings_from


def compare(
    data: Interactions,
    models: str | type | Iterable[str | type] = "all",
    *,
    seeds: int = 5,
    against: str | None = None,
    metrics: Names | None = None,
    metric: str | None = None,
    settings: Mapping[str, Any] | None = None,
    settings_file: str | os.PathLike[str] | None = None,
    tuned: bool = False,
    split: str | Split = "auto",
    protocol: Protocol = "exact",
    pool: int = 500,
    store: RunStore | None = None,
    tell: Callable[[str], None] = lambda _: None,
    warn: Callable[[str], None] = lambda text: warnings.warn(text, stacklevel=3),
) -> Comparison:
    """Fit and evaluate several models on one split with seeds 0, 1, ..., and test them against one of them.

    models          names, or 'all'; a model of one's own as a class, or by name
    against         the model that the others are tested against: by default pure, or else the first
    metrics         what is reported: a list, or 'Recall@20,NDCG@20'; by default the data set's own
    metric          the one that models are tested in
    settings        for those models that have them
    settings_file   what `purerec tune` found; `tuned` takes that of the paper's data sets
    split           how to split the data, or a `Split` of it
    protocol, pool  as in `evaluate`
    store           finished runs, so that a comparison that was interrupted can continue
    tell, warn      called with a line for each run, and for a settings file that cannot be checked
    """
    listed = list(REGISTRY) if models == "all" else [models] if isinstance(models, str | type) else list(models)
    given = settings_for_each([model_name(model) for model in listed], settings or {})
    metric = check_choice(metrics, metric, protocol)
    parts = split if isinstance(split, Split) else make_split(data, split)
    file = chosen_file(data.name, None if settings_file is None else Path(settings_file), tuned=tuned)
    if file is not None:
        check_searched(file, data, parts, warn)
    plans = [
        Plan(name, name, (settings_from(file, name) if file is not None else {}) | own) for name, own in given.items()
    ]
    return compare_models(
        parts,
        plans,
        seeds=seeds,
        baseline=against,
        metrics=metrics,
        metric=metric,
        protocol=protocol,
        pool=pool,
        store=store,
        tell=tell,
    )
