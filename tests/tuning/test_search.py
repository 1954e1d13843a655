"""Searching for settings: spaces, studies, pruning, the check, settings files, and the command."""

import json
import math
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import purerec as pr
from conftest import PUREREC, ROOT, need, purerec
from purerec.errors import ConfigError, DataError, DivergedError, MissingExtraError, StoreError
from purerec.evaluation.significance import paired_t_test
from purerec.models.contract.search_space import Choices
from purerec.models.registry import REGISTRY, make_model, model_class
from purerec.tuning import objective, search, settings_file
from purerec.tuning.objective import Check, OutOfTime, Task
from purerec.tuning.search import Budget, tune

need("optuna")


def columns(n=1500, seed=0):
    """60 people, 40 things, in two tastes."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, 60, n)
    return user, 2 * rng.integers(0, 20, n) + user % 2


def task(**changes):
    parts = pr.split(pr.Interactions.from_columns(*columns(), name="tastes"), "ratio")
    return Task(parts.full_train, parts.made, **{"n_fresh": 2, **changes})


def settings_tried(path, model):
    """Settings of the trials that ended, as the study file has them."""
    from purerec.tuning.study import need_optuna

    optuna = need_optuna()
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    trials = optuna.load_study(study_name=model, storage=storage).trials
    return [t.user_attrs["settings"] for t in trials if t.state.name in ("COMPLETE", "PRUNED")]


# ---------------------------------------------------------------------- spaces


@pytest.mark.parametrize("name", REGISTRY)
def test_a_space_is_about_settings_that_there_are_and_holds_the_defaults(name):
    config = model_class(name).config_class()
    positives = task().train.positives
    for setting, space in config.search_space.items():
        assert setting in type(config).model_fields
        default = getattr(config, setting)
        if default is None:
            default = space.start(positives) if callable(space.start) else space.start
            assert default is not None
        # A default that follows from the data may lie outside on data this small; the stand-in may not.
        near = space.nearest(default)
        if getattr(config, setting) is not None:
            assert near == default
        make_model(name, **{setting: near})
    assert bool(config.search_space) == (name != "itempop")


class Drawn:
    """A trial that suggests what hypothesis draws, the ends included."""

    def __init__(self, data):
        self.data = data

    def suggest_float(self, name, low, high, *, log):
        return self.data.draw(st.floats(low, high), label=name)

    def suggest_int(self, name, low, high, *, log):
        return self.data.draw(st.integers(low, high), label=name)

    def suggest_categorical(self, name, values):
        return self.data.draw(st.sampled_from(values), label=name)


@pytest.mark.parametrize("name", REGISTRY)
@given(data=st.data())
def test_whatever_a_space_suggests_is_a_valid_config(name, data):
    space = model_class(name).config_class.search_space
    settings = {setting: one.suggest(setting, Drawn(data)) for setting, one in space.items()}
    config = make_model(name, **settings).config
    assert {setting: getattr(config, setting) for setting in settings} == settings
    assert all(float(f"{value:.3g}") == value for value in settings.values() if isinstance(value, float))


@pytest.mark.parametrize("name", [name for name in REGISTRY if name != "itempop"])
def test_optuna_can_propose_for_every_model(name, monkeypatch):
    """All models through the sampler, random and learned, without fitting any."""
    calls = []

    def measure(self, model, settings, report, deadline=math.inf):
        make_model(model, **settings)
        calls.append(settings)
        return float(len(calls) % 7)

    monkeypatch.setattr(Task, "measure", measure)
    monkeypatch.setattr(Task, "check", lambda *_: Check(2, 0.1, 0.2, 0.1, 0.05, 0.15, 0.001))
    found = tune(task(), name, budget=Budget(trials=14))
    assert len({json.dumps(settings) for settings in calls}) > 1
    assert found.trials == 14
    assert found.kept == "tuned"
    for setting, space in model_class(name).config_class.search_space.items():
        if isinstance(space, Choices):
            assert {s.get(setting) for s in calls[1:]} <= set(space.values)


# ---------------------------------------------------------------------- searching


def test_the_first_trial_has_the_defaults_and_the_best_is_never_worse():
    found = tune(task(), "itemknn", budget=Budget(trials=8), fixed={"neighbors": "7"})
    alone = task()
    default = np.mean(
        [
            alone.evaluate(make_model("itemknn", neighbors=7).fit(fold.train, seed=n), fold).metrics["P@5"]
            for n, fold in enumerate(alone.folds[:2])
        ]
    )
    assert found.defaults == pytest.approx(default)
    assert found.best >= found.defaults
    assert found.trials == 8
    assert found.best_settings["neighbors"] == 7
    assert {t["settings"]["neighbors"] for t in found.top} == {7}
    assert found.settings["neighbors"] == 7


def test_defaults_win_if_nothing_is_better(monkeypatch):
    monkeypatch.setattr(Task, "measure", lambda *_: 0.5)
    found = tune(task(), "bpr", budget=Budget(trials=4))
    assert (found.kept, found.settings, found.check) == ("defaults", {}, None)
    assert "no trial was better" in found.why


def test_a_model_in_epochs_reports_at_fifths_and_ends_with_what_an_evaluation_says():
    reports = []
    one = task(n_folds=1)
    value = one.measure("svd", {"dim": 3, "epochs": 7}, lambda *report: reports.append(report))
    assert [step for _, step in reports] == [1, 2, 4, 5]
    assert reports[-1][0] == value
    fitted = make_model("svd", dim=3, epochs=7).fit(one.folds[0].train, seed=0)
    assert one.evaluate(fitted, one.folds[0]).metrics["P@5"] == pytest.approx(value)


def test_pruning_gives_up_on_what_goes_badly(monkeypatch):
    """Every fourth trial is hopeless from its first report on, and would be noticed if it ran to its end."""
    ended, number = [], iter(range(100))

    def measure(self, model, settings, report, deadline=math.inf):
        n = next(number)
        value = 0.0 if n % 4 == 3 else 1.0 + n / 1000
        for step in range(1, self.last_step + 1):
            report(value, step)
        ended.append(n)
        return value

    monkeypatch.setattr(Task, "measure", measure)
    monkeypatch.setattr(Task, "check", lambda *_: Check(2, 0.2, 0.2, 0.0, -0.1, 0.1, 0.9))
    found = tune(task(), "bpr", budget=Budget(trials=20))
    hopeless = [n for n in range(20) if n % 4 == 3]
    assert not set(hopeless[1:]) & set(ended)  # the first comes before there is a median of five
    assert found.pruned >= 4
    assert found.trials == 20


def test_a_pruned_fit_stops_in_the_middle():
    epochs = []

    def stop(value, step):
        epochs.append(step)
        raise search.Pruned

    with pytest.raises(search.Pruned):
        task().measure("svd", {"epochs": 10}, stop)
    assert epochs == [1]


def test_training_that_runs_away_is_a_failed_trial_and_the_search_goes_on(monkeypatch):
    real = Task.measure

    def measure(self, model, settings, report, deadline=math.inf):
        if settings and settings["neighbors"] % 2:
            raise DivergedError("epoch 3: the loss is nan")
        return real(self, model, settings, report, deadline)

    monkeypatch.setattr(Task, "measure", measure)
    lines = []
    found = tune(task(), "itemknn", budget=Budget(trials=10), tell=lines.append)
    assert found.failed > 0
    assert found.trials == 10
    assert any("the loss is nan" in line for line in lines)

    def broken(*_):
        raise DivergedError("epoch 0: the loss is nan")

    monkeypatch.setattr(Task, "measure", broken)
    with pytest.raises(DivergedError):  # defaults that do not work are an error
        tune(task(), "itemknn", budget=Budget(trials=3))


def test_time_ends_a_search_in_the_middle_of_a_trial_but_not_before_the_defaults():
    with pytest.raises(OutOfTime):
        task().measure("svd", {"epochs": 50}, lambda *_: None, time.perf_counter() - 1)
    found = tune(task(), "svd", fixed={"epochs": 5, "dim": 2}, budget=Budget(minutes=1e-9))
    assert found.trials == 1
    start = time.perf_counter()
    found = tune(task(), "svd", fixed={"epochs": 5, "dim": 2}, budget=Budget(minutes=0.02))
    assert found.trials >= 1
    assert time.perf_counter() - start < 60


def test_a_model_without_settings_has_one_trial_and_says_so():
    lines = []
    found = tune(task(), "itempop", budget=Budget(trials=9), tell=lines.append)
    assert (found.trials, found.kept) == (1, "defaults")
    assert "no settings to search" in lines[0]


def test_settings_of_another_search_are_tried_second(tmp_path):
    tune(task(), "itemknn", budget=Budget(trials=2), also={"neighbors": 13, "shrinkage": 9e9}, study=tmp_path / "s")
    first, second = settings_tried(tmp_path / "s", "itemknn")
    assert first == {}
    assert (second["neighbors"], second["shrinkage"]) == (13, 1000)


def test_the_sampled_protocol_and_other_metrics():
    found = tune(task(metric="MRR", protocol="sampled", pool=10), "svd", fixed={"epochs": 5}, budget=Budget(trials=3))
    assert found.metric == "MRR"
    assert 0 < found.best <= 1
    with pytest.raises(ConfigError, match="unknown metric"):
        task(metric="P5")
    with pytest.raises(ConfigError, match="says nothing about hits"):
        task(metric="Coverage@10")
    with pytest.raises(ConfigError, match="at least 1"):
        task(n_folds=0)
    with pytest.raises(ConfigError, match="more than 0"):
        Budget(minutes=0)


# ---------------------------------------------------------------------- the check


def test_the_check_uses_folds_that_no_trial_has_seen(monkeypatch):
    fitted = {"search": [], "check": []}
    where = ["search"]
    one = task(n_folds=2, n_fresh=3)
    real = Task.evaluate

    def evaluate(self, model, fold):
        fitted[where[0]].append(self.folds.index(fold))
        return real(self, model, fold)

    monkeypatch.setattr(Task, "evaluate", evaluate)
    one.measure("itemknn", {}, lambda *_: None)
    where[0] = "check"
    found = one.check("itemknn", {}, {"neighbors": 2})
    assert set(fitted["search"]) == {0, 1}
    assert set(fitted["check"]) == {2, 3, 4}
    assert found.difference == pytest.approx(found.best - found.defaults)
    assert found.ci_low <= found.difference <= found.ci_high
    rows = [set(zip(f.test.user_idx.tolist(), f.test.item_idx.tolist(), strict=True)) for f in one.folds]
    assert not (rows[0] | rows[1]) & (rows[2] | rows[3] | rows[4])


@pytest.mark.parametrize(
    ("difference", "p", "kept"), [(0.01, 0.04, "tuned"), (0.01, 0.06, "defaults"), (-0.01, 0.001, "defaults")]
)
def test_the_best_is_kept_only_if_it_is_better_beyond_noise(monkeypatch, difference, p, kept):
    values = iter([0.1, 0.3, 0.2])
    monkeypatch.setattr(Task, "measure", lambda *_: next(values))
    monkeypatch.setattr(Task, "check", lambda *_: Check(2, 0.2, 0.2 + difference, difference, -0.1, 0.1, p))
    found = tune(task(), "ease", budget=Budget(trials=3))
    assert found.kept == kept
    assert (found.settings == {}) == (kept == "defaults")
    assert (found.best, found.defaults) == (0.3, 0.1)
    assert found.best_settings["regularization"] > 0
    entry = found.entry()
    assert entry["fresh"]["p"] == p
    assert ("best_settings" in entry and entry["best_settings"] is not None) == (kept == "defaults")


def test_how_many_false_betters_are_to_be_expected():
    """What docs/tuning.md tells: half of the level, for each model with something to search."""
    rng = np.random.default_rng(0)
    passed = 0
    for _ in range(4000):
        difference = rng.normal(0, 0.1, 200)
        p = paired_t_test(difference, np.zeros(200))[1]
        passed += Check(3, 0.2, 0.2, float(difference.mean()), -1, 1, p).better
    assert passed / 4000 == pytest.approx(objective.SIGNIFICANT / 2, abs=0.0075)  # three standard errors
    searched = [name for name in REGISTRY if model_class(name).config_class.search_space]
    files = (ROOT / "experiments" / "tuned").glob("*.toml")
    tests = sum("fresh" in entry for f in files for entry in tomllib.loads(f.read_text())["models"].values())
    told = " ".join((ROOT / "docs" / "tuning.md").read_text().split())
    assert f"{len(searched)} x 0.025 = {len(searched) * 0.025:.2f} false" in told
    assert f"The {tests} tests in the tables below would have {tests * 0.025:.1f}." in told


# ---------------------------------------------------------------------- studies


def test_a_search_goes_on_as_if_it_had_never_stopped(tmp_path, monkeypatch):
    whole = tune(task(), "itemknn", budget=Budget(trials=14), study=tmp_path / "whole")
    tune(task(), "itemknn", budget=Budget(trials=5), study=tmp_path / "parts")
    real, calls = Task.measure, []

    def interrupted(self, *args):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(self, *args)

    monkeypatch.setattr(Task, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune(task(), "itemknn", budget=Budget(trials=14), study=tmp_path / "parts")
    monkeypatch.setattr(Task, "measure", real)
    assert len(settings_tried(tmp_path / "parts", "itemknn")) == 7
    found = tune(task(), "itemknn", budget=Budget(trials=14), study=tmp_path / "parts")
    assert found.trials == 14
    assert settings_tried(tmp_path / "parts", "itemknn") == settings_tried(tmp_path / "whole", "itemknn")
    assert (found.best, found.best_settings, found.check) == (whole.best, whole.best_settings, whole.check)
    # All is there: nothing is fitted any more.
    monkeypatch.setattr(Task, "measure", None)
    monkeypatch.setattr(Task, "check", None)
    again = tune(task(), "itemknn", budget=Budget(trials=14), study=tmp_path / "parts")
    assert again == found


def test_interrupted_at_the_defaults_they_still_come_first(tmp_path, monkeypatch):
    real = Task.measure

    def interrupted(self, *args):
        raise KeyboardInterrupt

    monkeypatch.setattr(Task, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune(task(), "itemknn", budget=Budget(trials=3), study=tmp_path / "s")
    monkeypatch.setattr(Task, "measure", real)
    tune(task(), "itemknn", budget=Budget(trials=3), study=tmp_path / "s")
    tried = settings_tried(tmp_path / "s", "itemknn")
    assert tried[0] == {}
    assert len(tried) == 3
    assert all(tried[1:])


def test_a_study_of_another_search_is_refused(tmp_path):
    path = tmp_path / "s"
    tune(task(), "itemknn", budget=Budget(trials=1), study=path)
    other = pr.Interactions.from_columns(*columns(seed=1), name="other")
    for changed, what in (
        (task(metric="MRR"), "metric"),
        (task(n_folds=1), "folds"),
        (task(seed=1), "seed"),
        (replace(task(), train=other), "data"),
    ):
        with pytest.raises(ConfigError, match=f"of another search \\({what} was"):
            tune(changed, "itemknn", budget=Budget(trials=1), study=path)
    with pytest.raises(ConfigError, match="fixed was"):
        tune(task(), "itemknn", fixed={"neighbors": 3}, budget=Budget(trials=1), study=path)
    tune(task(), "ease", budget=Budget(trials=1), study=path)  # another model has a study of its own in the file
    assert settings_tried(path, "itemknn") == [{}]


def test_a_changed_space_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "s"
    tune(task(), "ease", budget=Budget(trials=1), study=path)
    config = model_class("ease").config_class
    monkeypatch.setattr(
        config, "search_space", {"regularization": replace(config.search_space["regularization"], low=1)}
    )
    with pytest.raises(ConfigError, match="space was"):
        tune(task(), "ease", budget=Budget(trials=1), study=path)


def test_half_a_line_of_a_killed_process_is_taken_off_and_other_files_are_left_alone(tmp_path):
    path = tmp_path / "s"
    tune(task(), "itemknn", budget=Budget(trials=2), study=path)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"op_code": 4, "work')
    assert tune(task(), "itemknn", budget=Budget(trials=3), study=path).trials == 3
    foreign = tmp_path / "clicks.csv"
    for content in ("user,item\n1,2", "[1, 2]\n", "\x00\xff"):
        foreign.write_text(content)
        with pytest.raises(ConfigError, match="not a study file"):
            tune(task(), "itemknn", budget=Budget(trials=1), study=foreign)
        assert foreign.read_text() == content
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], b"{broken}\n", *lines[3:]]))
    with pytest.raises(ConfigError, match="damaged"):
        tune(task(), "itemknn", budget=Budget(trials=1), study=path)
    with pytest.raises(ConfigError, match="cannot use"):
        tune(task(), "itemknn", budget=Budget(trials=1), study=tmp_path)


def elsewhere(code, *arguments):
    """Another process that says when it is ready, and stays until its standard input is closed."""
    code = f"import sys\n{code}\nprint('ready', flush=True)\nsys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout.readline() == "ready\n"
    return other


HOLD = """
from pathlib import Path
from purerec.tuning.study import claimed
c = claimed(Path(sys.argv[1]))
c.__enter__()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_a_study_that_another_process_is_at_is_left_alone(tmp_path):
    path = tmp_path / "s"
    tune(task(), "itemknn", budget=Budget(trials=2), study=path)
    before = path.read_bytes()
    other = elsewhere(HOLD, path)
    try:
        with pytest.raises(ConfigError, match="in use by another search; wait until it has ended"):
            tune(task(), "itemknn", budget=Budget(trials=3), study=path)
        assert path.read_bytes() == before
    finally:
        other.communicate(timeout=60)
    assert tune(task(), "itemknn", budget=Budget(trials=3), study=path).trials == 3  # gone with the process


def test_a_full_disk_is_told_and_the_trials_before_are_kept(tmp_path, monkeypatch):
    from optuna.storages.journal import JournalFileBackend

    path = tmp_path / "s"
    tune(task(), "itemknn", budget=Budget(trials=2), study=path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(JournalFileBackend, "append_logs", full)
    with pytest.raises(StoreError, match=r"cannot be written to .*: No space left on device; make room and"):
        tune(task(), "itemknn", budget=Budget(trials=4), study=path)
    monkeypatch.undo()
    assert tune(task(), "itemknn", budget=Budget(trials=4), study=path).trials == 4


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"purerec\[tune\]"):
        tune(task(), "ease")


# ---------------------------------------------------------------------- settings files

PLAIN = st.one_of(st.booleans(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False), st.text(max_size=20))


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.one_of(PLAIN, st.lists(PLAIN, max_size=3)), max_size=4))
def test_what_is_written_is_read_back(entry):
    text = f"settings = {settings_file._value(entry)}"
    assert tomllib.loads(text) == {"settings": entry}


def test_settings_files(tmp_path):
    path = tmp_path / "deep" / "tuned.toml"
    facts = {"data": "tastes", "trials_each": 3, "minutes_each": None}
    models = {
        "svd": {"settings": {"dim": 3, "learning_rate": 0.05}, "kept": "tuned", "fresh": None},
        "ials": {"settings": {"alpha": None}, "kept": "defaults"},
        "itempop": {"settings": {}},
    }
    settings_file.write_settings(path, facts, models)
    assert settings_file.read_settings(path)["svd"] == {"dim": 3, "learning_rate": 0.05}
    assert make_model("ials", **settings_file.settings_from(path, "ials")).config.alpha is None
    with pytest.raises(ConfigError, match="has settings for itempop, svd, ials, not for bpr"):
        settings_file.settings_from(path, "bpr")
    path.write_text("[models.svd]\nsettings = { dmi = 3 }\n")
    with pytest.raises(ConfigError, match="did you mean dim"):
        settings_file.settings_from(path, "svd")
    for wrong in ("x = [", "models = 3", "[models.svd]\ndim = 3"):
        path.write_text(wrong)
        with pytest.raises(ConfigError, match="purerec tune --out"):
            settings_file.settings_from(path, "svd")
    with pytest.raises(ConfigError, match="cannot read"):
        settings_file.settings_from(tmp_path / "nothing.toml", "svd")
    with pytest.raises(ConfigError, match="no tuned settings for 'clicks'"):
        settings_file.tuned_settings("clicks", "svd")
    with pytest.raises(ConfigError, match="give one of them"):
        settings_file.chosen_file("ml-100k", path, tuned=True)


def searched_file(path, parts, **changes):
    facts = {"data": "tastes", "split": parts.label, "searched": settings_file.searched(parts) | changes}
    return settings_file.write_settings(path, facts, {"svd": {"settings": {"dim": 3}}})


def test_settings_are_refused_where_their_search_had_rows_of_the_test_part(tmp_path):
    log = pr.Interactions.from_columns(*columns(), name="tastes").deduplicate()
    parts = pr.split(log, "ratio", seed=0)
    path = searched_file(tmp_path / "tuned.toml", parts)
    warnings = []
    settings_file.check_searched(path, log, parts, warnings.append)
    other = pr.split(log, "ratio", seed=1)
    shared = parts.full_train.pairs.overlap(other.test.pairs)
    assert shared > 0
    with pytest.raises(DataError, match=rf"{shared} of the {len(other.test.pairs)} rows .*here ratio .*seed=1.*tune"):
        settings_file.check_searched(path, log, other, warnings.append)
    # The same test part, and train and validation divided otherwise: none of its rows was searched on.
    again = pr.split(log, "ratio", seed=0, valid=False)
    settings_file.check_searched(path, log, again, warnings.append)
    assert not warnings


def test_settings_searched_on_the_past_may_be_judged_by_what_came_later(tmp_path):
    user, item = columns()
    log = pr.Interactions.from_columns(user, item, timestamp=np.arange(len(user)), name="tastes").deduplicate()
    path = searched_file(tmp_path / "tuned.toml", pr.split(log, "temporal", at=800))
    warnings = []
    settings_file.check_searched(path, log, pr.split(log, "temporal", at=1000), warnings.append)
    assert not warnings
    with pytest.raises(DataError, match="would be inflated"):
        settings_file.check_searched(path, log, pr.split(log, "temporal", at=600), warnings.append)


def test_another_threshold_does_not_hide_what_was_searched_on(tmp_path):
    rng = np.random.default_rng(0)
    log = pr.Interactions.from_columns(
        *columns(), rating=rng.integers(1, 6, 1500).astype(np.float32), positive_rating=4, name="tastes"
    ).deduplicate()
    path = searched_file(tmp_path / "tuned.toml", pr.split(log, "ratio"))
    warnings = []
    low = log.with_positives(2)
    settings_file.check_searched(path, low, pr.split(low, "ratio"), warnings.append)
    with pytest.raises(DataError, match="would be inflated"):
        settings_file.check_searched(path, low, pr.split(low, "ratio", seed=3), warnings.append)
    assert not warnings


def test_settings_of_other_data_or_of_unknown_origin_are_used_with_a_warning(tmp_path):
    log = pr.Interactions.from_columns(*columns(), name="tastes")
    parts = pr.split(log, "ratio")
    grown = pr.Interactions.from_columns(*columns(1600), name="tastes")
    path = searched_file(tmp_path / "tuned.toml", parts)
    strange = searched_file(tmp_path / "strange.toml", parts, method="u9", parameters={"fold": 3})
    untold = tmp_path / "by-hand.toml"
    untold.write_text("[models.svd]\nsettings = { dim = 3 }\n")
    warnings = []
    for file in (path, strange, untold):
        settings_file.check_searched(file, grown, pr.split(grown, "ratio"), warnings.append)
    assert len(warnings) == 3
    assert all("was searched on other data than this" in line and "inflated" in line for line in warnings)


@pytest.mark.parametrize(("name", "how"), [("ml-100k", "u1"), ("ml-1m", "auto"), ("yelp", "auto")])
def test_settings_of_the_papers_data_sets_know_their_split(name, how, data_dir):
    log = pr.load(name)
    path = settings_file.tuned_file(name)
    parts = pr.split(log, how)
    assert tomllib.loads(path.read_text())["searched"] == settings_file.searched(parts)
    assert tomllib.loads(path.read_text())["split"] == parts.label
    settings_file.check_searched(path, log, parts, pytest.fail)
    with pytest.raises(DataError, match="would be inflated"):
        settings_file.check_searched(path, log, pr.split(log, "u2" if how == "u1" else "ratio"), pytest.fail)


@pytest.mark.parametrize("path", sorted((ROOT / "experiments" / "tuned").glob("*.toml")), ids=lambda path: path.stem)
def test_settings_of_the_papers_data_sets(path):
    content = tomllib.loads(path.read_text())
    assert content["data"] == path.stem
    assert {"split", "metric", "folds", "fresh_folds", "command", "purerec", "date"} <= set(content)
    for name, entry in content["models"].items():
        assert settings_file.tuned_settings(path.stem, name) == entry["settings"]
        assert entry["validation"]["best"] >= entry["validation"]["defaults"]
        fresh = entry.get("fresh")
        sure = fresh is not None and fresh["difference"] > 0 and fresh["p"] < objective.SIGNIFICANT
        assert (entry["kept"] == "tuned") == sure


# ---------------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "clicks.csv"
    path.write_text("user,item\n" + "".join(f"u{u},i{i}\n" for u, i in zip(*columns(), strict=True)))
    return path


def test_from_a_file_to_settings_that_other_commands_take(clicks, tmp_path):
    out, study = tmp_path / "tuned.toml", tmp_path / "study"
    command = ["tune", clicks, "--models", "itempop,itemknn,svd", "--trials", 4, "--set", "dim=3", "--study", study]
    done = purerec(*command, "--out", out, "--json", tmp_path / "found.json", check=0)
    assert "mattered" not in done.stdout  # too few trials to say
    assert "fresh" in done.stdout
    content = tomllib.loads(out.read_text())
    assert list(content["models"]) == ["itempop", "svd", "itemknn"]
    assert content["models"]["svd"]["settings"]["dim"] == 3
    assert "dim" not in content["models"]["itemknn"]["settings"]
    assert content["trials_each"] == 4
    assert str(tmp_path) not in content["command"].replace(str(clicks), "")
    found = json.loads((tmp_path / "found.json").read_text())
    assert {name: one["trials"] for name, one in found["models"].items()} == {"itempop": 1, "itemknn": 4, "svd": 4}
    # The study file is not overwritten by accident; with --resume the answer is there at once.
    again = purerec(*command, check=2)
    assert again.stderr.count("\n") == 1
    assert "--resume" in again.stderr
    same = purerec(*command, "--resume", "--json", "-", check=0)
    assert json.loads(same.stdout)["models"] == found["models"]
    scored = purerec("evaluate", clicks, "--model", "svd", "--settings", out, "--json", "-", check=0)
    assert json.loads(scored.stdout)["settings"]["dim"] == 3
    over = purerec("evaluate", clicks, "--model", "svd", "--settings", out, "--set", "dim=2", "--json", "-", check=0)
    assert json.loads(over.stdout)["settings"]["dim"] == 2
    purerec("fit", clicks, "--model", "svd", "--settings", out, "--out", tmp_path / "m", check=0)
    both = purerec(
        "compare", clicks, "--models", "svd,itempop", "--seeds", 1, "--settings", out, "--json", "-", check=0
    )
    assert json.loads(both.stdout)["models"]["svd"][0]["settings"]["dim"] == 3


def test_the_test_part_is_never_looked_at(clicks, monkeypatch, tmp_path):
    """The command runs with a split whose test part cannot be touched, and finds the same."""
    from purerec.cli.commands import app
    from purerec.cli.groups import HoldingOut

    class Poisoned:
        def __init__(self, parts):
            self.full_train, self.made, self.label = parts.full_train, parts.made, parts.label

        def __getattr__(self, name):
            raise AssertionError(f"the search looked at .{name}")

    real = HoldingOut.split
    arguments = ["tune", str(clicks), "--model", "itemknn", "--trials", "4"]
    outcomes = []
    for poison in (lambda parts: parts, Poisoned):
        monkeypatch.setattr(HoldingOut, "split", lambda *a, poison=poison: poison(real(*a)))
        out = tmp_path / f"{len(outcomes)}.json"
        study = str(tmp_path / f"{len(outcomes)}.study")
        app([*arguments, "--study", study, "--json", str(out)], standalone_mode=False)
        outcomes.append(json.loads(out.read_text())["models"]["itemknn"])
    for one in outcomes:
        del one["seconds"]
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "nothing"], "there is no model 'nothing'"),
        (["--model", ","], "at least one model"),
        (["--model", "ease", "--metric", "P"], "unknown metric"),
        (["--model", "ease", "--trials", "0"], "--trials"),
        (["--model", "ease", "--minutes", "-1"], "more than 0"),
        (["--model", "ease", "--set", "dim=3"], "no setting 'dim'"),
        (["--models", "ease,itempop", "--set", "dim=3"], "none of ease, itempop has a setting 'dim'"),
        (["--model", "svd", "--set", "dim=0"], "dim"),
        (["--model", "ease", "--settings", "nothing.toml"], "cannot read"),
        (["--model", "ease", "--protocol", "half"], "no protocol"),
        (["--model", "ease", "--protocol", "as_published"], "defective"),
    ],
)
def test_wrong_use_is_told_in_one_line(clicks, arguments, said, monkeypatch, capsys):
    from purerec.cli import commands

    monkeypatch.setattr(sys, "argv", ["purerec", "tune", str(clicks), *arguments])
    assert commands.run() == 2
    done = capsys.readouterr()
    assert said in done.err
    assert done.err.strip().count("\n") == 0
    assert done.out == ""


def test_a_search_of_which_nothing_came_is_not_a_success(clicks, tmp_path, monkeypatch, capsys):
    from purerec.cli import commands

    def broken(*_, **__):
        raise DataError("too few rows")

    monkeypatch.setattr(search, "tune", broken)
    arguments = ["tune", str(clicks), "--models", "ease,itemknn", "--study", str(tmp_path / "s"), "--json", "-"]
    monkeypatch.setattr(sys, "argv", ["purerec", *arguments])
    assert commands.run() == 2
    done = capsys.readouterr()
    assert "ease is left out: too few rows" in done.err
    assert "none of the models could be searched" in done.err
    assert done.out == ""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_keeps_the_trials_and_says_how_to_go_on(clicks, tmp_path):
    study = tmp_path / "study"
    command = [*PUREREC, "tune", str(clicks), "--model", "svd", "--study", str(study), "--trials"]
    running = subprocess.Popen([*command, "100000"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        while not study.exists() or study.read_text().count('"seconds"') < 3:
            assert running.poll() is None, running.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130
    assert "Traceback" not in errors
    assert f"{study}: the same command with --resume goes on" in " ".join(errors.split())
    before = len(settings_tried(study, "svd"))
    assert before >= 3
    done = subprocess.run([*command, str(before + 1), "--resume", "--json", "-"], capture_output=True, text=True)
    assert json.loads(done.stdout)["models"]["svd"]["trials"] == before + 1
