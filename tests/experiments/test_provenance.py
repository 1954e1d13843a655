"""Where results come from, and which code they depend on."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import purerec as pr
from conftest import ROOT
from purerec.experiments import provenance
from purerec.experiments.cells import code_digest
from purerec.experiments.cells.code_digest import code_of, reached

PACKAGE = Path(pr.__file__).parent


def test_date_commit_versions_and_machine():
    found = provenance.provenance()
    assert found["versions"]["numpy"] == np.__version__
    assert {"date", "commit", "clean", "purerec", "python", "blas", "cores", "cpu", "system"} <= found.keys()
    assert found["commit"] is None or len(found["commit"]) == 40
    said = provenance.in_words(found | {"commit": "0123456789abcdef", "clean": False, "cores": 1})
    assert "commit 0123456789, with changes that are not committed, purerec" in said
    assert "; 1 core of " in said
    assert "an installed package, purerec" in provenance.in_words(found | {"commit": None, "clean": None})
    assert provenance.in_words(None) == "Measured before the commit and the machine were recorded."


def test_somebody_elses_clone_is_not_ours(monkeypatch, tmp_path):
    monkeypatch.setattr(provenance, "_ROOT", tmp_path)
    assert provenance._commit.__wrapped__() == {"commit": None, "clean": None}


def test_results_with_and_without_provenance_are_read(tmp_path):
    provenance.write_results(tmp_path / "new.json", [1, {"a": 2}])
    (tmp_path / "old.json").write_text("[1]")
    assert provenance.read_results(tmp_path / "new.json") == [1, {"a": 2}]
    assert provenance.read_results(tmp_path / "old.json") == [1]
    assert json.loads((tmp_path / "new.json").read_text())["provenance"]["cores"] >= 1


# ---------------------------------------------------------------------- code


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
        for cached in (code_of, code_digest._imports, code_digest._meaning):
            cached.cache_clear()
        return code_of(model)

    first = now()
    assert first != code_of(pr.ItemPop)
    (package / "helper.py").write_text('"""Helps."""\n\n\ndef one():\n    """One."""\n    return 1  # always\n')
    assert now() == first
    (package / "helper.py").write_text("def one():\n    return 2\n")
    assert now() != first


def test_versions_of_what_it_computes_with_count(monkeypatch):
    before = code_of.__wrapped__(pr.EASE)
    versions = code_digest.library_versions
    monkeypatch.setattr(code_digest, "library_versions", lambda names: versions(names) | {"numpy": "9"})
    assert code_of.__wrapped__(pr.EASE) != before


def test_every_result_names_its_commit_and_machine():
    for path in sorted((ROOT / "results").glob("*.json")):
        found = json.loads(path.read_text())
        assert isinstance(found, dict), path.name
        facts = found["provenance"]
        assert {"date", "commit", "clean", "versions", "blas", "cores", "cpu"} <= facts.keys(), path.name
        assert len(facts["commit"]) == 40, path.name
