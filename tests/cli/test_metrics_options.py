"""--metrics and --metric, of the commands that have them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Command, refused

KNOWN = "choose from MAP, MRR, P@k, NDCG@k, Recall@k, HitRate@k"


def test_evaluate_measures_what_is_asked_for(command: Command, clicks: Path) -> None:
    asked = command("evaluate", clicks, "--model", "itempop", "--metrics", "Recall@20, NDCG@7,MRR,MRR", "--json", "-")
    usual = command("evaluate", clicks, "--model", "itempop", "--json", "-")
    found = json.loads(asked.out)["metrics"]
    assert list(found) == ["Recall@20", "NDCG@7", "MRR"]
    assert found["MRR"] == json.loads(usual.out)["metrics"]["MRR"]
    for options, names in [
        (["--metric", "MRR", "--metrics", "Recall@20,NDCG@7,MRR"], ["MRR", "Recall@20", "NDCG@7"]),
        (["--metric", "Recall@9"], ["Recall@9", *json.loads(usual.out)["metrics"]]),
    ]:
        first = command("evaluate", clicks, "--model", "itempop", *options, "--json", "-")
        assert list(json.loads(first.out)["metrics"]) == names


def test_gowalla_is_measured_as_its_published_results_are(command: Command, data_dir: Path) -> None:
    found = json.loads(command("evaluate", "gowalla", "--model", "itempop", "--json", "-").out)
    assert (found["split"], found["users"]) == ("given", 29_858)
    assert list(found["metrics"])[:2] == ["Recall@20", "NDCG@20"]
    assert [round(found["metrics"][name], 4) for name in ("Recall@20", "NDCG@20")] == [0.0416, 0.0317]


@pytest.mark.parametrize(
    ("options", "metrics", "decides"),
    [
        (["--metrics", "Recall@20,NDCG@20"], ["Recall@20", "NDCG@20"], "Recall@20"),
        (["--metrics", "Coverage@5,NDCG@20"], ["Coverage@5", "NDCG@20"], "NDCG@20"),
        (["--metrics", "Recall@20,P@5"], ["Recall@20", "P@5"], "P@5"),
        (["--metrics", "Recall@20,NDCG@20", "--metric", "NDCG@20"], ["Recall@20", "NDCG@20"], "NDCG@20"),
        (["--metrics", "Recall@20", "--metric", "MRR"], ["Recall@20", "MRR"], "MRR"),
        ([], ["P@3", "P@5", "P@10", "NDCG@3", "NDCG@5", "NDCG@10", "MAP", "MRR"], "P@5"),
    ],
)
def test_compare_tests_the_metric_that_decides(
    command: Command, clicks: Path, options: list[str], metrics: list[str], decides: str
) -> None:
    done = command("compare", clicks, "--models", "itempop,itemknn", "--seeds", "1", *options, "--json", "found.json")
    found = json.loads(Path("found.json").read_text())
    assert found["metric"] == decides
    assert list(found["models"]["itempop"][0]["metrics"]) == metrics
    assert f"{decides} - itempop" in done.out


def test_fit_reports_and_watches_what_is_asked_for(command: Command, clicks: Path) -> None:
    quick = ["--set", "epochs=6", "--set", "validate_every=2"]
    watched = ["--early-stopping", "--metric", "NDCG@20"]
    shown = ["--split", "ratio", "--metrics", "Recall@20"]
    assert command("fit", clicks, "--model", "bpr", "--out", "m", *quick, *watched, *shown).code == 0
    manifest = json.loads((Path("m") / "manifest.json").read_text())
    assert list(manifest["metrics"]) == ["Recall@20"]
    assert manifest["config"]["metric"] == "NDCG@20"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["evaluate", "nowhere.csv", "--model", "itempop", "--metrics", "Recall"], KNOWN),
        (["evaluate", "nowhere.csv", "--model", "itempop", "--metrics", "P@5,Recall@0"], "unknown metric 'Recall@0'"),
        (["evaluate", "nowhere.csv", "--model", "itempop", "--metrics", ","], "no metrics are given"),
        (
            ["evaluate", "nowhere.csv", "--model", "itempop", "--metrics", "Gini@5", "--protocol", "sampled"],
            "Gini@5 needs lists of all items; use --protocol exact",
        ),
        (["compare", "nowhere.csv", "--metrics", "recall@20"], "unknown metric 'recall@20'"),
        (["compare", "nowhere.csv", "--metric", "F1@5"], "unknown metric 'F1@5'"),
        (["compare", "nowhere.csv", "--metric", "Coverage@5"], "does not measure hits"),
        (["tune", "nowhere.csv", "--model", "ease", "--metric", "F1@5"], "unknown metric 'F1@5'"),
        (["fit", "nowhere.csv", "--model", "bpr", "--out", "m", "--metrics", "P@5"], "add --split"),
        (["fit", "nowhere.csv", "--model", "bpr", "--out", "m", "--metric", "P@5"], "needs --early-stopping; add it"),
        (
            ["fit", "nowhere.csv", "--model", "bpr", "--out", "m", "--early-stopping", "--metric", "F1@5"],
            "unknown metric 'F1@5'",
        ),
        (
            ["fit", "nowhere.csv", "--model", "itempop", "--out", "m", "--early-stopping", "--metric", "P@5"],
            "itempop is not fitted in epochs",
        ),
    ],
)
def test_wrong_names_are_refused_before_anything_is_read(command: Command, args: list[str], message: str) -> None:
    refused(command(*args), message)


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (["evaluate", "nowhere.csv", "--model", "itempop", "--metrics", "P@5,Recal@20"], "Recall@20"),
        (["evaluate", "nowhere.csv", "--model", "itempop", "--metric", "NGCD@20"], "NDCG@20"),
        (["compare", "nowhere.csv", "--metrics", "Recal@20"], "Recall@20"),
        (["compare", "nowhere.csv", "--metric", "NGCD@20"], "NDCG@20"),
        (["tune", "nowhere.csv", "--model", "ease", "--metric", "NGCD@20"], "NDCG@20"),
        (
            ["fit", "nowhere.csv", "--model", "bpr", "--out", "m", "--early-stopping", "--metric", "NGCD@20"],
            "NDCG@20",
        ),
        (
            ["fit", "nowhere.csv", "--model", "bpr", "--out", "m", "--split", "ratio", "--metrics", "Recal@20"],
            "Recall@20",
        ),
    ],
)
def test_a_misspelled_name_is_suggested(command: Command, args: list[str], meant: str) -> None:
    refused(command(*args), f"did you mean {meant}?")
