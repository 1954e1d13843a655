"""The small versions of experiments for `--quick`: ML-100k instead of larger data, one seed, few varied values."""

from __future__ import annotations

from typing import Any

from purerec.experiments import specs
from purerec.experiments.specs import QUICK_DATA, AnyExperiment, Line


def quick_form(spec: AnyExperiment) -> AnyExperiment | None:
    """A small version of an experiment; None if it is about larger data."""
    changes: dict[str, Any] | None
    match spec:
        case specs.ComparisonSpec():
            small = spec.in_quick()
            changes = None if small is None else {name: getattr(small, name) for name in type(small).model_fields}
        case specs.PanelsSpec():
            panels = [form for panel in spec.panels if (form := panel.in_quick()) is not None]
            changes = {"panels": panels} if panels else None
        case specs.ValidationSpec() | specs.GameSpec():
            changes = {} if spec.data == QUICK_DATA else None
        case specs.PriorSpec():
            changes = {"worlds": dict(list(spec.worlds.items())[:2])}
        case specs.ExposureSpec() | specs.RelevanceSpec():
            changes = {"exposures": spec.exposures[:: max(1, len(spec.exposures) - 1)]}
        case specs.FoldingSpec() | specs.UpdatingSpec() | specs.StatisticsSpec() | specs.SimilarSpec():
            changes = {"data": [QUICK_DATA]} if QUICK_DATA in spec.data else None
        case specs.LeaveOneOutSpec():
            logs = [log for log in spec.data if log.data == QUICK_DATA][:2]
            models = dict(list(spec.models.items())[:3])
            changes = {"data": logs, "models": models} if len(logs) > 1 else None
    if changes is None:
        return None
    if not isinstance(spec, specs.StatisticsSpec):
        changes["seeds"] = 1
    if isinstance(spec, specs.ComparisonSpec | specs.PanelsSpec | specs.ValidationSpec | specs.GameSpec):
        changes["models"] = [_few_values(line) for line in spec.models if line.quick]
    return spec.model_copy(update=changes)


def _few_values(line: Line) -> Line:
    """The first, the middle and the last of the values that a line varies."""
    few = {key: [values[0], values[len(values) // 2], values[-1]] for key, values in line.vary.items()}
    return line.model_copy(update={"vary": {key: list(dict.fromkeys(values)) for key, values in few.items()}})
