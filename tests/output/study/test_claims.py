"""Verdicts: each kind of test, on results for which the answer is known."""

import pytest

from conftest import ROOT
from output.study.made import better, one, panel, swept
from purerec.errors import ConfigError
from purerec.experiments.reproduce import names
from purerec.output.study.claims import as_table, claim_specs, judge, summary
from purerec.output.study.tables import change
from purerec.output.study.tests import ClaimSpec

HIGH, LOW = [0.42, 0.43, 0.44], [0.30, 0.301, 0.302]


def verdict(found, **claim):
    spec = ClaimSpec(name="c", claim="It is so.", where="Section 1", results=["t"], **claim)
    return judge([spec], {"t": found} if found else {})[0].finding


def compared(values, **facts):
    return one("t") | panel(values, **facts)


def test_without_results_there_is_no_verdict():
    assert verdict(None, test="best").verdict == "no results yet"
    assert verdict(compared({"ease": HIGH}, baseline="ease"), test="best").verdict == "no results yet"
    published = compared({"pure": HIGH, "bpr": LOW}, protocol="as_published")
    assert verdict(published, test="best").verdict == "no results yet"


def test_best_needs_the_majority_of_metrics_on_every_data_set():
    first = {"pure": {"P@5": HIGH, "MRR": HIGH, "MAP": LOW}, "bpr": {"P@5": LOW, "MRR": LOW, "MAP": HIGH}}
    found = verdict(compared(first, tests=[better("bpr", -0.1, 0.001)]), test="best")
    assert found.verdict == "holds"
    assert "2 of 3" in found.effect
    assert found.p == 0.001
    second = {"pure": {"P@5": LOW, "MRR": LOW, "MAP": LOW}, "bpr": {"P@5": HIGH, "MRR": HIGH, "MAP": HIGH}}
    both = one("t", panels=[panel(first), panel(second, data="yelp")])
    assert verdict(both, test="best").verdict == "holds in part"
    assert verdict(compared(second), test="best").verdict == "does not hold"


def test_the_highest_mean_must_be_significant():
    values = {"pure": HIGH, "bpr": LOW}
    unsure = compared(values, tests=[better("bpr", -0.1, 0.16)])
    assert verdict(unsure, test="best").verdict == "holds in part"
    assert "p 0.16" in verdict(unsure, test="best").effect


def test_no_change_has_no_sign():
    assert [change(share) for share in (-0.0001, 0.0001, 0.012, -0.5)] == ["0.0%", "0.0%", "+1.2%", "-50.0%"]


def test_a_case_names_its_protocol_where_there_are_two():
    values = {"pure": HIGH, "bpr": LOW}
    both = one("t", panels=[panel(values, protocol="sampled"), panel(values), panel(values, data="yelp")])
    assert verdict(both, test="best").effect == (
        "ml-100k, sampled: 1 of 1, P@5 +42.9% against bpr, p 0.0016; "
        "ml-100k, exact: 1 of 1, P@5 +42.9% against bpr, p 0.0016; yelp: 1 of 1, P@5 +42.9% against bpr, p 0.0016"
    )
    found = verdict(both, test="better", rivals=["bpr"]).effect
    assert [part.split(" P@5")[0] for part in found.split("; ")] == ["ml-100k, sampled", "ml-100k, exact", "yelp"]


def test_best_is_among_the_methods_of_the_paper():
    assert verdict(compared({"pure": LOW, "ease": HIGH, "bpr": [0.2, 0.2, 0.2]}), test="best").verdict == "holds"


def test_better_must_be_significant():
    sure = {"model": "pugmf", "rival": "gmf", "metric": "P@5", "difference": 0.1, "p": 0.001}
    found = compared({"pure": HIGH, "pugmf": HIGH, "gmf": LOW}) | {"contrasts": [sure]}
    asked = {"test": "better", "model": "pugmf", "rivals": ["gmf"]}
    assert verdict(found, **asked).verdict == "holds"
    assert verdict(found | {"contrasts": [sure | {"p": 0.2}]}, **asked).verdict == "does not hold"
    worse = verdict(found, test="better", model="gmf", rivals=["pugmf"])
    assert worse.verdict == "does not hold"


def test_better_says_what_the_paper_has():
    found = verdict(compared({"pure": HIGH, "gmf": LOW}), test="better", rivals=["gmf"], expected={"ml-100k": 0.01})
    assert "(paper +1%)" in found.effect


def test_many_comparisons_are_corrected_for():
    values = {"pure": {"P@5": HIGH, "MRR": HIGH}, "gmf": {"P@5": LOW, "MRR": LOW}}
    contrasts = [{"model": "pure", "rival": "gmf", "metric": m, "difference": 0.1, "p": 0.04} for m in ("P@5", "MRR")]
    found = compared(values) | {"contrasts": contrasts}
    asked = {"test": "better", "rivals": ["gmf"]}
    assert verdict(found, **asked).verdict == "holds"  # one metric
    assert verdict(found, metrics=["P@5", "MRR"], **asked).verdict == "does not hold"  # Holm: 0.08


TIMES = {"pure": [9.0, 9.5, 10.0], "pugmf": [8.0, 8.2, 8.1], "svd": [1.0, 1.1, 0.9], "irgan": [20.0, 21.0, 22.0]}
TIMED = {"pure": HIGH, "pugmf": HIGH, "svd": LOW, "irgan": HIGH}


def test_times():
    found = compared(TIMED, seconds=TIMES, tests=[better("svd", -0.1, 0.001)])
    slower = verdict(found, test="faster", rivals=["pugmf"], most=2.0)
    assert slower.verdict == "holds"
    assert "1.2 times as long as pugmf" in slower.effect
    assert slower.p < 0.05
    assert verdict(found, test="faster", rivals=["svd"], most=2.0).verdict == "does not hold"
    assert verdict(found, test="weaker_and_faster", models=["svd"]).verdict == "holds"
    assert verdict(found, test="weaker_and_faster", models=["svd", "irgan"]).verdict == "holds in part"
    assert verdict(found, test="slowest", models=["irgan"]).verdict == "holds"
    assert verdict(found, test="slowest", models=["svd"]).verdict == "does not hold"


def test_flat_inside_of_a_range():
    asked = {"test": "flat", "inside": [1e-5, 1e-3], "tolerance": 0.03}
    assert verdict(swept("t"), **asked).verdict == "holds"
    assert verdict(swept("t", values=(0.40, 0.41, 0.30, 0.30)), **asked).verdict == "does not hold"
    assert verdict(swept("t"), test="flat", inside=[1e-5, 1e-1]).verdict == "does not hold"
    assert verdict(compared({"pure": HIGH, "bpr": LOW}), **asked).verdict == "no results yet"


@pytest.mark.parametrize(("power", "expected"), [(1.0, "holds"), (2.0, "does not hold")])
def test_growth(power, expected):
    rows = {f"pugmf, dim {d}": LOW for d in (8, 16, 32, 64)}
    varied = {row: {"line": "pugmf", "dim": int(row.split()[-1])} for row in rows}
    seconds = {row: [varied[row]["dim"] ** power * (1 + n / 1000) for n in range(3)] for row in rows}
    found = compared(rows, baseline="pugmf, dim 8", varied=varied, seconds=seconds)
    finding = verdict(found, test="growth", most=1.1)
    assert finding.verdict == expected
    assert f"exponent {power:.2f}" in finding.effect


def test_claims_name_experiments_that_there_are():
    for claim in claim_specs():
        assert set(claim.results) <= set(names()), claim.name


def test_a_misspelt_claim_is_an_error(tmp_path):
    path = tmp_path / "claims.toml"
    path.write_text((ROOT / "experiments" / "claims.toml").read_text().replace('test = "best"', 'test = "bset"', 1))
    with pytest.raises(ConfigError, match="bset"):
        claim_specs(path)


def test_a_summary_and_a_table():
    found = judge(
        claim_specs(), {"table2": one() | panel({"pure": HIGH, "bpr": LOW}, tests=[better("bpr", -0.1, 1e-9)])}
    )
    text = summary(found)
    assert text.startswith(f"Of {len(found)} claims of the paper, 1 holds, ")
    assert "have no results yet" in text
    row = as_table(found).rows[0]
    assert row[2] == "holds"
    assert row[-1] == "< 0.0001"
