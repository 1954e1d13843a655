"""The documentation as a site: it builds without warnings, loads nothing from elsewhere, has every public name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import purerec
from conftest import ROOT, need

need("mkdocs")
need("mkdocstrings")
need("griffe")

import griffe

sys.path.insert(0, str(ROOT / "docs" / "site"))

from docstrings import as_markdown


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Broken links, lost pages and missing names are warnings, which --strict turns into errors."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(site: Path) -> None:
    pages = "".join((site / "reference" / name / "index.html").read_text() for name in ("api", "models"))
    for name in set(purerec.__all__) - {"__version__"}:
        assert f'id="purerec.{name}"' in pages, f"{name} is not in the reference: see docs/site/reference.py"


@pytest.mark.slow
def test_every_command_and_option_is_in_the_reference(site: Path) -> None:
    page = (site / "reference" / "cli" / "index.html").read_text()
    for name in ("fit", "compare", "data show"):
        assert f"purerec {name}" in page
    assert len(re.findall(r"<code>--[\w-]+</code>", page)) > 100


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere_and_formulas_are_no_script(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert not re.findall(r'<(?:script|img|link rel="stylesheet")[^>]+(?:src|href)="(?:https?:)?//', text), page
        assert 'class="mermaid"' not in text, page  # the theme fetches a script for these
    assert (site / "theory" / "index.html").read_text().count("<math") > 100


def undocumented(package: griffe.Module) -> Iterator[str]:
    """Public names, and their public members, without documentation."""
    for name in set(purerec.__all__) - {"__version__"}:
        found = package[name].final_target if package[name].is_alias else package[name]
        if not found.has_docstring:
            yield found.path
        owners = [found, *(found.mro() if found.is_class else [])]
        for member in found.members.values():
            if member.is_alias or member.name.startswith("_"):
                continue
            if not any(_is_told(owner, member.name) for owner in owners):
                yield member.path


def _is_told(owner: griffe.Object, name: str) -> bool:
    """By its own docstring, or in the list of the class's."""
    if name in owner.members and not owner.members[name].is_alias and owner.members[name].has_docstring:
        return True
    text = as_markdown(owner.docstring.value) if owner.docstring else ""
    return name in {word for listed in re.findall(r"`([^`]+)`", text) for word in listed.split(", ")}


def test_every_public_name_is_documented() -> None:
    assert sorted(undocumented(griffe.load("purerec", search_paths=[str(ROOT / "src")]))) == []


def test_aligned_lists_become_lists() -> None:
    text = (
        "Does it.\n\nmodels, all   names;\n              or so\nseeds         some\n\n    code  stays\n\nend  of it"
    )
    told = "Does it.\n\n\n- `models, all`: names; or so\n- `seeds`: some\n\n\n    code  stays\n\nend  of it"
    assert as_markdown(text) == told
