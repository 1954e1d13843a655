"""Study files: continuing, refusing, sharing, a full disk."""

import subprocess
import sys
from dataclasses import replace

import pytest

import purerec as pr
from conftest import need
from purerec.errors import ConfigError, MissingExtraError, StoreError
from purerec.models.registry import model_class
from purerec.tuning.objective import Task
from purerec.tuning.search import Budget, tune
from purerec.tuning.study import forget, models_in
from tuning.tastes import columns, settings_tried, task

need("optuna")


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
    # All trials are there: nothing is fitted.
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
    tune(task(), "ease", budget=Budget(trials=1), study=path)  # another model has its own study in the file
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


def test_a_study_of_other_code_is_refused(tmp_path, monkeypatch):
    """Of a model or a metric of one's own that was edited since."""
    module = type(sys)("notebook_of_studies")
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def made(sign, weight):
        text = f"""
import numpy as np
import purerec as pr
@pr.register
class Mine:
    name = "mine_of_studies"
    def fit(self, train): self.pop_ = {sign}train.positives.item_counts
    def score(self, user_idx): return np.tile(self.pop_, (len(user_idx), 1))
@pr.register_metric
def hits_of_studies(ranks): return {weight} * len(ranks)
"""
        exec(text, vars(module))

    def search():
        return tune(task(metric="hits_of_studies"), "mine_of_studies", budget=Budget(trials=1), study=tmp_path / "s")

    made("+", 1)
    first = search()
    made("+", 1)
    assert search().best == first.best
    made("-", 1)
    with pytest.raises(ConfigError, match=r"of another search \(code was"):
        search()
    made("+", 2)
    with pytest.raises(ConfigError, match=r"of another search \(metric's code was"):
        search()


def test_only_the_studies_of_some_models_are_removed(tmp_path):
    path = tmp_path / "s"
    for name in ("itemknn", "ease"):
        tune(task(), name, budget=Budget(trials=2), study=path)
    assert models_in(path) == {"itemknn", "ease"}
    forget(path, ["ease", "svd"])
    assert models_in(path) == {"itemknn"}
    tune(task(), "ease", budget=Budget(trials=1), study=path)
    assert [len(settings_tried(path, name)) for name in ("itemknn", "ease")] == [2, 1]
    begun = path.read_bytes() + b'{"op_code": 4, "work'
    path.write_bytes(begun)
    assert models_in(path) == {"itemknn", "ease"}
    assert path.read_bytes() == begun  # another process may be writing the rest of it
    forget(path, ["ease", "itemknn"])
    assert path.read_bytes() == b""
    path.write_text("user,item\n1,2\n3,4\n")
    forget(path, ["ease"])  # damaged: the cache only holds what can be made again
    assert path.read_bytes() == b""


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
    """Another process that reports when it is ready, and stays until its standard input is closed."""
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
    assert tune(task(), "itemknn", budget=Budget(trials=3), study=path).trials == 3  # the lock ended with the process


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
