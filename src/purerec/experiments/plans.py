"""The models of an experiment, each with its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from purerec.experiments.specs import Line, OnData
from purerec.models.contract.recommender import Recommender
from purerec.models.registry import make_model, settings_it_has
from purerec.tuning.settings_file import tuned_settings


@dataclass(frozen=True)
class Plan:
    """One line of a comparison: a model with settings, under its own name."""

    name: str
    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: int | None = None
    """The maximum, for models that take long to fit."""
    varied: Mapping[str, Any] = field(default_factory=dict)
    """The setting that distinguishes this row from the others of the line."""
    line: str | None = None
    """The line that this row belongs to."""

    def make(self) -> Recommender:
        return make_model(self.model, **self.settings)


def plans_of(line: Line, spec: OnData) -> list[Plan]:
    """The rows of a line: one, or one for each value of a setting that it varies.

    Later settings take precedence: those of the experiment, for models that have them; tuned ones, if both the
    experiment and the line request them; those of the line; the varied one.
    """
    plans = []
    for name, varied in line.rows().items():
        settings = settings_it_has(line.model_name, spec.settings)
        if spec.tuned and line.tuned:
            settings |= tuned_settings(spec.data, line.model_name)
        settings |= line.settings | varied
        if line.preset:
            from purerec.models.pure import PURE

            preset = spec.data if line.preset is True else line.preset
            settings = PURE.paper(preset, **settings).config.model_dump()
        plan = Plan(name, line.model_name, settings, line.seeds, varied, line.name)
        plan.make()  # reports a wrong name or setting before anything is fitted
        plans.append(plan)
    return plans


def plan_of(line: Line, spec: OnData) -> Plan:
    """The only row of a line without a varied setting."""
    (plan,) = plans_of(line, spec)
    return plan
