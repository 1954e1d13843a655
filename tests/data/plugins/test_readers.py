"""Custom readers, by suffix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import purerec as pr
from own_code import own_code
from purerec.errors import ConfigError, DataError, ReadError

__all__ = ["own_code"]


@pytest.fixture
def clicks(own_code: Path) -> Path:
    path = own_code / "clicks.jsonl"
    path.write_text('{"visitor": "a", "page": 1, "stars": 5}\n{"visitor": "b", "page": 2, "stars": 2}\n')
    return path


def test_a_reader_gives_a_table(clicks: Path) -> None:
    pr.register_reader(".jsonl")(pl.read_ndjson)
    data = pr.read(clicks, user="visitor", item="page", rating="stars", positive_rating=4)
    assert (data.name, data.n_users, data.n_items, data.n_positives) == ("clicks", 2, 2, 1)
    with pytest.raises(ReadError, match="no column"):
        pr.read(clicks, user="nobody")
    with pytest.raises(ReadError, match="no such file"):
        pr.read("nowhere.jsonl")
    parts = pr.given_split(clicks, pl.DataFrame({"visitor": ["a"], "page": [2]}), user="visitor", item="page")
    assert len(parts.test) == 1


def test_or_interactions(clicks: Path) -> None:
    @pr.register_reader(".JSONL")
    def anything(path: Path) -> pr.Interactions:
        return pr.Interactions.from_columns([1], [2])

    assert pr.read(clicks).name == "clicks"


def test_what_goes_wrong_names_the_file(clicks: Path) -> None:
    @pr.register_reader(".jsonl")
    def fails(path: Path) -> Any:
        raise KeyError("page")

    with pytest.raises(ReadError, match=r"clicks\.jsonl: its reader failed \(KeyError: 'page'\)"):
        pr.read(clicks)
    pr.register_reader(".jsonl")(lambda path: {"user": 1})
    with pytest.raises(DataError, match="cannot read a dict"):
        pr.read(clicks)


def test_formats_that_purerec_reads_stay_as_they_are() -> None:
    with pytest.raises(ConfigError, match=r"purerec reads \.csv itself"):
        pr.register_reader(".csv")
    with pytest.raises(ConfigError, match="for a suffix such as"):
        pr.register_reader("jsonl")
    with pytest.raises(ConfigError, match="give a function of the path"):
        pr.register_reader(".jsonl")(3)  # type: ignore[type-var]
