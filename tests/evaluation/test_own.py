"""Custom metrics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import purerec as pr
from conftest import checkerboard
from own_code import own_code
from purerec.errors import ConfigError
from purerec.evaluation import metrics, own
from purerec.evaluation.metrics import parse, parse_of_ranks

__all__ = ["own_code"]
pytestmark = pytest.mark.usefixtures("own_code")


def first_place(ranks: Any) -> Any:
    return ranks[0] == 1


def hits(ranks: Any, k: int) -> Any:
    return (ranks <= k).sum() / k


def listed(items: list[int], k: int) -> float:
    return sum(items) + len(items) / 100


def test_they_are_means_over_users() -> None:
    parts = pr.split(checkerboard(), "ratio")
    model = pr.ItemPop().fit(parts.full_train)
    for function in (first_place, hits, listed):
        assert pr.register_metric(function) is function
    found = pr.evaluate(model, parts, metrics="P@5,hits@5,first_place,HitRate@1,listed@2")
    assert found.metrics["hits@5"] == pytest.approx(found.metrics["P@5"], abs=1e-15)
    assert found.metrics["first_place"] == found.metrics["HitRate@1"]
    lists = model.recommend(parts.train.users.ids.gather(found.user_idx), k=2)
    sums = [sum(items) + 0.02 for items in lists.group_by("user", maintain_order=True).agg("item")["item"].to_list()]
    assert found.per_user["listed@2"].tolist() == sums
    assert found.per_user.keys() == found.metrics.keys()


def test_one_of_ranks_may_decide() -> None:
    parts = pr.split(checkerboard(), "ratio")
    pr.register_metric(hits)
    found = pr.compare(checkerboard(), ["itempop", "itemknn"], metric="hits@3", seeds=1, split=parts)
    assert found.metric == "hits@3"
    pr.register_metric(listed)
    with pytest.raises(ConfigError, match="does not measure hits"):
        parse_of_ranks("listed@3")
    with pytest.raises(ConfigError, match="needs lists of all items"):
        pr.evaluate(pr.ItemPop().fit(parts.full_train), parts, metrics="listed@3", protocol="sampled")


def test_a_misspelled_one_is_suggested() -> None:
    pr.register_metric(hits)
    pr.register_metric(first_place)
    for wrong, meant in [("htis@7", "hits@7"), ("first_palce", "first_place")]:
        with pytest.raises(ConfigError, match=rf"did you mean {meant}\?"):
            parse(wrong)


def test_wrong_ones_are_refused_with_a_sentence() -> None:
    def odd(scores: Any) -> float:
        return 0.0

    def endless(ranks: Any) -> float:
        return float("inf")

    with pytest.raises(ConfigError, match=r"odd has the parameters \(scores\); give it \(ranks\) or \(items\)"):
        pr.register_metric(odd)
    with pytest.raises(ConfigError, match="a metric is a function with a name"):
        pr.register_metric(lambda ranks: 1.0)
    with pytest.raises(ConfigError, match="a metric is a function with a name"):
        pr.register_metric(int)
    pr.register_metric(endless)
    parts = pr.split(checkerboard(), "ratio")
    with pytest.raises(ConfigError, match="endless returned inf, which is not a finite number"):
        pr.evaluate(pr.ItemPop().fit(parts.full_train), parts, metrics="endless")
    pr.register_metric(hits)
    with pytest.raises(ConfigError, match="the metric hits needs a k: write hits@10"):
        parse("hits")
    with pytest.raises(ConfigError, match="the metric endless has no k: write endless"):
        parse("endless@3")
    with pytest.raises(ConfigError, match=r"choose from MAP.*AUC, endless, hits@k; k is an integer"):
        parse("hit")


def test_the_names_of_built_in_metrics_are_refused(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be ignored, or their values shown under a name that means something else."""
    built_in = (*metrics._OF_RANKS, *metrics._OF_RANKS_AT_K, *metrics._OF_LISTS, *metrics._OF_CANDIDATES)
    assert sorted(own.TAKEN) == sorted(built_in)

    def MRR(ranks: Any) -> float:
        return 0.25

    with pytest.raises(ConfigError, match="MRR is a metric of purerec; rename your function, for example to my_mrr"):
        pr.register_metric(MRR)
    (tmp_path / "metrics_of_mine.py").write_text("def NDCG(ranks, k):\n    return 0.5\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match="NDCG is a metric of purerec; rename"):
        parse("metrics_of_mine:NDCG@10")
    assert parse("NDCG@10").own is None


def test_a_model_stays_usable_where_its_metric_is_not_known(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pr.register_metric(hits)
    parts = pr.split(checkerboard(), "ratio")
    model = pr.BPR(metric="hits@3", epochs=2, validate_every=1).fit(parts.train, valid=parts.valid)
    model.save(tmp_path / "m")
    monkeypatch.setattr("purerec.evaluation.own._OWN", {})
    again = pr.load_model(tmp_path / "m")
    assert np.array_equal(again.score([0]), model.score([0]))
