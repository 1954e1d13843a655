"""Which metrics are reported, and which one decides."""

from __future__ import annotations

from typing import Any

import pytest

import purerec as pr
from purerec.errors import ConfigError
from purerec.evaluation.choosing import deciding_metric, default_metrics, parse_all
from purerec.evaluation.metrics import DEFAULT_METRICS
from purerec.experiments.panels import make_panel
from purerec.experiments.plans import Plan


@pytest.mark.parametrize("names", ["Recall@20, MRR", ["Recall@20", "MRR", "Recall@20"], iter(["Recall@20", "MRR"])])
def test_names_in_any_form(names: Any) -> None:
    assert [metric.name for metric in parse_all(names)] == ["Recall@20", "MRR"]


@pytest.mark.parametrize("names", ["", " , ", []])
def test_none_at_all(names: Any) -> None:
    with pytest.raises(ConfigError, match="no metrics are given"):
        parse_all(names)


@pytest.mark.parametrize("names", ["P@x", ["P@5", 3], [None], "P"])
def test_wrong_names(names: Any) -> None:
    with pytest.raises(ConfigError, match=r"unknown metric .* choose from MAP, MRR, P@k"):
        parse_all(names)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("ndcg@20", "NDCG@20"),
        ("NGCD@20", "NDCG@20"),
        ("Recal@20", "Recall@20"),
        ("Recall", "Recall@10"),
        ("recall_at_20", "Recall@20"),
        ("mrr", "MRR"),
        ("MPA", "MAP"),
        ("p5", "P@5"),
        ("Precision@5", "P@5"),
        ("HR@5", "HitRate@5"),
    ],
)
def test_a_name_that_is_nearly_right(name: str, near: str) -> None:
    with pytest.raises(ConfigError, match=rf"unknown metric '{name}'; did you mean {near}\? choose from"):
        parse_all(name)


@pytest.mark.parametrize("name", ["MAE", "RMSE", "F1@5", "accuracy", "@5", "5"])
def test_another_metric_is_not_taken_for_a_misspelled_one(name: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown metric '{name}'; choose from"):
        parse_all(name)


def test_a_data_set_may_have_metrics_of_its_own() -> None:
    assert default_metrics("ml-100k") == default_metrics("clicks") == DEFAULT_METRICS
    assert default_metrics("gowalla")[:2] == ("Recall@20", "NDCG@20")
    assert (deciding_metric("clicks"), deciding_metric("gowalla")) == ("P@5", "Recall@20")
    assert deciding_metric("gowalla", "NDCG@20,Recall@20") == "Recall@20"
    assert deciding_metric("gowalla", "Coverage@5,NDCG@20") == "NDCG@20"
    assert deciding_metric("clicks", "Coverage@5") == "P@5"


def test_the_same_in_python(tiny: pr.Interactions) -> None:
    log = pr.Interactions.from_columns([n % 7 for n in range(60)], [n * n % 11 for n in range(60)], name="gowalla")
    parts = pr.split(log, "ratio")
    model = pr.ItemPop().fit(parts.full_train)
    assert list(pr.evaluate(model, parts).metrics) == list(default_metrics("gowalla"))
    assert list(pr.evaluate(model, parts, metrics=["Recall@3"]).metrics) == ["Recall@3"]
    found = make_panel(parts, [Plan("itempop", "itempop")], seeds=1, metrics=iter(["NDCG@3", "Gini@3"]))
    assert (found.metric, found.metrics) == ("NDCG@3", ("NDCG@3", "Gini@3"))
    for wrong in ({"metrics": ["x"]}, {"metric": "Gini@3"}, {"metrics": ["Gini@3"], "protocol": "sampled"}):
        with pytest.raises(ConfigError):
            make_panel(parts, [Plan("itempop", "itempop")], **wrong)
