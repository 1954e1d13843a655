"""`pr.compare` and `purerec compare`: several models on the same split, with paired tests."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from purerec.data.catalog import cache_folder
from purerec.data.given import with_parts
from purerec.data.interactions import Interactions
from purerec.data.splits import Split
from purerec.evaluation.choosing import MetricNames, check_choice
from purerec.evaluation.protocols import Protocol
from purerec.experiments.cells.cell import CellStore
from purerec.experiments.cells.work import Progress, Watch
from purerec.experiments.panels import compare_panel, make_panel
from purerec.experiments.plans import Plan
from purerec.experiments.results import Comparison
from purerec.models.registry import REGISTRY, model_name, settings_for_each
from purerec.training.times import seconds_of
from purerec.tuning.settings_file import check_searched, chosen_file, settings_from

QUICK = ("itemknn", "ials", "gmf", "ease", "pure")
"""Models worth trying first: the best of the quick ones, each of a different kind"""
_SEEDS = {100_000: 5, 300_000: 3}
"""Seeds for up to this many positives; one beyond that. For a million rows, the quick models take about a minute."""


def compare(
    data: Interactions | Split,
    models: str | type | Iterable[str | type] = QUICK,
    *,
    seeds: int | None = None,
    against: str | None = None,
    metrics: MetricNames | None = None,
    metric: str | None = None,
    settings: Mapping[str, Any] | None = None,
    settings_file: str | os.PathLike[str] | None = None,
    tuned: bool = False,
    split: str | Split = "auto",
    protocol: Protocol = "exact",
    pool: int = 500,
    limit: float | str | None = None,
    reuse: bool = True,
    store: CellStore | None = None,
    watch: Watch | None = None,
    tell: Callable[[str], None] = lambda _: None,
    warn: Callable[[str], None] = lambda text: warnings.warn(text, stacklevel=3),
) -> Comparison:
    """Fit and evaluate several models on one split with seeds 0, 1, ..., and test them against a baseline.

    data            a log, or a split of one
    models          names, or 'all'; by default the quick ones; a custom model as a class or by name
    seeds           by default 5 for up to 100,000 positives, 3 for up to 300,000, else 1
    against         the model that the others are tested against: by default pure, or else the first
    metrics         what to report: a list, or 'Recall@20,NDCG@20'; by default the data set's own
    metric          the one that models are tested in
    settings        settings for all models that have them
    settings_file   a file written by `purerec tune`; `tuned` uses the one for the paper's data sets
    split           how to split a log, or a `Split` of it
    protocol, pool  as in `evaluate`
    limit           how long the fits of one model may take: seconds, or '5m' (see `purerec.training.times`)
    reuse           reuse stored results and store new ones: an interrupted comparison continues where it stopped
    store           where to store them; by default in the cache
    watch, tell     called with the progress and with a line for each result
    warn            called if a settings file cannot be checked
    """
    if isinstance(models, str | type) or not isinstance(models, Iterable):
        models = list(REGISTRY) if models == "all" else [models]
    listed = list(models)
    given = settings_for_each([model_name(model) for model in listed], settings or {})
    metric = check_choice(metrics, metric, protocol)
    limit_s = None if limit is None else seconds_of(limit)
    log, parts = with_parts(data, split)
    file = chosen_file(log.name, None if settings_file is None else Path(settings_file), tuned=tuned)
    if file is not None:
        check_searched(file, log, parts, warn)
    plans = [
        Plan(name, name, (settings_from(file, name) if file is not None else {}) | own) for name, own in given.items()
    ]
    panel = make_panel(
        parts,
        plans,
        seeds=default_seeds(parts.full_train) if seeds is None else seeds,
        baseline=against,
        metrics=metrics,
        metric=metric,
        protocol=protocol,
        pool=pool,
    )
    place = (store or cell_store()) if reuse else None
    return compare_panel(panel, store=place, watch=watch or _lines(tell), limit_s=limit_s)


def cell_store(*, fresh: bool = False) -> CellStore:
    """The finished cells of all comparisons and tables on this machine."""
    return CellStore(cache_folder() / "cells", fresh=fresh)


def default_seeds(train: Interactions) -> int:
    """The default number of seeds."""
    return next((seeds for positives, seeds in _SEEDS.items() if train.n_positives <= positives), 1)


def _lines(tell: Callable[[str], None]) -> Watch:
    def watch(progress: Progress) -> None:
        if progress.line is not None:
            tell(progress.line)

    return watch
