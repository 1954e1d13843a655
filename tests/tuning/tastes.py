"""Data, a task and the content of study files, for tests of searches."""

import numpy as np

import purerec as pr
from purerec.tuning.objective import Task


def columns(n=1500, seed=0):
    """60 people and 40 items, with two tastes."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, 60, n)
    return user, 2 * rng.integers(0, 20, n) + user % 2


def task(**changes):
    parts = pr.split(pr.Interactions.from_columns(*columns(), name="tastes"), "ratio")
    return Task(parts.full_train, parts.made, **{"n_fresh": 2, **changes})


def settings_tried(path, model):
    """Settings of the finished trials in a study file."""
    from purerec.tuning.study import need_optuna

    optuna = need_optuna()
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    trials = optuna.load_study(study_name=model, storage=storage).trials
    return [t.user_attrs["settings"] for t in trials if t.state.name in ("COMPLETE", "PRUNED")]
