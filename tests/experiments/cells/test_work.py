"""Cells: one fit for all that share it, several processes, a kill midway."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import purerec as pr
from conftest import PUREREC, purerec
from purerec import storage
from purerec.experiments.cells import cell as cells
from purerec.experiments.cells import work
from purerec.experiments.cells.cell import CellStore
from purerec.experiments.panels import compare_panel, make_panel
from purerec.experiments.plans import Plan
from purerec.models.registry import REGISTRY, model_class

GMF = {"dim": 2, "epochs": 2}


def parts():
    rng = np.random.default_rng(0)
    user = rng.integers(0, 50, 1200)
    return pr.split(pr.Interactions.from_columns(user, 2 * rng.integers(0, 25, 1200) + user % 2), "ratio")


@pytest.fixture
def fits(monkeypatch):
    found = []
    real = work.run
    monkeypatch.setattr(
        work, "run", lambda split, model, **how: found.append(model.name) or real(split, model, **how)
    )
    return found


def test_a_new_line_or_setting_runs_its_own_cells_only(tmp_path, fits):
    store, split = CellStore(tmp_path), parts()
    plans = [Plan("ease", "ease"), Plan("gmf", "gmf", GMF)]
    compare_panel(make_panel(split, plans, seeds=2), store=store)
    assert fits == ["ease", "gmf", "gmf"]
    seen = []
    more = [*plans, Plan("wide", "gmf", {"dim": 3, "epochs": 1})]
    found = compare_panel(make_panel(split, more, seeds=2), store=store, watch=seen.append)
    assert fits[3:] == ["gmf", "gmf"]
    first = seen[0]
    assert (first.total, first.done, first.reused) == (6, 4, 4)
    assert first.line == "4 of 6 results were there already"
    assert (seen[-1].done, seen[-1].left, seen[-1].running) == (6, 0, None)
    assert any(p.running == "wide on data, seed 1" for p in seen)
    assert found.table().height == 3
    compare_panel(make_panel(split, more, seeds=2), store=CellStore(tmp_path, fresh=True))
    assert len(fits) == 10


def test_the_estimate_leaves_out_a_fit_that_is_done(monkeypatch):
    seen, real = [], work.run

    def slow_gmf(split, model, **how):
        if model.name == "gmf":
            time.sleep(0.3)
        return replace(
            real(split, model, **how), fit_seconds=3.0 if model.name == "gmf" else 1.0, evaluate_seconds=0.0
        )

    monkeypatch.setattr(work, "run", slow_gmf)
    plans = [Plan("itempop", "itempop"), Plan("gmf", "gmf", GMF), Plan("ease", "ease")]
    compare_panel(make_panel(parts(), plans, seeds=1), watch=seen.append)
    assert [p.seconds_left for p in seen if p.line is not None] == [2.0, 2.0, 0.0]  # with two fits left, one, none


def test_one_fit_for_several_protocols_and_the_same_numbers_as_alone(tmp_path, fits):
    split, plans = parts(), [Plan("gmf", "gmf", GMF), Plan("itempop", "itempop")]
    hows = [{"protocol": "exact"}, {"protocol": "sampled", "pool": 9}, {"protocol": "as_published", "pool": 9}]
    panels = [make_panel(split, plans, seeds=2, **how) for how in hows]
    together = work.Worklist([cell for panel in panels for cell in panel.cells], CellStore(tmp_path))
    together.run()
    assert sorted(fits) == ["gmf", "gmf", "itempop"]
    for panel, how in zip(panels, hows, strict=True):
        alone = compare_panel(make_panel(split, plans, seeds=2, **how))
        costs = ("fit_seconds", "added_mb")
        assert panel.compared(together).table().drop(costs).equals(alone.table().drop(costs))


@pytest.mark.parametrize("name", REGISTRY)
def test_a_model_that_says_it_is_deterministic_is_and_no_other(name):
    model = model_class(name)
    settings = {name: 1 for name in ("epochs", "pretrain_epochs") if name in model.config_class.model_fields}
    one, other = (model(**settings).fit(parts().train, seed=seed)._state() for seed in (0, 1))
    same = all(np.array_equal(one[part], other[part]) for part in one)
    assert same == model.deterministic


def test_what_another_process_has_claimed_is_waited_for_and_not_made_twice(tmp_path, fits, monkeypatch):
    monkeypatch.setattr(work, "_LOOK_S", 0.01)
    store = CellStore(tmp_path)
    panel = make_panel(parts(), [Plan("itempop", "itempop"), Plan("ease", "ease")], seeds=1)
    first = panel.cells[0]
    result = compare_panel(make_panel(panel.split, panel.plans[:1], seeds=1)).results["itempop"][0]
    fits.clear()
    waited = []
    with storage.claimed(tmp_path / cells.digest(first.fit)) as ours:
        assert ours

        def watch(progress):
            if progress.elsewhere:
                waited.append(progress)
                store.put(first, result)  # the other process is done

        found = compare_panel(panel, store=store, watch=watch)
    assert fits == ["ease"]
    assert waited[0].elsewhere == 1
    assert found.results["itempop"][0].fit_seconds == result.fit_seconds
    assert not list(tmp_path.glob("*.lock"))


def test_a_claim_of_a_dead_process_is_taken_over(tmp_path, fits):
    panel = make_panel(parts(), [Plan("itempop", "itempop")], seeds=1)
    place = tmp_path / cells.digest(panel.cells[0].fit)
    code = f"""
import os, signal
from purerec import storage
with storage.claimed({str(place)!r}) as ours:
    assert ours
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert list(tmp_path.glob(".*.lock"))
    compare_panel(panel, store=CellStore(tmp_path))
    assert fits == ["itempop"]
    assert not list(tmp_path.glob(".*.lock"))


def test_a_comparison_that_is_killed_goes_on_and_ends_with_the_same_table(tmp_path):
    rng = np.random.default_rng(1)
    user = rng.integers(0, 60, 1500)
    rows = "".join(f"u{u},i{i}\n" for u, i in zip(user, 2 * rng.integers(0, 20, 1500) + user % 2, strict=True))
    (tmp_path / "clicks.csv").write_text("user,item\n" + rows)
    told = ["compare", str(tmp_path / "clicks.csv"), "--models", "ease,gmf,pugmf", "--seeds", "2"]
    told += ["--set", "epochs=300", "--json"]
    store = tmp_path / "killed" / "cells"
    begun = subprocess.Popen(
        [*PUREREC, *told, str(tmp_path / "never.json")],
        env={**os.environ, "PUREREC_CACHE": str(tmp_path / "killed")},
        stderr=subprocess.DEVNULL,
    )
    while len(finished(store)) < 3 and begun.poll() is None:
        time.sleep(0.002)
    begun.kill()
    assert begun.wait() == -signal.SIGKILL
    before = finished(store)
    assert 3 <= len(before) < 6, "it was to be killed in the middle"
    for name in ("killed", "whole"):
        purerec(*told, tmp_path / f"{name}.json", env={"PUREREC_CACHE": str(tmp_path / name)}, check=0)
    after = finished(store)
    assert len(after) == 6
    assert before.items() <= after.items()  # no finished run was repeated
    resumed, whole = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("killed", "whole"))
    assert resumed["tests"] == whole["tests"]
    for model, runs in whole["models"].items():
        assert [run["metrics"] for run in resumed["models"][model]] == [run["metrics"] for run in runs]


def finished(store: Path) -> dict[str, int]:
    """Records, and when each was made."""
    return {path.parent.name: path.stat().st_mtime_ns for path in store.glob("[!.]*/manifest.json")}


def test_a_changed_metric_of_ones_own_is_measured_again(tmp_path, fits, monkeypatch):
    """So is one whose helper, in a module next to it, has changed."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it would have the next version's timestamp
    split, store = parts(), CellStore(tmp_path / "cells")

    def measured(helper, times):
        (tmp_path / "weights_of_mine.py").write_text(f"WEIGHT = {helper}\n")
        (tmp_path / "metric_of_mine.py").write_text(
            "from weights_of_mine import WEIGHT\n\n\n"
            f"def hits(ranks, k):\n    return {times} * WEIGHT * sum(ranks <= k)\n"
        )
        for name in ("metric_of_mine", "weights_of_mine"):
            sys.modules.pop(name, None)
        panel = make_panel(split, [Plan("ease", "ease")], seeds=1, metrics=["metric_of_mine:hits@5"])
        return compare_panel(panel, store=store).table()["hits@5"].item()

    first = measured(1, 1)
    assert measured(1, 1) == first
    assert len(fits) == 1
    assert measured(1, 100) == pytest.approx(100 * first)
    assert measured(3, 100) == pytest.approx(300 * first)
    assert len(fits) == 3
