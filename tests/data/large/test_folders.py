"""Folders that are a log, and those that are not."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest

import purerec as pr
from purerec.errors import ReadError


def test_a_folder_of_several_kinds_of_files_is_no_log(tmp_path: Path) -> None:
    pl.DataFrame({"user": [1], "item": [2]}).write_parquet(tmp_path / "a.parquet")
    (tmp_path / "_SUCCESS").touch()
    assert len(pr.read(tmp_path)) == 1
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"user,item\n1,2\n"))
    with pytest.raises(ReadError, match=r"and others, such as b\.csv\.gz; give one file"):
        pr.read(tmp_path)
