"""Connections that cannot be made."""

import sys

import pytest

from cli.conftest import refused
from conftest import need
from purerec.cli.clusters.connecting import _told, check_same, connected_to_ray, failures_of_ray, versions
from purerec.errors import ConfigError, MissingExtraError, SharedError, UnknownIdError, WorkerError


def test_without_ray_the_extra_is_named(command, clicks, model, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    asked = "pip install 'purerec[ray]'"
    refused(command("fit", clicks, "--model", "pugmf", "--on", "ray", "--out", "m"), asked)
    refused(command("recommend", model, "--all", "--on", "ray", "--out", "lists"), asked)
    refused(command("evaluate", clicks, "--model", "itempop", "--on", "ray"), asked)
    with pytest.raises(MissingExtraError, match=r"a test needs ray"), connected_to_ray("ray", purpose="a test"):
        pass


def test_other_clusters_are_unknown(command, clicks, model):
    refused(command("fit", clicks, "--model", "pugmf", "--on", "dask", "--out", "m"), "--on takes ray")
    refused(command("fit", clicks, "--model", "bpr", "--on", "ray", "--out", "m"), "bpr is fitted by one process")
    refused(command("recommend", model, "--user", "u1", "--on", "ray"), "--on is for the lists of all users")
    refused(command("evaluate", clicks, "--model", "itempop", "--on", "dask"), "--on takes ray")
    with pytest.raises(ConfigError, match="not 'spark'"), connected_to_ray("spark", purpose="a test"):
        pass


def test_what_is_told_inside_of_errors_of_ray():
    class OfRay(Exception):
        cause = None

    class Both(OfRay, UnknownIdError):
        """As Ray makes them."""

    inner, outer = Both("a traceback"), OfRay()
    outer.cause, inner.__cause__ = inner, UnknownIdError("item 'x' was not in training")
    assert str(_told(outer, OfRay)) == "item 'x' was not in training"
    assert _told(OfRay(), OfRay) is None


def test_a_worker_that_has_no_memory_or_is_lost():
    need("ray")
    from ray.exceptions import NodeDiedError, RayTaskError

    full = pytest.raises(WorkerError, match=r"worker 41 on 10\.0\.0\.7: out of memory; .*, and try again")
    with full, failures_of_ray("try again"):
        raise RayTaskError("f", "a traceback", MemoryError(), ip="10.0.0.7", pid=41)
    lost = pytest.raises(WorkerError, match=r"Ray lost a worker \(.*10\.0\.0\.7.*\); free memory, and try again")
    with lost, failures_of_ray("try again"):
        raise NodeDiedError("the node 10.0.0.7 has died")
    with pytest.raises(RayTaskError), failures_of_ray("try again"):
        raise RayTaskError("f", "a traceback", ValueError("an error of ours"))


def test_a_worker_with_other_versions_is_named():
    check_same(versions())
    with pytest.raises(SharedError, match=r"the worker on \S+ has purerec .*, and others have purerec 0\.0"):
        check_same("purerec 0.0, numpy 1")
