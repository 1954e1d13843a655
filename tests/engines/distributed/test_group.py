"""Workers that would not compute the same, or that are lost."""

import numpy as np
import pytest

from purerec.engines.distributed.group import Group, _check_versions, _losses, connect
from purerec.errors import ConfigError, SharedError, WorkerError


class TwoWorkers(Group):
    """The second one reports its versions."""

    rank, size = 0, 2

    def __init__(self, second):
        self._second = second

    def add_up(self, array):
        said = self._second(bytes(array[0]).rstrip(b"\0").decode()).encode()
        array[1, : len(said)] = np.frombuffer(said, np.uint8)


def test_other_versions_are_refused_and_the_worker_is_named():
    _check_versions(TwoWorkers(lambda line: line))

    def older(line):
        versions, _, _ = line.rpartition("|")
        return versions.replace(np.__version__, "1.26.0") + "|node7"

    with pytest.raises(SharedError, match=r"worker 1 on node7 has .*numpy 1\.26\.0.*; install the same versions"):
        _check_versions(TwoWorkers(older))


def test_a_lost_worker_is_told_in_one_line():
    with (
        pytest.raises(WorkerError, match=r"another worker was lost \(Connection closed\); the fit continues") as told,
        _losses(),
    ):
        raise RuntimeError("Connection closed\nby peer")
    assert "\n" not in str(told.value)


def test_a_process_that_nobody_started_as_a_worker(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(ConfigError, match="not started by torchrun, Ray or Spark"):
        connect()
