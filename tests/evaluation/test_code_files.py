"""Which files a result depends on."""

import importlib
import sys
from pathlib import Path

import pytest

import purerec as pr
from purerec.evaluation import code_files
from purerec.evaluation.code_digest import code_of
from purerec.evaluation.code_files import reached

PACKAGE = Path(pr.__file__).parent


def names(*files):
    return {path.relative_to(PACKAGE).as_posix() for path in reached(PACKAGE / file for file in files)}


def test_what_a_model_imports_directly_or_not():
    ease, pure = names("models/ease.py"), names("models/pure.py")
    assert {"engines/closed_form/fit.py", "models/contract/recommender.py", "jit/decorator.py"} <= ease
    assert "models/pure.py" not in ease
    assert {"models/pugmf.py", "engines/pure/cpu/epochs.py", "engines/pure/torch/engine.py"} <= pure
    assert not [name for name in pure if name.startswith(("cli/", "serving/", "experiments/", "output/"))]


@pytest.fixture
def own_model(tmp_path, monkeypatch):
    """A custom model, in a package with a helper."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it would have the next version's timestamp
    package = tmp_path / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "helper.py").write_text("def one():\n    return 1\n")
    text = "import purerec as pr\nfrom .helper import one\n\n\nclass Mine(pr.ItemPop):\n    name = 'mine'\n"
    (package / "model.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    from mine.model import Mine  # type: ignore[import-not-found]

    yield package, Mine
    for name in [name for name in sys.modules if name.split(".")[0] == "mine"]:
        del sys.modules[name]


def test_a_change_counts_wherever_it_is_and_a_comment_does_not(own_model):
    package, model = own_model

    def now():
        importlib.reload(sys.modules["mine.helper"])
        return code_of(model)

    first = now()
    assert first != code_of(pr.ItemPop)
    (package / "helper.py").write_text('"""Helps."""\n\n\ndef one():\n    """One."""\n    return 1  # always\n')
    assert now() == first
    (package / "helper.py").write_text("def one():\n    return 2\n")
    assert now() != first


def test_versions_of_what_it_computes_with_count(monkeypatch):
    before = code_of(pr.EASE)
    versions = code_files.library_versions
    monkeypatch.setattr(code_files, "library_versions", lambda names: versions(names) | {"numpy": "9"})
    monkeypatch.setattr(code_files, "_digests", {})
    assert code_of(pr.EASE) != before


def test_an_edited_file_counts_once_it_is_reloaded(own_model):
    """Until then the old code runs, whatever the file says."""
    package, model = own_model
    first = code_of(model)
    (package / "helper.py").write_text("def one():\n    return 2\n")
    (package / "model.py").write_text((package / "model.py").read_text().replace("'mine'", "'ours'"))
    assert code_of(model) == first
    importlib.reload(sys.modules["mine.helper"])
    second = code_of(model)
    assert second != first
    assert code_of(importlib.reload(sys.modules["mine.model"]).Mine) not in (first, second)
