"""Choosing on all logs but one, and what that costs on the one left out."""

from __future__ import annotations

import numpy as np
import pytest

from purerec.errors import ConfigError
from purerec.experiments.cells.cell import CellStore
from purerec.experiments.cells.work import Progress
from purerec.experiments.leave_one_out import _absolute, _choice, _log, _said, leave_one_out
from purerec.experiments.specs import LeaveOneOutSpec, LogSpec
from purerec.models.registry import make_model

VALUES = {
    "a": {"defaults": 0.5, "x": 1.0, "y": 0.4},
    "b": {"defaults": 0.18, "x": 0.2, "y": 0.1},
    "c": {"defaults": 0.9, "x": 0.3, "y": 1.0},
}


def test_the_choice_of_the_others_and_its_regret() -> None:
    # b and c: defaults .9 + .9, x 1 + .3, y .5 + 1
    assert _choice(VALUES, "a") == {
        "chosen": "defaults",
        "best": "x",
        "regret": pytest.approx(0.5),
        "regret_of_defaults": pytest.approx(0.5),
    }
    # a and b: x is best on both
    found = _choice(VALUES, "c")
    assert (found["chosen"], found["best"]) == ("x", "y")
    assert found["regret"] == pytest.approx(0.7)
    assert found["regret_of_defaults"] == pytest.approx(0.1)


def test_candidates_are_called_by_what_they_change() -> None:
    assert _said({"alpha": 0.5, "nu": 1}) == "alpha 0.5, nu 1"


def test_it_runs_on_real_data(ml_100k, tmp_path) -> None:
    spec = LeaveOneOutSpec(
        title="t",
        kind="leave_one_out",
        seeds=2,
        metric="NDCG@10",
        data=[
            {"name": "all", "data": "ml-100k", "seeds": 1},
            {"name": "few", "data": "ml-100k", "positives_each": 5},
        ],
        models={"ease": [{"regularization": 1.0}, {"regularization": 1e5}], "itempop": []},
    )
    store = CellStore(tmp_path)
    found = leave_one_out(spec, 2, store)
    of_ease = found["values"]["ease"]
    assert set(of_ease["all"]) == {"defaults", "regularization 1.0", "regularization 100000.0"}
    assert of_ease["all"]["defaults"] > of_ease["all"]["regularization 1.0"]
    assert of_ease["few"] != of_ease["all"]
    assert found["left_out"]["itempop"]["all"]["regret"] == 0
    assert found["behind_best"]["itempop"]["all"] == pytest.approx(
        1 - found["values"]["itempop"]["all"]["defaults"] / max(of_ease["all"].values())
    )
    seen: list[Progress] = []
    assert leave_one_out(spec, 2, store, seen.append) == found
    assert seen[-1].reused == seen[-1].total == 12


def test_multiples_of_defaults_follow_the_log(tiny) -> None:
    positives = tiny.positives
    default = make_model("gmf").resolved(positives)["regularization"]
    found = _absolute("gmf", {"regularization": "x0.5", "dim": "x2", "epochs": "x0.5", "prior": 0.1}, positives)
    assert found == {"regularization": pytest.approx(default / 2), "dim": 32, "epochs": 30, "prior": 0.1}
    with pytest.raises(ConfigError, match="gmf has no number engine"):
        _absolute("gmf", {"engine": "x2"}, positives)


def test_logs_of_samples_and_worlds() -> None:
    made = LogSpec(name="w", world={"users": 60, "items": 40}, people=30, positives_each=3)
    log = _log(made)
    assert log.n_users == 30
    assert log.positives.counts.max() == 3
    half = _log(LogSpec(name="w", world={"users": 400, "items": 40}, newcomers=0.5)).positives.counts
    assert 0.4 < np.mean(half == 1) < 0.6
    assert half.max() > 3
    with pytest.raises(ValueError, match="either data or world"):
        LogSpec(name="w")
