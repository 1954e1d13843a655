"""Study files: the trials of a search, one Optuna study per model, in a single file of JSON lines.

A trial is stored as soon as it ends, so that an interrupted search can continue. A study records what it searched; a
study of another search is an error. Only one process may use a file at a time: continuing a study abandons the trial
that was running.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from purerec.errors import ConfigError, MissingExtraError, StoreError
from purerec.rng import key64
from purerec.storage.locks import try_lock
from purerec.training.checkpoints import brief

if TYPE_CHECKING:
    from optuna import Study

_STARTUP_TRIALS = 10
"""Random trials before the sampler starts to learn."""
_claimed: set[Path] = set()
"""Study files locked by this process."""


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Lock a study file, creating it if necessary; False if another process has it."""
    name = path.absolute()
    if name in _claimed:
        yield True
        return
    with _readable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if try_lock(fd) is False:
            yield False
            return
        _claimed.add(name)
        try:
            yield True
        finally:
            _claimed.discard(name)
    finally:
        os.close(fd)


def in_use(path: Path | None) -> ConfigError:
    return ConfigError(f"{path} is in use by another search; wait until it has ended, or give another --study")


def need_optuna() -> Any:
    """The optuna module, silenced; raises an error that names the extra if it is not installed."""
    try:
        import optuna
    except ImportError:
        raise MissingExtraError("optuna", "tune", purpose="searching for settings") from None
    logging.getLogger("optuna").setLevel(logging.WARNING)
    return optuna


def open_study(path: Path | None, identity: Mapping[str, Any]) -> Study:
    """The study of `identity['model']` in a file (None: in memory), new or continued."""
    optuna = need_optuna()
    storage = None if path is None else _storage(optuna, path)
    pruner = optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=1)
    name = identity["model"]
    study: Study = optuna.create_study(
        storage=storage, study_name=name, direction="maximize", pruner=pruner, load_if_exists=True
    )
    known = study.user_attrs.get("identity")
    identity = json.loads(json.dumps(identity))
    if known is None:
        study.set_user_attr("identity", identity)
    else:
        _check_same(path, known, identity)
    for trial in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)  # its process was killed
    return study


def models_in(path: Path) -> set[str]:
    """The models that have a study in a file, which is not changed: another process may be using it."""
    storages = need_optuna().storages
    with _readable(path):
        journal = storages.JournalStorage(storages.journal.JournalFileBackend(str(path)))
        return {study.study_name for study in journal.get_all_studies()}


def forget(path: Path, models: Collection[str]) -> None:
    """Remove the studies of these models from a file of the cache; without others, or damaged, it is emptied."""
    try:
        known = models_in(path)
    except ConfigError:
        known = set()
    if known <= set(models):
        path.write_bytes(b"")
        return
    optuna = need_optuna()
    for name in known.intersection(models):
        optuna.delete_study(study_name=name, storage=_storage(optuna, path))


def seed_next(study: Study, seed: int) -> None:
    """Make the next trial depend only on the seed and the finished trials, so that a continued search is the same."""
    optuna = need_optuna()
    states = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    ended = len(study.get_trials(deepcopy=False, states=states))
    number = int(key64(seed, f"trial {ended}")) % 2**32
    study.sampler = optuna.samplers.TPESampler(seed=number, n_startup_trials=_STARTUP_TRIALS)


def _check_same(path: Path | None, known: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
    for key, value in identity.items():
        if known.get(key) != value:
            raise ConfigError(
                f"{path}: the study of {identity['model']} is of another search ({key} was {brief(known.get(key))}, "
                f"now {brief(value)}); continue with the same command, or give another --study"
            )


def _storage(optuna: Any, path: Path) -> Any:
    _check_file(path)
    with _readable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        journal = optuna.storages.journal
        lock = journal.JournalFileOpenLock(str(path))  # the alternative, symbolic links, does not work everywhere
        backend = journal.JournalFileBackend(str(path), lock_obj=lock)
        write = backend.append_logs

        def append_logs(logs: list[dict[str, Any]]) -> None:
            try:
                write(logs)
            except OSError as error:
                raise StoreError(
                    f"the trials cannot be written to {path}: {error.strerror or error}; make room and add --resume, "
                    "or give another --study"
                ) from None

        backend.append_logs = append_logs
        return optuna.storages.JournalStorage(backend)


def _check_file(path: Path) -> None:
    """Raise an error for a file of another kind; drop the partial last line left by a killed process."""
    if not path.exists():
        return
    with _readable(path):
        content = path.read_bytes()
        first = content.partition(b"\n")[0]
        if content and "op_code" not in json.loads(first or b"{}"):
            raise ValueError("its first line has no op_code")
        if not content.endswith(b"\n"):
            with path.open("r+b") as file:
                file.truncate(content.rfind(b"\n") + 1)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"cannot use {path} as a study file: {error.strerror or error}") from None
    except (ValueError, TypeError, KeyError, AssertionError) as error:
        raise ConfigError(f"{path} is not a study file, or damaged ({error}); give another --study") from None
