"""The tests behind verdicts: one function for each kind of claim, from panels to a finding."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean, median, stdev
from typing import Literal

from pydantic import Field

from purerec.evaluation.significance import SIGNIFICANT, holm
from purerec.output.study.results import Pair, PanelResults, welch
from purerec.output.study.tables import change, p_value, seconds
from purerec.storage.toml_files import TomlTable

ClaimVerdict = Literal["holds", "holds in part", "does not hold", "no results yet"]
_METHODS = ("itempop", "slopeone", "coclustering", "svd", "nmf", "pmf", "bpr", "lambdafm", "gmf", "graphgan", "irgan",
        "cfgan", "pugmf")  # fmt: skip


class ClaimSpec(TomlTable):
    """One claim of experiments/claims.toml."""

    name: str
    claim: str
    """In the paper's words, or close to them."""
    where: str
    test: Literal["best", "better", "faster", "weaker_and_faster", "slowest", "flat", "growth"]
    results: list[str] = Field(min_length=1)
    """Experiments that decide."""
    protocols: list[str] = Field(default=["exact", "sampled"])
    model: str = "pure"
    rivals: list[str] = Field(default=[])
    models: list[str] = Field(default=[])
    """For tests about several models."""
    metrics: list[str] = Field(default=[])
    """By default, all that were measured, or the deciding one for tests of a single metric."""
    expected: dict[str, float] = Field(default={})
    """Relative effects stated in the paper, by data set."""
    inside: list[float] = Field(default=[], min_length=2, max_length=2)
    """The range of a setting in which results are claimed to be flat."""
    tolerance: float = 0.02
    """The largest relative difference that still counts as flat."""
    most: float = math.inf
    """The largest ratio of times, or exponent of growth, that still agrees with the claim."""
    remark: str = ""
    """What the test cannot show."""


@dataclass(frozen=True)
class Finding:
    """What the results say about a claim."""

    verdict: ClaimVerdict
    effect: str
    test: str
    p: float | None = None
    """The largest of the p-values that the verdict needs."""


def judged(claim: ClaimSpec, panels: Sequence[PanelResults]) -> Finding:
    """The finding of a claim's test, or 'no results yet'."""
    fitting = [panel for panel in panels if panel.protocol in claim.protocols]
    found = _TESTS[claim.test](claim, fitting) if fitting else None
    return found or Finding("no results yet", "", "")


Compared = tuple[str, str, str]
"""A model, its rival and a metric."""


def compared(claim: ClaimSpec, metric: str) -> list[Compared]:
    """The comparisons that a claim needs to test, in an experiment with the deciding metric `metric`."""
    metrics = claim.metrics or [metric]
    match claim.test:
        case "best":
            return [(claim.model, rival, metric) for rival in claim.rivals or _METHODS]
        case "better":
            return [(claim.model, rival, m) for rival in claim.rivals for m in metrics]
        case "weaker_and_faster":
            return [(name, claim.model, metrics[0]) for name in claim.models]
    return []


def _verdict(good: int, total: int, *, most: float = 1.0) -> ClaimVerdict:
    return "holds" if good >= most * total else "holds in part" if good else "does not hold"


def _best(claim: ClaimSpec, panels: Sequence[PanelResults]) -> Finding | None:
    """The columns where the model has the highest mean of the paper's methods; significance in the deciding one.

    The claim holds if these are most columns of every panel, and the difference is significant in all of them.
    """
    best, most, pairs, said = 0, [], [], []
    for panel in panels:
        rivals = [name for name in claim.rivals or _METHODS if name in panel.models]
        if claim.model not in panel.models or not rivals:
            continue
        metrics = [m for m in claim.metrics or panel.metrics if m in panel.metrics]
        ahead = sum(panel.mean(claim.model, m) >= max(panel.mean(r, m) for r in rivals) for m in metrics)
        strongest = max(rivals, key=lambda rival: panel.mean(rival, panel.metric))
        gain = panel.mean(claim.model, panel.metric) / panel.mean(strongest, panel.metric) - 1
        pairs.append(panel.pair(claim.model, strongest, panel.metric))
        sure = f"p {p_value(pairs[-1].p) or 'unknown'}"
        columns = f"{ahead} of {len(metrics)}, {panel.metric} {change(gain)} against {strongest}, {sure}"
        said.append(f"{_case(panel, panels)}: {columns}")
        best += ahead
        most.append(2 * ahead > len(metrics) and pairs[-1].difference > 0)
    if not said:
        return None
    everywhere = all(most) and all(p < SIGNIFICANT for p in _corrected(pairs))
    verdict: ClaimVerdict = "holds" if everywhere else "holds in part" if best else "does not hold"
    return Finding(
        verdict, "; ".join(said), f"highest mean; {_how(pairs)}, Holm, against the strongest rival", _largest(pairs)
    )


def _better(claim: ClaimSpec, panels: Sequence[PanelResults]) -> Finding | None:
    """Test whether the model is significantly better than its rivals, in every metric and panel."""
    pairs, said = [], []
    for panel in panels:
        known = [rival for rival in claim.rivals if rival in panel.models and claim.model in panel.models]
        for rival, metric in product(known, claim.metrics or [panel.metric]):
            if metric not in panel.metrics:
                continue
            pairs.append(panel.pair(claim.model, rival, metric))
            gain = panel.mean(claim.model, metric) / panel.mean(rival, metric) - 1
            expected = claim.expected.get(panel.data)
            beside = "" if expected is None else f" (paper {expected:+.0%})"
            said.append(
                f"{_case(panel, panels)} {metric} {change(gain)}{beside}, p {p_value(pairs[-1].p) or 'unknown'}"
            )
    if not pairs:
        return None
    good = sum(pair.difference > 0 and p < SIGNIFICANT for pair, p in zip(pairs, _corrected(pairs), strict=True))
    return Finding(_verdict(good, len(pairs)), "; ".join(said), f"{_how(pairs)}, Holm", _largest(pairs))


def _case(panel: PanelResults, panels: Sequence[PanelResults]) -> str:
    """The data set, with the protocol if there are several."""
    protocols = {other.protocol for other in panels if other.data == panel.data}
    return panel.data if len(protocols) == 1 else f"{panel.data}, {panel.protocol}"


def _how(pairs: Sequence[Pair]) -> str:
    return f"t-test {' or '.join(sorted({pair.how for pair in pairs}))}"


def _corrected(pairs: Sequence[Pair]) -> list[float]:
    """p-values corrected for their number, since some are small by chance."""
    return list(holm([1.0 if pair.p is None else pair.p for pair in pairs]))


def _largest(pairs: Sequence[Pair]) -> float | None:
    return max((pair.p for pair in pairs if pair.p is not None), default=None)


def _times(panel: PanelResults, model: str) -> list[float]:
    return [max(1e-4, run["fit_seconds"]) for run in panel.models[model]]


def _faster(claim: ClaimSpec, panels: Sequence[PanelResults]) -> Finding | None:
    """The ratio of the model's time to each rival's: above 1 and at most `most`."""
    good, total, ps, said = 0, 0, [], []
    for panel in panels:
        for rival in claim.rivals:
            if claim.model not in panel.models or rival not in panel.models:
                continue
            own, other = _times(panel, claim.model), _times(panel, rival)
            ratio = median(own) / median(other)
            p = welch([math.log(t) for t in own], [math.log(t) for t in other])
            ps += [] if p is None else [p]
            total += 1
            good += 1 < ratio <= claim.most
            said.append(f"{panel.data}: {ratio:.1f} times as long as {rival}")
    if not total:
        return None
    return Finding(_verdict(good, total), "; ".join(said), "Welch's t-test of log times", max(ps, default=None))


def _weaker_and_faster(claim: ClaimSpec, panels: Sequence[PanelResults]) -> Finding | None:
    """Test whether each of `models` takes less time than the model and has a lower metric."""
    good, pairs, said = 0, [], []
    for panel in panels:
        metric = (claim.metrics or [panel.metric])[0]
        for name in claim.models:
            if name not in panel.models or claim.model not in panel.models or metric not in panel.metrics:
                continue
            share = median(_times(panel, name)) / median(_times(panel, claim.model))
            pair = panel.pair(name, claim.model, metric)
            gap = panel.mean(name, metric) / panel.mean(claim.model, metric) - 1
            pairs.append(pair)
            good += share < 1 and gap < 0 and pair.p is not None and pair.p < SIGNIFICANT
            said.append(f"{name} {share:.2g} of its time, {metric} {change(gap)}")
    if not pairs:
        return None
    return Finding(_verdict(good, len(pairs)), "; ".join(said), f"{_how(pairs)} of {metric}", _largest(pairs))


def _slowest(claim: ClaimSpec, panels: Sequence[PanelResults]) -> Finding | None:
    """Test whether `models` take the longest."""
    good, total, said = 0, 0, []
    for panel in panels:
        asked = [name for name in claim.models if name in panel.models]
        rivals = [name for name in (*_METHODS, claim.model) if name in panel.models]
        if not asked or len(rivals) <= len(asked):
            continue
        order = sorted(rivals, key=lambda name: -median(_times(panel, name)))
        good += len(set(asked) & set(order[: len(asked)]))
        total += len(asked)
        said.append(
            f"{panel.data}, slowest first: "
            + ", ".join(f"{name} {seconds(median(_times(panel, name)))} s" for name in order[:5])
        )
    return Finding(_verdict(good, total), "; ".join(said), "order of median times") if total else None


def _flat(claim: ClaimSpec, panels: Sequence[PanelResults]) -> Finding | None:
    """Test whether a varied setting changes results by less than `tolerance` inside a range."""
    low, high = claim.inside
    good, total, said = 0, 0, []
    for panel in panels:
        points = panel.lines
        for line in claim.models or points:
            for metric in claim.metrics or [panel.metric]:
                if line not in points or metric not in panel.metrics:
                    continue
                means = {value: panel.mean(row, metric) for value, row in points[line]}
                within = [mean for value, mean in means.items() if low / 1.001 <= value <= high * 1.001]
                if len(within) < 2:
                    continue
                drop, whole = 1 - min(within) / max(within), 1 - min(means.values()) / max(means.values())
                total += 1
                good += drop <= claim.tolerance
                said.append(f"{panel.data}, {line}, {metric}: {drop:.1%} inside, {whole:.1%} over the whole grid")
    if not total:
        return None
    how = f"largest relative difference inside of {low:g} to {high:g}, at most {claim.tolerance:.0%}"
    return Finding(_verdict(good, total), "; ".join(said), how)


def _growth(claim: ClaimSpec, panels: Sequence[PanelResults]) -> Finding | None:
    """The exponent with which time grows with a varied setting: at most `most`; holds in part if that is possible."""
    sure, possible, total, said = 0, 0, 0, []
    for panel in panels:
        for line in claim.models or panel.lines:
            if len(panel.lines.get(line, [])) < 3:
                continue
            rows = panel.lines[line]
            slope, error = _slope([(math.log(value), math.log(median(_times(panel, row)))) for value, row in rows])
            total += 1
            sure += slope <= claim.most
            possible += slope - 2 * error <= claim.most
            said.append(f"{panel.data}, {line}: exponent {slope:.2f} ± {error:.2f}")
    if not total:
        return None
    verdict: ClaimVerdict = "holds" if sure == total else "holds in part" if possible else "does not hold"
    return Finding(verdict, "; ".join(said), f"slope of log time, at most {claim.most:g}")


def _slope(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The slope of a least-squares line, and its standard error."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    spread = sum((x - fmean(xs)) ** 2 for x in xs)
    slope = sum((x - fmean(xs)) * (y - fmean(ys)) for x, y in points) / spread
    rest = [y - fmean(ys) - slope * (x - fmean(xs)) for x, y in points]
    return slope, stdev(rest) * math.sqrt((len(rest) - 1) / max(1, len(rest) - 2) / spread)


_TESTS: Mapping[str, Callable[[ClaimSpec, Sequence[PanelResults]], Finding | None]] = {
    "best": _best,
    "better": _better,
    "faster": _faster,
    "weaker_and_faster": _weaker_and_faster,
    "slowest": _slowest,
    "flat": _flat,
    "growth": _growth,
}
