"""`purerec reproduce NAME`: run the experiment in a TOML file and return what goes into its results file.

The tables in README.md and docs/ are made from these results.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from purerec import __version__
from purerec.data import catalog
from purerec.data.splits import split
from purerec.errors import ConfigError, PurerecError
from purerec.experiments.exposure import on_biased_worlds
from purerec.experiments.fold_in import folding_quality
from purerec.experiments.leave_one_out import leave_one_out
from purerec.experiments.plans import plan_of
from purerec.experiments.run import RunStore, compare_models
from purerec.experiments.specs import (
    ComparisonSpec,
    ExposureSpec,
    FoldingSpec,
    LeaveOneOutSpec,
    UpdatingSpec,
    ValidationSpec,
    read_experiment,
)
from purerec.experiments.updating import updating_quality
from purerec.experiments.validation import on_validation_splits
from purerec.paper.printed import folder
from purerec.tuning.settings_file import check_searched, tuned_file

Tell = Callable[[str], None]
_NO_EXPERIMENTS = ("paper", "published")
"""Files beside the experiments that hold numbers of other people"""


def names() -> list[str]:
    """The names of all experiments."""
    return sorted(path.stem for path in folder().glob("*.toml") if path.stem not in _NO_EXPERIMENTS)


def reproduce(name: str, *, quick: bool = False, store: RunStore | None = None, tell: Tell = print) -> dict[str, Any]:
    """Run one experiment. `quick`: with two seeds only, to see that it works.

    A comparison that was interrupted continues with the runs in `store`.
    """
    if name not in names():
        raise ConfigError(f"there is no experiment {name!r}; choose from {', '.join(names())}")
    spec = read_experiment(folder() / f"{name}.toml")
    seeds = min(2, spec.seeds) if quick else spec.seeds
    head = {"experiment": name, "title": spec.title, "purerec": __version__, "seeds": seeds, "quick": quick}
    match spec:
        case ComparisonSpec():
            return head | _compared(name, spec, seeds, store, tell)
        case ValidationSpec():
            parts = split(catalog.load(spec.data), spec.split, n=spec.n)
            return head | on_validation_splits(spec, parts, seeds, tell)
        case ExposureSpec():
            return head | on_biased_worlds(spec, seeds, tell)
        case FoldingSpec():
            return head | folding_quality(spec, seeds, tell)
        case LeaveOneOutSpec():
            return head | leave_one_out(spec, seeds, tell)
        case UpdatingSpec():
            return head | updating_quality(spec, seeds, tell)


def _compared(name: str, spec: ComparisonSpec, seeds: int, store: RunStore | None, tell: Tell) -> dict[str, Any]:
    plans = [plan_of(line, spec) for line in spec.models]
    data = catalog.load(spec.data)
    parts = split(data, spec.split, n=spec.n)
    if spec.tuned:
        check_searched(tuned_file(spec.data), data, parts, tell)
    found = compare_models(
        parts,
        plans,
        seeds=seeds,
        baseline=spec.baseline,
        metric=spec.metric,
        protocol=spec.protocol,
        pool=spec.pool,
        store=store,
        tell=tell,
    )
    if found.failed:
        reasons = "; ".join(f"{model}: {reason}" for model, reason in found.failed.items())
        raise PurerecError(f"{name} is not complete ({reasons}); finished runs are kept, continue with --resume")
    return {"split": parts.describe(), "label": found.label} | found.to_dict()


def results_file(name: str, out: Path) -> Path:
    return out / f"{name}.json"
