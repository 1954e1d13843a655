"""Paired tests, intervals and Holm's correction against known answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from purerec.errors import ConfigError, DataError
from purerec.evaluation.protocols import Evaluation
from purerec.evaluation.significance import bootstrap_interval, compare, holm, paired_t_test


def evaluation(values: Any, **changes: Any) -> Evaluation:
    values = np.asarray(values, dtype=np.float64)
    made = Evaluation(
        model="m",
        protocol="exact",
        on="test",
        metrics={"P@5": float(values.mean())},
        per_user={"P@5": values},
        user_idx=np.arange(len(values)),
        n_users_skipped=0,
        seconds=0.0,
        seed=0,
        pool=None,
        repetitions=None,
        fingerprint="a",
    )
    return replace(made, **changes)


def test_t_test_agrees_with_scipy() -> None:
    rng = np.random.default_rng(0)
    for n in (2, 3, 50, 5000):
        a, b = rng.normal(0.1, 1, n), rng.normal(size=n)
        expected = stats.ttest_rel(a, b)
        assert paired_t_test(a, b) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-10)


def test_t_test_without_variance() -> None:
    same = np.array([0.2, 0.4, 0.6])
    assert paired_t_test(same, same) == (0.0, 1.0)
    assert paired_t_test(same[:1], same[:1] + 1) == (0.0, 1.0)
    assert paired_t_test(np.full(4, 3.0), np.full(4, 1.0)) == (np.inf, 0.0)
    assert paired_t_test(np.full(4, 1.0), np.full(4, 3.0)) == (-np.inf, 0.0)


def test_holm_known_answers() -> None:
    # statsmodels.stats.multitest.multipletests(..., method="holm")
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([0.02]) == [0.02]
    assert holm([]) == []


def test_bootstrap_interval() -> None:
    def interval(values: np.ndarray, seed: int = 0, samples: int = 2000) -> tuple[float, float]:
        return bootstrap_interval(values, np.random.default_rng(seed), samples=samples)

    values = np.random.default_rng(1).normal(0.3, 1, 2000)
    low, high = interval(values, samples=4000)
    half = 1.96 * values.std() / np.sqrt(2000)
    assert low == pytest.approx(values.mean() - half, abs=0.005)
    assert high == pytest.approx(values.mean() + half, abs=0.005)
    assert interval(values) == interval(values)
    assert interval(values) != interval(values, seed=1)
    assert interval(np.full(5, 0.25)) == (0.25, 0.25)
    assert interval(np.zeros(0)) == (0.0, 0.0)


def test_compare() -> None:
    rng = np.random.default_rng(2)
    base = rng.random(300)
    noise = [rng.normal(0, 0.1, 300) for _ in range(3)]
    rows = compare(
        {
            "base": evaluation(base),
            "good": [evaluation(base + 0.1 + n) for n in noise],
            "bad": [evaluation(base - 0.1 + noise[0])],
            "same": evaluation(base),
        },
        "base",
        "P@5",
    )
    by_name = {row.model: row for row in rows}
    assert list(by_name) == ["base", "good", "bad", "same"]
    assert [row.verdict for row in rows] == ["baseline", "better", "worse", "no difference"]
    good = by_name["good"]
    averaged = base + 0.1 + np.mean(noise, axis=0)
    expected = stats.ttest_rel(averaged, base)
    assert (good.t, good.p) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-8)
    assert good.mean == pytest.approx(averaged.mean())
    assert good.difference == pytest.approx((averaged - base).mean())
    assert good.ci_low < good.difference < good.ci_high
    assert good.spread == pytest.approx(np.std([(base + 0.1 + n).mean() for n in noise], ddof=1))
    assert by_name["bad"].spread is None
    assert by_name["bad"].ci_high < 0
    same = by_name["same"]
    assert (same.t, same.p, same.p_holm, same.ci_low, same.ci_high) == (0, 1, 1, 0, 0)
    assert good.p_holm == pytest.approx(holm([good.p, by_name["bad"].p, 1.0])[0])


def test_a_difference_that_does_not_survive_the_correction() -> None:
    rng = np.random.default_rng(5)
    base = rng.random(100)
    step = rng.normal(0, 1, 100)
    step += 2.2 * step.std(ddof=1) / 10 - step.mean()  # t = 2.2, p = .03
    results = {"base": evaluation(base), "one": evaluation(base + step)}
    assert compare(results, "base", "P@5")[1].verdict == "better"
    for n in range(3):
        results[f"same {n}"] = evaluation(base)
    row = compare(results, "base", "P@5")[1]
    assert row.p_holm == pytest.approx(4 * row.p)
    assert row.verdict == "no difference"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"protocol": "sampled", "pool": 500}, "another protocol"),
        ({"on": "valid"}, "another split"),
        ({"fingerprint": "b"}, "another split"),
        ({"user_idx": np.array([0, 1, 3])}, "other users"),
    ],
)
def test_what_cannot_be_compared(changes: dict[str, Any], message: str) -> None:
    first, second = evaluation([0.1, 0.2, 0.3]), evaluation([0.1, 0.2, 0.4], **changes)
    with pytest.raises(DataError, match=message):
        compare({"a": first, "b": second}, "a", "P@5")
    with pytest.raises(DataError, match=message):
        compare({"a": [first, second]}, "a", "P@5")


def test_different_pools_cannot_be_compared() -> None:
    values = [0.1, 0.2]
    results = {str(n): evaluation(values, protocol="sampled", pool=n) for n in (100, 500)}
    with pytest.raises(DataError, match="sampled, 500 candidates"):
        compare(results, "100", "P@5")


def test_other_seeds_draw_other_candidates() -> None:
    def runs(*seeds: int, **changes: Any) -> list[Evaluation]:
        return [evaluation([0.1, 0.2, 0.4], seed=seed, **changes) for seed in seeds]

    drawn: dict[str, Any] = {"protocol": "sampled", "pool": 100}
    with pytest.raises(DataError, match=r"seeds \[2, 3\] and 'a' with \[0, 1\]"):
        compare({"a": runs(0, 1, **drawn), "b": runs(3, 2, **drawn)}, "a", "P@5")
    assert len(compare({"a": runs(0, 1, **drawn), "b": runs(1, 0, **drawn)}, "a", "P@5")) == 2
    assert len(compare({"a": runs(0, 1), "b": runs(2)}, "a", "P@5")) == 2  # all items are candidates


@pytest.mark.parametrize(("pool", "difference"), [(100, -0.1), (None, -0.3)])
def test_sampled_runs_are_paired_by_seed_and_others_are_not(pool: int | None, difference: float) -> None:
    def runs(*values: float) -> list[Evaluation]:
        return [evaluation([v, v + 0.1, v + 0.3], seed=seed, pool=pool) for seed, v in enumerate(values)]

    rows = compare({"base": runs(0.2, 0.4, 0.9), "few": runs(0.1, 0.3), "all": runs(0.3, 0.5, 1.0)}, "base", "P@5")
    base, few, whole = rows
    assert base.mean == pytest.approx(0.5 + 0.4 / 3)  # over all of its seeds, even if others have fewer
    assert few.difference == pytest.approx(difference)
    assert few.spread == pytest.approx(np.std([0.1, 0.3], ddof=1))
    assert whole.difference == pytest.approx(0.1)
    assert (few.verdict, whole.verdict) == ("worse", "better")


def test_wrong_use() -> None:
    results: dict[str, Any] = {"a": evaluation([0.1, 0.2])}
    with pytest.raises(ConfigError, match="'b' is not among the results"):
        compare(results, "b", "P@5")
    with pytest.raises(ConfigError, match="no values per user of 'MAP'; it has P@5"):
        compare(results, "a", "MAP")
    with pytest.raises(ConfigError, match="confidence"):
        compare(results, "a", "P@5", confidence=1)
    with pytest.raises(ConfigError, match="samples"):
        compare(results, "a", "P@5", samples=0)
    with pytest.raises(DataError, match="no evaluation"):
        compare({**results, "c": []}, "a", "P@5")
