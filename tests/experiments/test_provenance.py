"""Where results come from."""

import json

import numpy as np

from conftest import ROOT
from purerec.experiments import provenance


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


def test_every_result_names_its_commit_and_machine():
    for path in sorted((ROOT / "results").glob("*.json")):
        found = json.loads(path.read_text())
        assert isinstance(found, dict), path.name
        facts = found["provenance"]
        assert {"date", "commit", "clean", "versions", "blas", "cores", "cpu"} <= facts.keys(), path.name
        assert len(facts["commit"]) == 40, path.name
