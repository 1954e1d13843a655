"""The advice that a comparison gives."""

import numpy as np
import polars as pl
import pytest

from conftest import need
from purerec.errors import ConfigError
from purerec.evaluation.protocols import Evaluation
from purerec.experiments.advice import costs_and_tests, doubts, p_value
from purerec.experiments.results import Comparison, RunResult

PEOPLE = 400


def run(model, values, *, seconds=1.0, people=PEOPLE, seed=0):
    """A run with these means, a little different for each person."""
    spread = np.linspace(-0.01, 0.01, people)
    per_user = {metric: value + np.roll(spread, len(model)) for metric, value in values.items()}
    judged = Evaluation(
        model=model,
        protocol="exact",
        on="test",
        metrics={metric: float(v.mean()) for metric, v in per_user.items()},
        per_user=per_user,
        user_idx=np.arange(people),
        n_users_skipped=0,
        seconds=0.1,
        seed=seed,
        pool=None,
        repetitions=None,
        fingerprint="same",
    )
    return RunResult("clicks", "ratio", model, {}, {}, seed, judged, seconds, 0.1, 100.0, -3.0)


def comparison(runs, **more):
    return Comparison("clicks", "P@5", "ease", {r.model: [r] for r in runs}, **more)


def test_a_clear_winner():
    found = comparison([run("ease", {"P@5": 0.2, "MRR": 0.4}), run("pure", {"P@5": 0.3, "MRR": 0.5})])
    assert found.best == "pure"
    assert repr(found).splitlines()[1:] == [found.advice]
    assert len(repr(found.results["pure"])) < 1_000  # no settings, and no values of single users
    assert found.advice.startswith(
        "Use pure: it beats every other model in P@5 over 400 people; next is ease, 0.1000"
    )
    assert found.advice.endswith("behind, p < 0.001 (Holm).")
    assert doubts(found) == []


def test_a_tie_names_the_quick_one_if_that_saves_time():
    runs = [run("ease", {"P@5": 0.2}, seconds=1.0), run("pure", {"P@5": 0.2}, seconds=90.0)]
    runs[1].evaluation.per_user["P@5"][0] += 1e-6
    runs[1].evaluation.metrics["P@5"] += 1e-6
    found = comparison(runs)
    assert found.advice == (
        "Use pure, though ease is not significantly different in P@5 over 400 people; ease takes 1.0 s to fit where "
        "pure takes 1 min 30 s."
    )
    assert comparison([run("ease", {"P@5": 0.2})]).advice == "Only ease was tried."


def test_metrics_that_disagree_and_other_doubts():
    ease, pure = run("ease", {"P@5": 0.2, "MRR": 0.6}, people=40), run("pure", {"P@5": 0.3, "MRR": 0.5}, people=40)
    found = comparison([ease, pure], failed={"bpr": "out of memory"}, stopped={"gmf": "stopped after 3 s"})
    assert doubts(found) == [
        "the metrics disagree: pure has the best P@5, but ease is ahead in MRR* (* significantly)",
        "based on 40 users; with so few, only large differences are significant",
        "bpr failed and is left out: out of memory",
        "gmf is left out: stopped after 3 s",
    ]


def test_one_person_is_not_people():
    found = comparison([run("ease", {"P@5": 0.2}, people=1), run("pure", {"P@5": 0.2}, people=1)])
    assert found.advice.endswith("not significantly different in P@5 over 1 person.")
    assert doubts(found) == ["based on 1 user; with so few, only large differences are significant"]


def test_numbers_are_for_people():
    found = comparison([run("ease", {"P@5": 0.2}), run("pure", {"P@5": 0.2})])
    row = dict(zip(*[costs_and_tests(found)[0], costs_and_tests(found)[1][1]], strict=True))
    assert row["added MB"] == "0"  # not -3, and not -0
    assert "-0.0000" not in str(row)
    assert [p_value(p) for p in (1.0, 0.0123, 1e-50)] == ["1.000", "0.012", "< 0.001"]


def test_a_table_a_picture_and_a_page(tmp_path):
    need("vl_convert")
    found = comparison([run("ease", {"P@5": 0.2, "MRR": 0.4}), run("pure", {"P@5": 0.3, "MRR": 0.5}, seconds=60)])
    table = found.table()
    assert isinstance(table, pl.DataFrame)
    assert table["model"].to_list() == ["ease", "pure"]
    assert table["P@5"].to_list() == pytest.approx([0.2, 0.3])
    assert table["verdict"].to_list() == ["baseline", "better"]
    picture = found.plot("MRR")
    assert "MRR" in picture.svg
    assert "pure" in picture.svg
    assert picture.save(tmp_path / "found.svg").read_text() == picture.svg
    assert picture.save(tmp_path / "found.png").read_bytes().startswith(b"\x89PNG")
    assert "Use pure" in found._repr_html_()
    assert "<img alt=" in found._repr_html_()
    with pytest.raises(ConfigError, match=r"\.svg or \.png file"):
        picture.save("found.jpg")
    with pytest.raises(ConfigError, match="no 'P@9' in this comparison"):
        found.plot("P@9")
