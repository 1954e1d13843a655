"""`purerec reproduce NAME...`: run the experiments in TOML files and return the content of their results files.

The tables in README.md and docs/ are generated from these results. The comparisons of all experiments share one pool
of cells: a fit that two of them need is run once.

A results file has the experiment's name, title, number of seeds and `provenance`. A comparison adds the content of
`Comparison.to_dict`; one with several panels has a list of these, called `panels`. `panels_in` reads both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any

from purerec.data import catalog
from purerec.data.splits import Split, split
from purerec.errors import ConfigError, FetchError, PurerecError, did_you_mean
from purerec.experiments.cells.cell import CellStore
from purerec.experiments.cells.work import Watch, Worklist, unwatched
from purerec.experiments.exposure import on_biased_worlds
from purerec.experiments.fetchable import fetchable
from purerec.experiments.fold_in import folding_quality
from purerec.experiments.kinds.game import inside_the_game
from purerec.experiments.kinds.prior_estimation import on_known_priors
from purerec.experiments.kinds.relevance import true_and_estimated
from purerec.experiments.kinds.similar import similar_quality
from purerec.experiments.leave_one_out import leave_one_out
from purerec.experiments.panels import Panel, make_panel
from purerec.experiments.plans import plans_of
from purerec.experiments.provenance import provenance
from purerec.experiments.quick import quick_form
from purerec.experiments.results import Comparison
from purerec.experiments.specs import (
    AnyExperiment,
    ComparisonSpec,
    ExposureSpec,
    FoldingSpec,
    GameSpec,
    LeaveOneOutSpec,
    PanelSpec,
    PanelsSpec,
    PriorSpec,
    RelevanceSpec,
    SimilarSpec,
    StatisticsSpec,
    UpdatingSpec,
    ValidationSpec,
    read_experiment,
)
from purerec.experiments.statistics import data_statistics
from purerec.experiments.updating import updating_quality
from purerec.experiments.validation import on_validation_splits
from purerec.output.study.claims import claim_specs, pairs_to_test
from purerec.output.study.figures import figure_specs
from purerec.paper.printed import experiments_folder
from purerec.tuning.search import Tell
from purerec.tuning.settings_file import check_searched, tuned_file

_NO_EXPERIMENTS = ("paper", "published", "figures", "claims")
"""Files beside the experiments: published numbers, and what is derived from results"""


def names() -> list[str]:
    """The names of all experiments."""
    return sorted(path.stem for path in experiments_folder().glob("*.toml") if path.stem not in _NO_EXPERIMENTS)


def names_in_report() -> list[str]:
    """The experiments of the report: the paper's tables, and the basis of figures and verdicts on claims."""
    used = {name for figure in figure_specs() for name in figure.results}
    used |= {name for claim in claim_specs() for name in claim.results}
    return [name for name in names() if name.startswith("table") or name in used]


GROUPS = {"all": names_in_report, "everything": names}
"""Names that stand for several experiments"""


def group_of(asked: Sequence[str]) -> list[str] | None:
    """The experiments that a single name stands for, if it names a group."""
    return GROUPS[asked[0]]() if len(asked) == 1 and asked[0] in GROUPS else None


def chosen(asked: Sequence[str], *, quick: bool = False) -> dict[str, AnyExperiment]:
    """The experiments of these names, or of a group, checked. `quick` gives their small versions; a group then
    skips those that have none or are still slow."""
    known, group = names(), group_of(asked)
    found = {}
    for name in group or dict.fromkeys(asked):
        if name in GROUPS:
            raise ConfigError(f"{name!r} stands for several experiments; use it without other names")
        if name not in known:
            raise ConfigError(f"there is no experiment {name!r}; {did_you_mean(name, [*known, *GROUPS])}")
        spec: AnyExperiment | None = read_experiment(experiments_folder() / f"{name}.toml")
        assert spec is not None
        if quick:
            spec = None if group and getattr(spec, "slow", False) else quick_form(spec)
        if spec is not None:
            found[name] = spec
        elif not group:
            raise ConfigError(f"{name} is about larger data than --quick runs on; run it without --quick")
    return found


def reproduce(
    asked: Sequence[str],
    *,
    quick: bool = False,
    store: CellStore | None = None,
    watch: Watch = unwatched,
    tell: Tell = print,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run experiments and yield the name and the results of each as soon as it is done.

    quick     ML-100k, one seed, few values: to see that it works
    store     finished cells, so that an interrupted run can continue
    watch     called for every cell;  tell: called with the lines of other experiments, and warnings

    Comparisons in which a model failed, and experiments on data that cannot be fetched, are left out and reported as
    an error at the end. A table of several data sets is made of those that can be fetched.
    """
    specs, panels, without, broken = chosen(asked, quick=quick), {}, {}, []
    for name, spec in specs.items():
        try:
            panels[name], without[name] = panels_of(spec, tell)
        except FetchError as error:
            broken.append(f"{name}: {error}")
    work = Worklist(
        [cell for group in panels.values() for panel in group for cell in panel.cells], store, watch=watch
    )
    for name in panels:
        spec = specs[name]
        head = {"experiment": name, "title": spec.title, "seeds": getattr(spec, "seeds", None), "quick": quick}
        if without[name]:
            head["without"] = without[name]
        try:
            if panels[name]:
                work.run([cell for panel in panels[name] for cell in panel.cells])
                found = _compared(name, panels[name], work)
            else:
                found = _run(spec, tell, store, watch)
        except FetchError as error:
            broken.append(f"{name}: {error}")
            continue
        except PurerecError as error:
            if not panels[name]:
                raise
            broken.append(f"{name} is not complete ({error})")
            continue
        yield name, head | {"provenance": _made(panels[name], work)} | found
    if broken:
        raise PurerecError("; ".join(broken) + "; finished cells are kept: the same command continues from there")


def panels_in(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The panels of a results file, whether it has one or several."""
    return list(found["panels"]) if "panels" in found else [dict(found)]


def results_file(name: str, out: Path) -> Path:
    return out / f"{name}.json"


# ---------------------------------------------------------------------- comparisons


def panels_of(spec: AnyExperiment, tell: Tell) -> tuple[list[Panel], list[str]]:
    """The panels of a comparison, with their data, and data sets that are left out; empty for other experiments."""
    if isinstance(spec, ComparisonSpec):
        return [_panel(spec, spec, tell)], []
    if not isinstance(spec, PanelsSpec):
        return [], []
    return fetchable(spec.title, ((p.data, partial(_panel, spec, p, tell)) for p in spec.panels), tell)


def _panel(spec: ComparisonSpec | PanelsSpec, panel: PanelSpec, tell: Tell) -> Panel:
    plans, notes = [], {}
    for line in spec.models:
        for plan in plans_of(line, panel):
            if panel.only is None or plan.name in panel.only or line.name in panel.only:
                plans.append(plan)
                if line.note is not None:
                    notes[plan.name] = line.note
    parts = _split(panel.data, panel.split, panel.n)
    if panel.tuned:
        check_searched(tuned_file(panel.data), catalog.load(panel.data), parts, tell)
    baseline = spec.baseline if any(plan.name == spec.baseline for plan in plans) else None
    return make_panel(
        parts,
        plans,
        seeds=spec.seeds,
        baseline=baseline,
        metrics=spec.metrics,
        metric=spec.metric,
        protocol=panel.protocol,
        pool=panel.pool,
        notes=notes,
    )


@cache
def _split(data: str, how: str, n: int | None) -> Split:
    """The same object for all panels on the same split."""
    return split(catalog.load(data), how, n=n)


def _compared(name: str, panels: Sequence[Panel], work: Worklist) -> dict[str, Any]:
    found = []
    for panel in panels:
        comparison = panel.compared(work)
        if comparison.failed:
            raise PurerecError("; ".join(f"{model}: {reason}" for model, reason in comparison.failed.items()))
        varied = {plan.name: {"line": plan.line, **plan.varied} for plan in panel.plans if plan.varied}
        facts = {"split": panel.split.describe(), "protocol": panel.protocol, "label": comparison.label}
        found.append(facts | comparison.to_dict() | {"contrasts": _contrasts(name, comparison), "varied": varied})
    return found[0] if len(found) == 1 else {"panels": found}


def _contrasts(name: str, comparison: Comparison) -> list[dict[str, Any]]:
    """Tests of pairs of models, for the claims about them."""
    wanted = pairs_to_test(name, comparison.results, comparison.metrics, comparison.metric)
    return [
        {"rival": rival, "metric": metric, **asdict(comparison.contrast(model, rival, metric))}
        for model, rival, metric in wanted
    ]


def _made(panels: Sequence[Panel], work: Worklist) -> dict[str, Any]:
    """The provenance, with the number of cells from other commits or machines."""
    now = provenance()
    others: dict[tuple[Any, ...], int] = {}
    for cell in (cell for panel in panels for cell in panel.cells):
        made = work.results[cell].provenance
        place = made.get("commit"), made.get("clean"), made.get("cpu"), made.get("cores")
        others[place] = others.get(place, 0) + 1
    if set(others) - {(now["commit"], now["clean"], now["cpu"], now["cores"])}:
        keys = ("commit", "clean", "cpu", "cores", "cells")
        now["cells"] = [dict(zip(keys, (*place, n), strict=True)) for place, n in others.items()]
    return now


# ---------------------------------------------------------------------- experiments of other kinds


def _run(spec: AnyExperiment, tell: Tell, store: CellStore | None, watch: Watch) -> dict[str, Any]:
    match spec:
        case StatisticsSpec():
            return data_statistics(spec, tell)
        case ValidationSpec():
            return on_validation_splits(spec, _split(spec.data, spec.split, spec.n), spec.seeds, store, watch)
        case GameSpec():
            return inside_the_game(spec, _split(spec.data, spec.split, spec.n), tell)
        case ExposureSpec():
            return on_biased_worlds(spec, spec.seeds, store, watch)
        case RelevanceSpec():
            return true_and_estimated(spec, spec.seeds, tell)
        case FoldingSpec():
            return folding_quality(spec, spec.seeds, store, watch)
        case LeaveOneOutSpec():
            return leave_one_out(spec, spec.seeds, store, watch)
        case PriorSpec():
            return on_known_priors(spec, spec.seeds, tell)
        case SimilarSpec():
            return similar_quality(spec, spec.seeds, tell)
        case UpdatingSpec():
            return updating_quality(spec, spec.seeds, store, watch)
        case ComparisonSpec() | PanelsSpec():
            raise AssertionError("comparisons are made of panels")
