"""Which worker was lost, and who reports it."""

import os
import platform
import subprocess
import sys

import pytest

from purerec.engines.distributed.roll import Peer, Roll

HERE = platform.node()


class Store(set):
    """A stand-in for torch's store."""

    def set(self, key, _):
        self.add(key)

    def check(self, keys):
        return set(keys) <= self


class Gone:
    def set(self, *_):
        raise RuntimeError("Broken pipe")

    check = set


@pytest.fixture
def ended():
    """The number of a process that has ended, but that nobody has waited for."""
    with subprocess.Popen([sys.executable, "-S", "-c", ""], stdout=subprocess.PIPE) as process:
        process.stdout.read()
        yield process.pid


def rolls(*pids, store, hosts=None):
    workers = [Peer(rank, (hosts or [HERE] * len(pids))[rank], pid) for rank, pid in enumerate(pids)]
    return [Roll(workers, rank, store) for rank in range(len(pids))]


def test_who_was_killed_is_named_once(ended):
    me = os.getpid()
    first, _, third = rolls(me, ended, me, store=Store())
    assert third.loss("noticed") is None
    told = first.loss("noticed")
    assert told.startswith(f"worker 1 on {HERE} was killed, perhaps for lack of memory; use fewer workers")
    assert "--resume" in told


def test_those_who_end_because_they_noticed_were_not_killed(ended):
    store = Store({"noticed/2"})
    first, *_ = rolls(os.getpid(), ended, ended, store=store)
    assert first.loss("noticed").startswith(f"worker 1 on {HERE} was killed")


def test_the_next_one_tells_if_the_first_is_lost(ended):
    _, second, third = rolls(ended, os.getpid(), os.getpid(), store=Store())
    assert third.loss("noticed") is None
    assert second.loss("noticed").startswith(f"worker 0 on {HERE} was killed")
    _, second = rolls(ended, os.getpid(), store=Gone())
    assert second.loss("noticed").startswith(f"worker 0 on {HERE} was killed")


def test_a_worker_that_told_why_is_not_told_again(ended):
    first, second = rolls(os.getpid(), ended, store=Store())
    second.tell()
    assert first.loss("noticed") is None


def test_nobody_knows_who_is_lost_on_another_machine():
    hosts, me = [HERE, "far", "far"], os.getpid()
    first, second, third = rolls(me, me, me, store=Store(), hosts=hosts)
    assert [roll.loss("noticed") for roll in (first, second, third)] == ["noticed", "noticed", None]


def test_a_process_that_never_was():
    assert Peer(0, HERE, 2**22 + 1).has_ended()
    assert not Peer(0, HERE, os.getpid()).has_ended()
