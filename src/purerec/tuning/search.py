"""Search for settings: from a model, its space and a budget to the best settings on validation folds, and a check.

trials      the first uses the defaults, so that the best is never worse; then Optuna's TPE sampler proposes
value       the mean of the metric over a few folds of the train part; the test part is never passed in
pruning     models trained in epochs report after each fifth of them, the others after each fold; a trial whose best
            report is below the median of earlier trials at the same point is pruned
check       the best of many trials is partly just lucky. Defaults and best are fitted again on fresh folds, and the
            best is kept only if it is better there beyond noise (paired test over users)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from purerec import __version__
from purerec.errors import ConfigError, MissingExtraError, PurerecError, counted
from purerec.evaluation.code_digest import code_of, code_of_metric
from purerec.models.contract.search_space import SearchSpace
from purerec.models.registry import make_model, model_class
from purerec.tuning.objective import Check, OutOfTime, SettingValues, Task
from purerec.tuning.study import claimed, in_use, need_optuna, open_study, seed_next

if TYPE_CHECKING:
    from optuna import Study, Trial

Tell = Callable[[str], None]

DEFAULT_TRIALS = 30


@dataclass(frozen=True)
class Budget:
    """When a search ends: whichever limit is reached first, counting what an earlier, interrupted run used.

    The time excludes the first trial: the defaults are always measured, and their time includes compiling kernels.
    """

    trials: int | None = None
    limit_s: float | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and not value > 0:
                raise ConfigError(f"{name.removesuffix('_s')} must be more than 0, not {value!r}")

    @property
    def most_trials(self) -> float:
        if self.trials is not None:
            return self.trials
        return DEFAULT_TRIALS if self.limit_s is None else math.inf

    @property
    def seconds(self) -> float:
        return math.inf if self.limit_s is None else self.limit_s


@dataclass(frozen=True)
class Tuned:
    """What a search found.

    model, metric             what was searched, and by which metric
    kept, why                 whether `settings` are the tuned ones or the defaults, and the reason
    best_settings             of the best trial
    trials, pruned, failed    the numbers of trials that ran, were pruned, and failed
    seconds                   how long it took
    importance                how much each setting mattered, as a share
    """

    model: str
    metric: str
    settings: SettingValues
    """What to use: those of the best trial, or the defaults (and fixed settings) if it was no better in the check."""
    kept: Literal["tuned", "defaults"]
    why: str
    defaults: float
    """Value of the first trial."""
    best: float
    """Value of the best."""
    best_settings: SettingValues
    trials: int
    pruned: int
    failed: int
    seconds: float
    check: Check | None
    """None if no trial was better than the defaults."""
    top: list[dict[str, Any]]
    """The best few trials: number, value, settings."""
    importance: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)

    def entry(self) -> dict[str, Any]:
        """The entry of a settings file."""
        fresh = None
        if self.check is not None:
            fresh = {key: round(value, 5) for key, value in asdict(self.check).items()}
        return {
            "settings": self.settings,
            "kept": self.kept,
            "why": self.why,
            "validation": {"defaults": round(self.defaults, 5), "best": round(self.best, 5)},
            "fresh": fresh,
            "best_settings": None if self.kept == "tuned" else self.best_settings,
            "trials": self.trials,
            "pruned": self.pruned,
            "failed": self.failed,
            "seconds": round(self.seconds, 1),
        }


def tune(
    task: Task,
    model: str,
    *,
    fixed: Mapping[str, Any] | None = None,
    also: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
    study: Path | None = None,
    tell: Tell = lambda _: None,
) -> Tuned:
    """Search for the best settings of a model.

    `fixed` settings are not searched. `also` are settings to try right after the defaults. `study` is a file that
    stores trials; earlier trials of the same search in it count. No other process may use it at the same time.
    """
    with claimed(study) if study is not None else nullcontext(True) as ours:
        if not ours:
            raise in_use(study)
        search = Search(task, model, dict(fixed or {}), study)
        search.run(dict(also or {}), budget or Budget(), tell)
        return search.result(tell)


class Pruned(Exception):
    """A trial was pruned."""


class Search:
    """One model, one study."""

    def __init__(self, task: Task, model: str, fixed: SettingValues, path: Path | None) -> None:
        self.optuna = need_optuna()
        config = make_model(model, **fixed).config
        self.task, self.model = task, model
        self.fixed: SettingValues = {name: getattr(config, name) for name in fixed}  # as parsed by the config
        self.space: SearchSpace = {n: s for n, s in type(config).search_space.items() if n not in fixed}
        self.study: Study = open_study(path, self.identity())
        self.states = self.optuna.trial.TrialState

    def identity(self) -> dict[str, Any]:
        """What all trials of a study must have in common, so that their values can be compared."""
        task = self.task
        return {
            "model": self.model,
            "data": task.train.fingerprint,
            "held_out": [task.made.method, task.made.parameters.given()],
            "metric": task.metric,
            "protocol": task.protocol if task.protocol == "exact" else f"{task.protocol} {task.pool}",
            "folds": [task.n_folds, task.n_fresh],
            "seed": task.seed,
            "fixed": self.fixed,
            "space": {name: space.describe() for name, space in self.space.items()},
            "purerec": __version__,
            "code": code_of(model_class(self.model)),
            "metric's code": code_of_metric(task.metric),
        }

    # ------------------------------------------------------------------ trials

    def run(self, also: SettingValues, budget: Budget, tell: Tell) -> None:
        """Run trials until the budget is spent."""
        self._enqueue(also)
        most = budget.most_trials if self.space else 1
        if not self.space:
            tell(f"{self.model} has no settings to search: one trial")
        while len(self._ended()) < most:
            left = budget.seconds - self.spent()
            if left <= 0:
                break
            start = time.perf_counter()  # includes the sampler's time
            seed_next(self.study, self.task.seed)
            self._one(self.study.ask(), start, start + left, tell)

    def _enqueue(self, also: SettingValues) -> None:
        """Enqueue the defaults first, unless already tried, then the requested settings."""
        states = (self.states.COMPLETE, self.states.PRUNED, self.states.WAITING)
        known = {t.user_attrs.get("given") for t in self.study.get_trials(deepcopy=False, states=states)}
        if "defaults" not in known:
            self.study.enqueue_trial(self.start(), user_attrs={"given": "defaults"})
        wanted = {n: s.nearest(also[n]) for n, s in self.space.items() if n in also and also[n] is not None}
        if wanted and "also" not in known:
            self.study.enqueue_trial(self.start() | wanted, user_attrs={"given": "also"})

    def start(self) -> SettingValues:
        """The defaults as points of the space, for the sampler to learn from."""
        config = make_model(self.model, **self.fixed).config
        found: SettingValues = {}
        for name, space in self.space.items():
            value = getattr(config, name)
            if value is None:
                value = space.start(self.task.train.positives) if callable(space.start) else space.start
            found[name] = space.nearest(value)
        return found

    def _one(self, trial: Trial, start: float, deadline: float, tell: Tell) -> None:
        is_default = trial.user_attrs.get("given") == "defaults"
        best = max((t.value for t in self._complete()), default=-math.inf)
        drawn = {name: space.suggest(name, trial) for name, space in self.space.items()}
        settings = self.fixed if is_default else self.fixed | drawn
        value: float | None = None
        state, note = self.states.FAIL, ""

        def report(reported: float, step: int) -> None:
            trial.report(reported, step)
            if not is_default and step < self.task.last_step and trial.should_prune():
                raise Pruned

        try:
            value = self._known(settings)
            if value is None:
                value = self.task.measure(self.model, settings, report, math.inf if is_default else deadline)
            state, note = self.states.COMPLETE, f"{value:.4f}"
        except Pruned:
            state = self.states.PRUNED
        except OutOfTime:
            pass  # does not count if the search continues with more time
        except MissingExtraError:
            raise
        except PurerecError as error:
            if is_default:
                raise
            # Worse than any other, for the sampler: training diverged, or the values are incompatible.
            state, note = self.states.PRUNED, f"failed: {error}"
            trial.set_user_attr("error", str(error))
        finally:
            trial.set_user_attr("settings", settings)
            trial.set_user_attr("seconds", round(time.perf_counter() - start, 3))
            self.study.tell(trial, value, state=state)
        if (value is not None and value > best) or note.startswith("failed"):
            what = "defaults" if is_default else ", ".join(f"{name} {drawn[name]}" for name in drawn)
            tell(f"{self.model} trial {trial.number}: {self.task.metric} {note} ({what})")

    # ------------------------------------------------------------------ results

    def _ended(self) -> list[Any]:
        """Trials that count: all but interrupted ones."""
        return self.study.get_trials(deepcopy=False, states=(self.states.COMPLETE, self.states.PRUNED))

    def _complete(self) -> list[Any]:
        return self.study.get_trials(deepcopy=False, states=(self.states.COMPLETE,))

    def _known(self, settings: SettingValues) -> float | None:
        same = [t.value for t in self._complete() if t.user_attrs["settings"] == settings]
        return same[0] if same else None

    def spent(self) -> float:
        """Seconds of all trials, including failed ones, except the trial of the defaults."""
        trials = [t.user_attrs for t in self.study.get_trials(deepcopy=False)]
        return float(sum(t.get("seconds", 0.0) for t in trials if t.get("given") != "defaults"))

    def result(self, tell: Tell) -> Tuned:
        complete = self._complete()
        first = next(t for t in complete if t.user_attrs.get("given") == "defaults")
        ranked = sorted(complete, key=lambda t: (-t.value, t.number))
        best = ranked[0] if ranked[0].value > first.value else first
        check, why = None, "no trial was better than the defaults" if self.space else "there is nothing to search"
        if best is not first:
            check = self._check(best.user_attrs["settings"], tell)
            sure = f"{check.difference:+.4f} [{check.ci_low:+.4f}, {check.ci_high:+.4f}], p = {check.p:.2g}"
            verdict = "better than the defaults" if check.better else "not better than the defaults beyond noise"
            why = f"the best trial is {verdict} on fresh folds: {sure}"
        kept: Literal["tuned", "defaults"] = "tuned" if check is not None and check.better else "defaults"
        all_trials = self.study.get_trials(deepcopy=False)
        pruned = [t for t in all_trials if t.state == self.states.PRUNED]
        failed = [t for t in pruned if "error" in t.user_attrs]
        return Tuned(
            model=self.model,
            metric=self.task.metric,
            settings=dict(best.user_attrs["settings"] if kept == "tuned" else self.fixed),
            kept=kept,
            why=why,
            defaults=first.value,
            best=best.value,
            best_settings=dict(best.user_attrs["settings"]),
            trials=len(self._ended()),
            pruned=len(pruned) - len(failed),
            failed=len(failed),
            seconds=self.spent(),
            check=check,
            top=[{"trial": t.number, "value": t.value, "settings": t.user_attrs["settings"]} for t in ranked[:5]],
            importance=self._importance(),
        )

    def _check(self, settings: SettingValues, tell: Tell) -> Check:
        """The check, stored in the study, so that continuing a finished one costs nothing."""
        known = self.study.user_attrs.get("check")
        if known is not None and known["settings"] == settings:
            return Check(**known["found"])
        tell(f"{self.model}: defaults and best on {counted(self.task.n_fresh, 'fresh fold')}")
        found = self.task.check(self.model, self.fixed, settings)
        self.study.set_user_attr("check", {"settings": settings, "found": asdict(found)})
        return found

    def _importance(self) -> dict[str, float]:
        """How much of the difference between good trials and the rest each setting explains; empty for few trials."""
        if len(self._complete()) < 10 or len(self.space) < 2:
            return {}
        judge = self.optuna.importance.PedAnovaImportanceEvaluator()
        found = self.optuna.importance.get_param_importances(self.study, evaluator=judge)
        return {name: round(float(value), 4) for name, value in found.items()}
