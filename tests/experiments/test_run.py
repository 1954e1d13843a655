import time

import numpy as np
import pytest

import purerec as pr
from purerec.errors import ConfigError, DataError, DivergedError, PurerecError
from purerec.evaluation.metrics import DEFAULT_METRICS
from purerec.experiments.cells import cell as cells
from purerec.experiments.cells import work
from purerec.experiments.cells.cell import CellStore
from purerec.experiments.panels import compare_panel, make_panel
from purerec.experiments.plans import Plan
from purerec.experiments.run import fit_with_early_stopping, run
from purerec.jit.compiling import COMPILING


def parts():
    rng = np.random.default_rng(0)
    user = rng.integers(0, 50, 1200)
    return pr.split(pr.Interactions.from_columns(user, 2 * rng.integers(0, 25, 1200) + user % 2), "ratio")


def compare_models(split, plans, *, store=None, tell=lambda line: None, **how):
    def watch(progress):
        if progress.line is not None:
            tell(progress.line)

    return compare_panel(make_panel(split, plans, **how), store=store, watch=watch)


PLANS = [Plan("itempop", "itempop"), Plan("small", "pugmf", {"dim": 2, "epochs": 5}), Plan("pugmf", "pugmf")]


def test_compiling_is_no_part_of_the_time_of_a_fit(monkeypatch):
    real = pr.PUGMF._fit

    def compiles(self, *args):
        began = time.perf_counter()
        learned = real(self, *args)
        time.sleep(0.1)
        COMPILING.seconds += time.perf_counter() - began  # as if all of it had been compiling
        return learned

    monkeypatch.setattr(COMPILING, "seconds", 0.0)
    monkeypatch.setattr(pr.PUGMF, "_fit", compiles)
    model = pr.PUGMF(epochs=20, dim=8)
    assert run(parts(), model).fit_seconds < COMPILING.seconds / 2
    assert model.fitted_on.fit_seconds < COMPILING.seconds / 2
    fit_with_early_stopping(model, parts().train, seed=0, options=pr.Run())
    assert model.fitted_on.fit_seconds < COMPILING.seconds / 2


def test_a_comparison_that_was_interrupted_goes_on(tmp_path, monkeypatch):
    split, store = parts(), CellStore(tmp_path / "runs")
    whole = compare_models(split, PLANS, seeds=2, baseline="itempop", metric="NDCG@10")
    lines = []

    def stop(line):
        lines.append(line)
        if len(lines) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare_models(split, PLANS, seeds=2, baseline="itempop", metric="NDCG@10", store=store, tell=stop)
    runs = []
    real = work.run
    monkeypatch.setattr(work, "run", lambda *a, **k: runs.append(1) or real(*a, **k))
    again = compare_models(split, PLANS, seeds=2, baseline="itempop", metric="NDCG@10", store=store)
    assert len(runs) == 2  # out of six
    for name in whole.results:
        assert again.mean(name, "NDCG@10") == whole.mean(name, "NDCG@10")
    assert [(t.model, t.p) for t in again.tests()] == [(t.model, t.p) for t in whole.tests()]
    assert {again.scores()[row][column] for row, column in again.best_scores()} == {
        max(again.mean(name, metric) for name in again.results) for metric in again.metrics
    }
    assert again.table().drop("fit_seconds", "added_mb").equals(whole.table().drop("fit_seconds", "added_mb"))


def test_wrong_plans_are_told_before_anything_is_fitted():
    split = parts()
    with pytest.raises(ConfigError, match="each once"):
        compare_models(split, [PLANS[0], PLANS[0]])
    with pytest.raises(ConfigError, match="no setting"):
        compare_models(split, [PLANS[0], Plan("x", "pugmf", {"dmi": 3})])
    with pytest.raises(ConfigError, match="not among"):
        compare_models(split, PLANS, baseline="ease!")


def test_a_model_that_has_seen_the_test_part_is_refused():
    split = parts()
    cheat = pr.make_model("itempop").fit(split.test)
    with pytest.raises(DataError, match="would be inflated"):
        run(split, cheat)
    other = pr.make_model("itempop").fit(pr.Interactions.from_columns([1], [2]))
    with pytest.raises(DataError, match="other"):
        run(split, other)


class Broken(pr.ItemPop):
    """A model whose fit raises the error in its name."""

    deterministic = False
    error: BaseException = RuntimeError("no such thing")

    def _fit(self, train, valid, seed, run):
        if seed == 1:
            raise self.error
        return super()._fit(train, valid, seed, run)


def of_somebody_else() -> Exception:
    error = ValueError("no luck")
    error.add_note("mine failed in fit")
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DivergedError("epoch 3: the loss is nan; lower learning_rate"), "epoch 3: the loss is nan"),
        (MemoryError(), "out of memory"),
        (RuntimeError("no such thing"), "internal error: RuntimeError: no such thing"),
        (of_somebody_else(), "mine failed in fit: ValueError: no luck"),
    ],
)
def test_a_model_that_fails_is_told_and_the_others_go_on(error, reason, monkeypatch):
    monkeypatch.setattr(Broken, "error", error)
    make = Plan.make
    monkeypatch.setattr(Plan, "make", lambda self: Broken() if self.name == "broken" else make(self))
    plans = [PLANS[0], Plan("broken", "itempop"), PLANS[1]]
    lines = []
    found = compare_models(parts(), plans, seeds=2, tell=lines.append)
    assert list(found.results) == ["itempop", "small"]
    assert found.failed["broken"].startswith(reason)
    assert any(line.startswith(f"broken failed: {reason}") for line in lines)
    assert [row.model for row in found.tests()] == ["itempop", "small"]
    assert found.to_dict()["failed"] == found.failed
    assert found.advice.startswith("Use ")
    # The others can be tested without the baseline, too.
    other = compare_models(parts(), plans, seeds=2, baseline="broken", tell=lines.append)
    assert other.baseline == "itempop"
    assert other.failed["broken"].endswith("; the others are tested against itempop")
    with pytest.raises(PurerecError, match=f"no model could be compared: broken: {reason}"):
        compare_models(parts(), plans[1:2], seeds=2)


def test_ctrl_c_is_no_failure_of_a_model(monkeypatch):
    monkeypatch.setattr(Broken, "error", KeyboardInterrupt())
    monkeypatch.setattr(Plan, "make", lambda self: Broken())
    with pytest.raises(KeyboardInterrupt):
        compare_models(parts(), PLANS[:1], seeds=2)


def test_any_metric_of_ranks_is_computed_and_others_are_refused_before_anything_is_fitted(monkeypatch):
    found = compare_models(parts(), PLANS[:2], seeds=1, metric="Recall@7")
    assert found.metrics == [*DEFAULT_METRICS, "Recall@7"]
    assert found.tests()[1].mean == pytest.approx(found.mean("small", "Recall@7"))
    monkeypatch.setattr(work, "run", None)
    with pytest.raises(ConfigError, match="unknown metric 'foo'; choose from MAP, MRR, P@k"):
        compare_models(parts(), PLANS, metric="foo")
    with pytest.raises(ConfigError, match="Coverage@5 does not measure hits"):
        compare_models(parts(), PLANS, metric="Coverage@5")


# ---------------------------------------------------------------------- the store of finished runs


def count_runs(monkeypatch):
    runs = []
    real = work.run
    monkeypatch.setattr(work, "run", lambda *a, **k: runs.append(1) or real(*a, **k))
    return runs


def test_a_changed_default_is_run_anew(tmp_path, monkeypatch):
    store, plans = CellStore(tmp_path / "runs"), [Plan("ease", "ease")]
    first = compare_models(parts(), plans, seeds=1, store=store)
    runs = count_runs(monkeypatch)
    compare_models(parts(), plans, seeds=1, store=store)
    assert not runs
    # The same setting spelled out is the same run; another default is not.
    compare_models(parts(), [Plan("ease", "ease", {"regularization": 500})], seeds=1, store=store)
    assert not runs
    field = pr.models.ease.EASEConfig.model_fields["regularization"]
    monkeypatch.setattr(field, "default", 3.0)
    pr.models.ease.EASEConfig.model_rebuild(force=True)
    try:
        second = compare_models(parts(), plans, seeds=1, store=store)
    finally:
        monkeypatch.undo()
        pr.models.ease.EASEConfig.model_rebuild(force=True)
    assert [r.settings["regularization"] for r in (first.results["ease"][0], second.results["ease"][0])] == [500, 3]


def test_whatever_a_result_depends_on_is_run_anew(tmp_path, monkeypatch):
    store, plans, split = CellStore(tmp_path / "runs"), PLANS[:1], parts()
    compare_models(split, plans, seeds=1, store=store)
    runs = count_runs(monkeypatch)
    assert split.valid is not None
    # The same test part, and the rest divided differently; other ways of ranking; other code.
    half = len(split.valid) // 2
    rows = np.arange(len(split.full_train))
    moved = pr.Split(
        split.full_train.subset(rows[:-half]), split.full_train.subset(rows[-half:]), split.test, split.made
    )
    swapped = pr.Split(split.train, split.test, split.valid, split.made)
    for n, (other, how) in enumerate(
        [
            (moved, {}),
            (swapped, {}),
            (split, {"metric": "P@7"}),
            (split, {"protocol": "sampled"}),
            (split, {"protocol": "sampled", "pool": 7}),
        ],
        start=1,
    ):
        compare_models(other, plans, seeds=1, store=store, **how)
        assert len(runs) == n
    monkeypatch.setattr(cells, "code_of", lambda model: "changed")
    compare_models(split, plans, seeds=1, store=store)
    assert len(runs) == 6


def test_a_store_that_cannot_be_used_is_done_without(tmp_path, monkeypatch):
    whole = compare_models(parts(), PLANS[:2], seeds=2)
    (tmp_path / "file").write_text("")
    found = compare_models(parts(), PLANS[:2], seeds=2, store=CellStore(tmp_path / "file"))
    assert found.mean("small", "P@5") == whole.mean("small", "P@5")
    store = CellStore(tmp_path / "runs")
    compare_models(parts(), PLANS[:2], seeds=1, store=store)
    for folder in store.path.iterdir():
        (folder / "manifest.json").write_text("{")
    assert compare_models(parts(), PLANS[:2], seeds=1, store=store).mean("small", "P@5") > 0
    # Another comparison of the same data starts, and clears the store.
    assert compare_models(parts(), PLANS[:2], seeds=2, store=store, tell=lambda _: store.clear()).results


def test_early_stopping_refits_on_everything():
    split = parts()
    model = pr.PUGMF(epochs=40, validate_every=2, dim=4)
    fit_with_early_stopping(model, split.full_train, seed=0, options=pr.Run())
    assert model.fitted_on.positives == split.full_train.n_positives
    assert len(model.history.records) == model.fitted_on.epochs_found
    with pytest.raises(ConfigError, match="not fitted in epochs"):
        fit_with_early_stopping(pr.ItemPop(), split.full_train, seed=0, options=pr.Run())
