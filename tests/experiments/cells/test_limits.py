"""A model that takes too long is stopped, and the others continue."""

import time

import pytest

import purerec as pr
from purerec.experiments.cells.limits import OverdueError, at_most, duration
from purerec.experiments.panels import compare_panel, make_panel
from purerec.experiments.plans import Plan
from purerec.training.history import Record


def test_times_as_people_read_them():
    assert [duration(s) for s in (0.44, 9.96, 61, 120, 3600, 7500)] == [
        "0.4 s",
        "10 s",
        "1 min 1 s",
        "2 min",
        "1 h",
        "2 h 5 min",
    ]


def test_epochs_end_before_a_model_is_stopped_and_the_last_one_counts():
    with at_most(0.0, 3) as check:
        check(Record(2, {}))
        with pytest.raises(OverdueError, match="stopped after epoch 2 of 3"):
            check(Record(1, {}))


def test_what_has_no_epochs_is_interrupted():
    began = time.monotonic()
    with pytest.raises(OverdueError, match="stopped: the limit is"), at_most(0.05, None):
        time.sleep(20)
    assert time.monotonic() - began < 10


class Slow(pr.ItemPop):
    deterministic = False

    def _fit(self, train, valid, seed, run):
        if seed == 1:
            time.sleep(20)
        return super()._fit(train, valid, seed, run)


def test_the_others_go_on_and_finished_seeds_count(checkerboards, monkeypatch):
    make = Plan.make
    monkeypatch.setattr(Plan, "make", lambda self: Slow() if self.name == "slow" else make(self))
    plans = [Plan("itempop", "itempop"), Plan("slow", "itempop"), Plan("gmf", "gmf", {"epochs": 100_000})]
    how = {"seeds": 2, "protocol": "sampled", "pool": 3}
    compare_panel(make_panel(checkerboards, plans[:1], **how))  # compiles the kernels before the clock starts
    found = compare_panel(make_panel(checkerboards, plans, **how), limit_s=0.5)
    assert {name: len(runs) for name, runs in found.results.items()} == {"itempop": 2, "slow": 1}
    assert found.stopped["slow"].startswith("stopped: the limit is")
    assert "epoch" in found.stopped["gmf"]
    assert not found.failed
    assert [row.model for row in found.tests()] == ["itempop", "slow"]  # on the seed that both have


@pytest.fixture
def checkerboards():
    from conftest import checkerboard

    return pr.split(checkerboard(12), "ratio")
