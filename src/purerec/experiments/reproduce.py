"""The paper's tables, and tables it should have had, from their TOML files: `purerec reproduce NAME`.

A file says data, split, protocol, models, settings and seeds; running it writes one JSON file, from which README and
docs are rendered. An interrupted run goes on where it was.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from purerec import __version__
from purerec.data import catalog
from purerec.data.folds import thinned
from purerec.data.splits import Split, split
from purerec.data.synthetic import make_world
from purerec.errors import ConfigError, PurerecError
from purerec.evaluation.protocols import Evaluation, evaluate
from purerec.evaluation.significance import compare, pooled
from purerec.experiments import updating
from purerec.experiments.run import Plan, RunStore, compare_models
from purerec.models.registry import make_model, settings_it_has
from purerec.paper.printed import folder
from purerec.tuning.settings_file import check_searched, tuned_file, tuned_settings

Tell = Callable[[str], None]


def names() -> list[str]:
    """The experiments that there are."""
    return sorted(path.stem for path in folder().glob("*.toml") if path.stem != "paper")


def reproduce(name: str, *, quick: bool = False, store: RunStore | None = None, tell: Tell = print) -> dict[str, Any]:
    """Run one experiment and give back what goes into its results file. `quick`: two seeds, to see that it works."""
    if name not in names():
        raise ConfigError(f"there is no experiment {name!r}; there are {', '.join(names())}")
    with (folder() / f"{name}.toml").open("rb") as file:
        spec = tomllib.load(file)
    seeds = min(2, spec["seeds"]) if quick else spec["seeds"]
    head = {"experiment": name, "title": spec["title"], "purerec": __version__, "seeds": seeds, "quick": quick}
    if spec.get("kind") == "exposure":
        return head | _exposure(spec, seeds, tell)
    if spec.get("kind") == "folding":
        from purerec.experiments.fold_in import folding_quality

        return head | folding_quality(spec, seeds, tell)
    if spec.get("kind") == "updating":
        return head | updating.reproduce(spec, seeds, tell)
    data = catalog.load(spec["data"])
    parts = split(data, spec["split"], n=spec.get("n"))
    if spec.get("kind") == "validation":
        return head | _validation(spec, parts, seeds, tell)
    if spec.get("tuned"):
        check_searched(tuned_file(spec["data"]), data, parts, tell)
    found = compare_models(
        parts,
        [_plan(line, spec) for line in spec["models"]],
        seeds=seeds,
        baseline=spec["baseline"],
        metric=spec["metric"],
        protocol=spec["protocol"],
        pool=spec.get("pool", 500),
        store=store,
        tell=tell,
    )
    if found.failed:
        reasons = "; ".join(f"{model}: {reason}" for model, reason in found.failed.items())
        raise PurerecError(f"{name} is not complete ({reasons}); the other runs are kept, and --resume goes on")
    return head | {"split": parts.describe(), "label": found.label} | found.to_dict()


def _plan(line: Mapping[str, Any], spec: Mapping[str, Any]) -> Plan:
    """A line of an experiment: settings for all models that have them, then those found for the data if the
    experiment says `tuned = true` and the line not `tuned = false`, then those of the line."""
    model = line.get("model", line["name"])
    settings = settings_it_has(model, spec.get("settings", {}))
    if spec.get("tuned") and line.get("tuned", True):
        settings |= tuned_settings(spec["data"], model)
    settings |= line.get("settings", {})
    if "preset" in line:
        from purerec.models.pure import PURE

        settings = PURE.paper(line["preset"], **settings).config.model_dump()
    return Plan(line["name"], model, settings)


# ---------------------------------------------------------------------- settings, without the test part


def _validation(spec: Mapping[str, Any], parts: Split, seeds: int, tell: Tell) -> dict[str, Any]:
    """Every model on the same validation splits of the train part: what settings may be chosen by."""
    log = replace(parts.full_train, name=f"{spec['data']} train")
    if "positives_each" in spec:
        log = thinned(log, spec["positives_each"])
    results: dict[str, list[Evaluation]] = {line["name"]: [] for line in spec["models"]}
    for seed in range(seeds):
        fold = split(log, "ratio", test=0.2, valid=False, seed=seed)
        for line in spec["models"]:
            model = _plan(line, spec).make().fit(fold.train, seed=seed)
            results[line["name"]].append(evaluate(model, fold, seed=seed))
        tell(f"split {seed}: " + _line(results, spec["metric"]))
    base = results[spec["baseline"]]
    rows = {}
    for name, runs in results.items():
        # The gain of a split: the mean over metrics of the ratio to the baseline on the same split and seed.
        gains = [
            float(np.mean([run.metrics[m] / other.metrics[m] for m in run.metrics])) - 1
            for run, other in zip(runs, base, strict=True)
        ]
        rows[name] = {
            "metrics": {m: float(np.mean([run.metrics[m] for run in runs])) for m in runs[0].metrics},
            "gain": float(np.mean(gains)),
            "gain_error": float(np.std(gains, ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else 0.0,
        }
    return {"metric": spec["metric"], "baseline": spec["baseline"], "rows": rows}


# ---------------------------------------------------------------------- worlds with known truth


def _exposure(spec: Mapping[str, Any], seeds: int, tell: Tell) -> dict[str, Any]:
    """Every model on worlds of growing exposure bias, judged by relevant pairs that were never observed."""
    metric, baseline = spec["metric"], spec["baseline"]
    rows = []
    for exposure in spec["exposures"]:
        results: dict[str, list[Evaluation]] = {line["name"]: [] for line in spec["models"]}
        chosen: dict[str, list[Any]] = {name: [] for name in results}
        for seed in range(seeds):
            world = make_world(**spec["world"], exposure=exposure, seed=seed)
            truth = world.true_split(users=spec["test_users"], seed=seed)
            for line in spec["models"]:
                name, kind, settings = line["name"], line.get("model", line["name"]), dict(line.get("settings", {}))
                if kind != "itempop":
                    settings |= _choose(kind, settings, spec["candidates"], world.observed, seed, metric)
                    chosen[name].append({k: settings[k] for k in spec["candidates"]})
                model = make_model(kind, **settings).fit(truth.train, seed=seed)
                results[name].append(evaluate(model, truth, seed=seed))
            tell(f"exposure {exposure:g} seed {seed}: " + _line(results, metric))
        # Worlds of different seeds have different people: each seed is paired by user, then all are pooled.
        rows.append(
            {
                "exposure": exposure,
                "metrics": {
                    name: {m: float(np.mean([r.metrics[m] for r in runs])) for m in runs[0].metrics}
                    for name, runs in results.items()
                },
                "spread": {
                    name: float(np.std([r.metrics[metric] for r in runs], ddof=1)) if len(runs) > 1 else 0.0
                    for name, runs in results.items()
                },
                "chosen": chosen,
                "tests": _pooled_tests(results, baseline, metric),
            }
        )
    return {"metric": metric, "baseline": baseline, "rows": rows}


def _choose(
    name: str, settings: Mapping[str, Any], candidates: Mapping[str, list[Any]], observed: Any, seed: int, metric: str
) -> dict[str, Any]:
    """The candidate that does best on a validation part of what was observed."""
    parts: Split = split(observed, "ratio", test=0.2, valid=False, seed=seed)
    ((key, values),) = candidates.items()
    scores = [
        evaluate(make_model(name, **{**settings, key: value}).fit(parts.train, seed=seed), parts).metrics[metric]
        for value in values
    ]
    return {key: values[int(np.argmax(scores))]}


def _pooled_tests(results: Mapping[str, list[Evaluation]], baseline: str, metric: str) -> list[dict[str, Any]]:
    each = {name: pooled(runs, metric) for name, runs in results.items()}
    return [asdict(row) for row in compare(each, baseline, metric) if row.model != baseline]


def _line(results: Mapping[str, list[Evaluation]], metric: str) -> str:
    return ", ".join(f"{name} {runs[-1].metrics[metric]:.4f}" for name, runs in results.items())


def results_file(name: str, out: Path) -> Path:
    return out / f"{name}.json"
