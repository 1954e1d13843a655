"""What can go wrong in documentation: names that must exist, links that must resolve, up-to-date tables."""

import re
import subprocess
import sys
from importlib import import_module

import pytest

from conftest import ROOT, need
from purerec.output.vectors import WITH_VECTORS

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


def resolve(name):
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise LookupError(name)


def test_every_part_of_the_paper_has_its_code():
    names = re.findall(r"`(purerec\.[\w.]+)`", (ROOT / "docs" / "paper.md").read_text())
    assert len(names) > 35
    for name in names:
        assert resolve(name) is not None


def test_the_walks_go_through_what_is_there():
    rooms = sorted(path.name for path in (ROOT / "src" / "purerec").iterdir() if path.is_dir())
    names = re.findall(rf"`((?:{'|'.join(rooms)})\.[\w.]+)`", (ROOT / "docs" / "architecture.md").read_text())
    assert len(names) > 20
    for name in names:
        assert resolve(f"purerec.{name}") is not None


def test_readme_begins_with_the_demo_and_the_tests():
    commands = re.findall(r"^\$ (.*?)(?: {2,}#.*)?$", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    assert commands[:2] == ["make demo", "make test"]


@pytest.mark.parametrize("page", ["README.md", "docs/growing.md"])
def test_what_is_exported_has_vectors(page):
    text = (ROOT / page).read_text()
    exported = set(re.findall(r"purerec export (\w+) ", text))
    fitted = {out: model for model, out in re.findall(r"purerec fit .*?--model (\w+) .*?--out (\w+)", text)}
    assert exported
    assert {fitted[folder] for folder in exported} <= set(WITH_VECTORS)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_tables_and_figures_are_rendered_from_results():
    need("vl_convert")
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "render.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_figure_is_on_a_page():
    shown = set(re.findall(r"\((?:docs/)?figures/([\w-]+\.svg)\)", "".join(page.read_text() for page in PAGES)))
    assert shown == {path.name for path in (ROOT / "docs" / "figures").glob("*.svg")}
