import pytest

import purerec as pr
from purerec.errors import ConfigError
from purerec.experiments.kinds.game import inside_the_game
from purerec.experiments.specs import GameSpec


def spec(name="pure", **line):
    facts = {"title": "t", "seeds": 1, "metric": "P@5", "data": "world", "split": "ratio"}
    models = [{"name": name} | line]
    return GameSpec(kind="game", baseline=name, points=20, pairs=50, models=models, **facts)


@pytest.fixture(scope="module")
def parts():
    return pr.split(pr.make_world(users=60, items=40).observed, "ratio")


def test_charts_of_a_game(parts):
    settings = {"epochs": 4, "pretrain_epochs": 2, "dim": 2, "generators": "both"}
    charts = {chart["title"]: chart for chart in inside_the_game(spec(settings=settings), parts, print)["charts"]}
    maps = [f"Map, pure, {side}, {when} the game" for side in ("users", "items") for when in ("before", "after")]
    assert list(charts) == ["D of pure", *maps, "Scores of pure"]
    curves = {one["name"]: one["points"] for one in charts["D of pure"]["series"]}
    assert [epoch for epoch, _ in curves["positive"]] == [0, 1, 2, 3]
    assert [epoch for epoch, _ in curves["fake"]] == [2, 3]
    before, after = (charts[name]["series"][1]["points"] for name in maps[:2])
    assert len(after) == 20
    assert before != after
    for one in charts["Scores of pure"]["series"]:
        assert sum(share for _, share in one["points"]) == pytest.approx(1, abs=1e-3)


def test_positives_score_higher_than_unlabeled_pairs(parts):
    chart = inside_the_game(spec(settings={"epochs": 20, "dim": 2}), parts, print)["charts"][-1]
    means = [sum(x * share for x, share in one["points"]) for one in chart["series"]]
    assert means[0] > means[1]


def test_other_models_have_no_game(parts):
    with pytest.raises(ConfigError, match="bpr is not a pure model"):
        inside_the_game(spec(name="bpr"), parts, print)
