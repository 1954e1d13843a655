"""Connections that cannot be made."""

import sys

import pytest

from cli.conftest import refused
from purerec.cli.clusters.connecting import connected_to_ray
from purerec.errors import ConfigError, MissingExtraError


def test_without_ray_the_extra_is_named(command, clicks, model, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    asked = "pip install 'purerec[ray]'"
    refused(command("fit", clicks, "--model", "pugmf", "--on", "ray", "--out", "m"), asked)
    refused(command("recommend", model, "--all", "--on", "ray", "--out", "lists"), asked)
    with pytest.raises(MissingExtraError, match=r"a test needs ray"), connected_to_ray("ray", purpose="a test"):
        pass


def test_other_clusters_are_unknown(command, clicks, model):
    refused(command("fit", clicks, "--model", "pugmf", "--on", "dask", "--out", "m"), "--on takes ray")
    refused(command("fit", clicks, "--model", "bpr", "--on", "ray", "--out", "m"), "bpr is fitted by one process")
    refused(command("recommend", model, "--user", "u1", "--on", "ray"), "--on is for the lists of all users")
    with pytest.raises(ConfigError, match="not 'spark'"), connected_to_ray("spark", purpose="a test"):
        pass
