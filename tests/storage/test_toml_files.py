"""Misspelt keys are found in every table, and files that are not TOML are refused in a sentence."""

import re
import tomllib
from pathlib import Path

import pytest
from pydantic import Field

from purerec.errors import ConfigError
from purerec.experiments.specs import read_experiment
from purerec.output.study.claims import claim_specs
from purerec.output.study.figures import figure_specs
from purerec.paper.printed import experiments_folder
from purerec.storage.toml_files import TomlTable, checked, read_toml
from purerec.tuning.settings_file import read_settings

FOLDER = experiments_folder()
READERS = {"claims": claim_specs, "figures": figure_specs}
FREE = re.compile(r"\.?(settings|best_settings|parameters|validation|fresh|expected|quick)\b")
"""Tables whose keys are names of settings and the like, which are checked where they are used"""
FILES = [path for path in sorted(FOLDER.rglob("*.toml")) if path.stem not in ("paper", "published")]


class Inner(TomlTable):
    size: int


class Outer(TomlTable):
    name: str
    inner: Inner | None = None
    several: list[Inner] = Field(default=[])
    named: dict[str, Inner] = Field(default={})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('nmae = "a"', "unknown key 'nmae'; did you mean name?"),
        ('name = "a"\ninner = { sise = 1 }', "unknown key 'inner.sise'; did you mean size?"),
        ('name = "a"\nseveral = [{ size = 1 }, { sise = 1 }]', "unknown key 'several.1.sise'; did you mean size?"),
        ('name = "a"\n[named."of one"]\nsise = 1', "unknown key 'named.of one.sise'; did you mean size?"),
        ('name = "a"\n[named.name]\nsise = 1', "unknown key 'named.name.sise'; did you mean size?"),
        ("name = 1", "name=1 should be a valid string"),
        ("", "name is missing"),
    ],
)
def test_problems_are_told_by_their_place(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"a.toml: {message}")):
        checked(Path("a.toml"), tomllib.loads(text), Outer)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"a = ", "is not TOML: "), (b"\xff\xfe", "is not TOML: "), (b"a = " + b"[" * 100_000, "is nested too deeply")],
    ids=["unfinished", "not text", "nested"],
)
def test_what_is_not_toml_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read_toml(tmp_path / "a.toml")
    with pytest.raises(ConfigError, match="cannot read"):
        read_toml(tmp_path / "b.toml")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(FOLDER).with_suffix("").as_posix())
def test_an_unknown_key_in_any_table_of_a_file_is_an_error(path: Path, tmp_path: Path) -> None:
    read = read_settings if path.parent.name == "tuned" else READERS.get(path.stem, read_experiment)
    lines = path.read_text(encoding="utf-8").split("\n")
    tables = [n for n, line in enumerate(lines) if line.startswith("[") and not FREE.search(line)]
    read(path)
    for at in [-1, *tables]:
        damaged = tmp_path / path.name
        damaged.write_text("\n".join([*lines[: at + 1], "zzz = 1", *lines[at + 1 :]]), encoding="utf-8")
        with pytest.raises(ConfigError, match=r"unknown key '(.*\.)?zzz'|zzz=1 should be a valid"):  # a table by name
            read(damaged)
