"""The models of an experiment, with the settings that each gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from purerec.evaluation.protocols import Evaluation
from purerec.experiments.specs import Line, OnOneSplit
from purerec.models.contract.recommender import Recommender
from purerec.models.registry import make_model, settings_it_has
from purerec.tuning.settings_file import tuned_settings


@dataclass(frozen=True)
class Plan:
    """One line of a comparison: a model with settings, under a name of its own."""

    name: str
    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def make(self) -> Recommender:
        return make_model(self.model, **self.settings)


def plan_of(line: Line, spec: OnOneSplit) -> Plan:
    """Later settings win: those of the experiment, for models that have them; tuned ones, if both the experiment and
    the line want them; those of the line."""
    settings = settings_it_has(line.model_name, spec.settings)
    if spec.tuned and line.tuned:
        settings |= tuned_settings(spec.data, line.model_name)
    settings |= line.settings
    if line.preset is not None:
        from purerec.models.pure import PURE

        settings = PURE.paper(line.preset, **settings).config.model_dump()
    plan = Plan(line.name, line.model_name, settings)
    plan.make()  # a wrong name or setting is an error before anything is fitted
    return plan


def progress_line(results: Mapping[str, list[Evaluation]], metric: str) -> str:
    """The last score of every model."""
    return ", ".join(f"{name} {runs[-1].metrics[metric]:.4f}" for name, runs in results.items())
