"""Is one model better than another? Paired tests and intervals on per-user values.

The unit is the user: a model's value for a user is its mean over seeds, so that seeds do not count as additional
users. Comparing several models with one baseline takes several tests; their p-values are corrected with Holm's
method.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from purerec.errors import ConfigError, DataError
from purerec.evaluation.protocols import Evaluation
from purerec.rng import named_rng
from purerec.types import F64

Verdict = Literal["baseline", "better", "worse", "no difference"]

SIGNIFICANT = 0.05
_BATCH = 1 << 22
"""Bootstrap draws held in memory at a time."""


@dataclass(frozen=True)
class Row:
    """One model compared with the baseline in one metric."""

    model: str
    mean: float
    spread: float | None
    """Standard deviation of the mean between seeds; None with one seed."""
    difference: float
    """Mean over users of the model's value minus the baseline's."""
    ci_low: float
    ci_high: float
    t: float
    p: float
    p_holm: float
    verdict: Verdict


def compare(
    results: Mapping[str, Evaluation | Sequence[Evaluation]],
    baseline: str,
    metric: str,
    *,
    confidence: float = 0.95,
    samples: int = 2000,
    seed: int = 0,
) -> list[Row]:
    """Compare every model (one evaluation, or one per seed) with the baseline, in the order given.

    A model is better or worse if its Holm-corrected p-value is below 1 - confidence. The interval comes from a
    bootstrap over users, for this difference alone (not corrected for the number of models). Where candidates are
    sampled, differences are over the seeds that both models have.
    """
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence must lie between 0 and 1, not {confidence!r}")
    if samples < 1:
        raise ConfigError(f"samples must be at least 1, not {samples!r}")
    runs = {name: [r] if isinstance(r, Evaluation) else list(r) for name, r in results.items()}
    if baseline not in runs:
        raise ConfigError(f"the baseline {baseline!r} is not among the results ({', '.join(runs)})")
    _check_comparable(runs, baseline, metric)
    others = [name for name in runs if name != baseline]
    paired = {name: _paired(runs[name], runs[baseline], metric) for name in others}
    tests = {name: paired_t_test(*values) for name, values in paired.items()}
    corrected = dict(zip(others, holm([tests[name][1] for name in others]), strict=True))

    rows = []
    for name, run in runs.items():
        means = [float(r.per_user[metric].mean()) for r in run]
        spread = float(np.std(means, ddof=1)) if len(means) > 1 else None
        mean = float(np.mean(means))
        if name == baseline:
            rows.append(Row(name, mean, spread, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, "baseline"))
            continue
        differences = paired[name][0] - paired[name][1]
        difference = float(differences.mean())
        rng = named_rng(seed, "bootstrap")
        low, high = bootstrap_interval(differences, rng, confidence=confidence, samples=samples)
        verdict: Verdict = "no difference"
        if corrected[name] < 1 - confidence:
            verdict = "better" if difference > 0 else "worse"
        rows.append(Row(name, mean, spread, difference, low, high, *tests[name], corrected[name], verdict))
    return rows


def pooled(runs: Sequence[Evaluation], metric: str) -> Evaluation:
    """Merge several runs on different users into one."""
    values = np.concatenate([run.per_user[metric] for run in runs])
    return replace(
        runs[0],
        metrics={metric: float(values.mean())},
        per_user={metric: values},
        user_idx=np.arange(len(values)),
        fingerprint="pooled",
    )


def paired_t_test(a: F64, b: F64) -> tuple[float, float]:
    """t = mean(d) / (sd(d) / sqrt(n)) with d = a - b, and the two-sided p with n - 1 degrees of freedom.

    Identical values, or a single one, are no evidence against equal means: t = 0, p = 1.
    """
    from scipy.special import stdtr

    difference = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    n = len(difference)
    if n < 2 or not difference.any():
        return 0.0, 1.0
    mean = float(difference.mean())
    error = float(difference.std(ddof=1)) / math.sqrt(n)
    if error <= 1e-15 * abs(mean):  # the same difference for every user
        return math.copysign(math.inf, mean), 0.0
    t = mean / error
    return t, float(2 * stdtr(n - 1, -abs(t)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: p'_(i) = max_{j <= i} min(1, (m - j + 1) p_(j)), in the order given."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.minimum(1.0, p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.maximum.accumulate(stepped)
    return [float(value) for value in corrected]


def bootstrap_interval(
    values: F64, rng: np.random.Generator, *, confidence: float = 0.95, samples: int = 2000
) -> tuple[float, float]:
    """Percentile interval of the mean: users are drawn with replacement, `samples` times."""
    n = len(values)
    if n == 0 or not np.ptp(values):
        value = float(values[0]) if n else 0.0
        return value, value
    batch = max(1, _BATCH // n)
    means = [
        values[rng.integers(0, n, size=(min(batch, samples - done), n), dtype=np.int32)].mean(axis=1)
        for done in range(0, samples, batch)
    ]
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
    return float(low), float(high)


def _check_comparable(runs: Mapping[str, Sequence[Evaluation]], baseline: str, metric: str) -> None:
    for name, run in runs.items():
        if not run:
            raise DataError(f"there is no evaluation of {name!r} to compare")
        for r in run:
            if metric not in r.per_user:
                known = ", ".join(r.per_user)
                raise ConfigError(f"{name!r} has no values per user of {metric!r}; it has {known}")
    first = runs[baseline][0]
    for name, run in runs.items():
        for r in run:
            if r.label != first.label:
                raise DataError(
                    f"{name!r} was evaluated by another protocol ({r.label}) than {baseline!r} "
                    f"({first.label}); evaluate both in the same way"
                )
            if (r.on, r.fingerprint) != (first.on, first.fingerprint) or not np.array_equal(
                r.user_idx, first.user_idx
            ):
                raise DataError(
                    f"{name!r} was evaluated on another split or other users than {baseline!r}; "
                    "evaluate both on the same split"
                )
        seeds = sorted(r.seed for r in run), sorted(r.seed for r in runs[baseline])
        if first.pool is not None and not set(seeds[0]) & set(seeds[1]):
            raise DataError(
                f"{name!r} was evaluated with the seeds {seeds[0]} and {baseline!r} with {seeds[1]}, so they ranked "
                "other candidates; evaluate both with the same seeds"
            )


def _paired(run: Sequence[Evaluation], base: Sequence[Evaluation], metric: str) -> tuple[F64, F64]:
    """Two models' values for each user. Sampled candidates depend on the seed, so only seeds that both have count."""
    if base[0].pool is not None:
        seeds = {r.seed for r in run} & {r.seed for r in base}
        run, base = ([r for r in found if r.seed in seeds] for found in (run, base))
    first, second = (np.mean([r.per_user[metric] for r in found], axis=0) for found in (run, base))
    return first, second
