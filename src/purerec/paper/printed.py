"""What the paper prints (Tables 2 to 5 and its settings) and others have published: paper.toml and published.toml."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any


@cache
def paper() -> dict[str, Any]:
    """The numbers that the paper prints."""
    return _numbers("paper.toml")


def printed_settings() -> dict[str, dict[str, Any]]:
    """The table 'Reproducible parameter setting', by data set."""
    found: dict[str, dict[str, Any]] = paper()["parameters"]
    return found


@cache
def published(data: str) -> dict[str, dict[str, float]]:
    """What others have published for the usual split of a data set: metrics by model."""
    found = _numbers("published.toml")
    return {model: dict(zip(found["columns"], values, strict=True)) for model, values in found.get(data, {}).items()}


def _numbers(name: str) -> dict[str, Any]:
    with (experiments_folder() / name).open("rb") as file:
        return tomllib.load(file)


def experiments_folder() -> Path:
    """Where the experiments' TOML files are: inside an installed package, or in the source tree."""
    packaged = Path(__file__).parents[1] / "_experiments"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "experiments"


def paper_row(data: str, model: str) -> dict[str, float] | None:
    """The paper's row for a model on one of its data sets."""
    for table in ("table2", "table3", "table4"):
        if paper()[table]["data"] == data and model in paper()[table]:
            return dict(zip(paper()["columns"], paper()[table][model], strict=True))
    with_or_without = paper()["table5"].get(model, {})  # pre-training
    if model != "columns" and data in with_or_without:
        return dict(zip(paper()["table5"]["columns"], with_or_without[data], strict=True))
    return None
