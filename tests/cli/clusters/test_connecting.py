"""Connections to a running cluster, connections that fail, and connections that are lost."""

import json
import sys
from contextlib import nullcontext

import polars as pl
import pytest

from cli.clusters.test_evaluations import fitted
from cli.clusters.test_lists import saved_model
from cli.conftest import refused
from conftest import need, purerec
from purerec.cli.clusters.connecting import (
    _authentication,
    _told,
    check_same,
    connected_to_ray,
    failures_of_ray,
    versions,
)
from purerec.errors import ConfigError, MissingExtraError, SharedError, UnknownIdError, WorkerError


@pytest.mark.slow
def test_on_a_cluster_that_runs(clicks, tmp_path, on_cluster):
    """The only test with one: its client servers, on fixed ports, would collide with those of another."""
    model, lists = saved_model(tmp_path / "model"), tmp_path / "lists"
    asked = "recommend", tmp_path / "model", "--all"
    assert "recommendations in 3 files" in on_cluster(*asked, "-k", 4, "--out", lists).out
    told = on_cluster(*asked, "--only", "no such", "--out", tmp_path / "x", check=2).err
    assert told.startswith("error: item 'no such'")
    assert len(told.splitlines()) == 1
    assert not (tmp_path / "x").exists()
    found = pl.read_parquet(lists / "*.parquet")
    assert found.select("user", "item", "rank").equals(model.recommend(k=4).select("user", "item", "rank"))

    words, alone = fitted(clicks, tmp_path / "m")
    words += ["--protocol", "sampled", "--pool", 10, "--seed", 3, "--metrics", "NDCG@5,MRR"]
    (tmp_path / "items.csv").write_text("item,kind\n" + "".join(f"i{i},{'ab'[i % 2]}\n" for i in range(40)))
    words += ["--by", "kind", "--items", tmp_path / "items.csv", "--json", "-"]
    measured = json.loads(on_cluster(*words).out)
    assert measured["metrics"] == alone(protocol="sampled", pool=10, seed=3, metrics="NDCG@5,MRR")
    assert measured["by"] == json.loads(purerec(*words, check=0).stdout)["by"]


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
    refused(command("recommend", model, "--user", "u1", "--on", "ray"), "--on works only with --all")
    refused(command("evaluate", clicks, "--model", "itempop", "--on", "dask"), "--on takes ray")
    with pytest.raises(ConfigError, match="not 'spark'"), connected_to_ray("spark", purpose="a test"):
        pass


@pytest.mark.parametrize("failures", [2, 3])
def test_a_head_that_fails_to_start_a_server_is_asked_again(monkeypatch, failures):
    """As happens with Ray now and then: ray-project/ray#63202."""
    need("ray")
    import ray

    asked = []

    def init(**settings):
        asked.append(settings["address"])
        if len(asked) <= failures:
            raise ConnectionAbortedError(
                "Initialization failure from server:\nTraceback (most recent call last):\n"
                '  File "proxier.py", line 772, in Datapath\n    raise RuntimeError(\n'
                "RuntimeError: Starting Ray client server failed.\n"
            )

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0})
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    why = r"cannot connect to ray://head:10001 \(RuntimeError: Starting Ray client server failed\.\); check"
    ending = nullcontext() if failures < 3 else pytest.raises(ConfigError, match=why)
    with ending, connected_to_ray("ray://head:10001", purpose="a test") as cpus:
        assert cpus == 2
    assert asked == ["ray://head:10001"] * 3


def test_a_token_is_used_where_there_is_one(monkeypatch, tmp_path):
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _authentication(is_own=False) == {}
    assert len(_authentication(is_own=True)["RAY_AUTH_TOKEN"]) == 64
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("0" * 64)
    assert _authentication(is_own=False) == {"RAY_AUTH_MODE": "token"}
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    assert _authentication(is_own=True) == _authentication(is_own=False) == {}


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
