"""Rules over HTTP: the same lists as in Python."""

import pytest

from purerec.models.contract.recommender import Recommender
from purerec.serving.http.problems import Problem
from purerec.serving.http.requests import RecommendRequest
from purerec.serving.model import answers
from purerec.serving.model.loaded_model import load, snapshot_model
from serving.conftest import Served, fitted
from serving.test_endpoints import frame, table


def test_rules(served: Served, model: Recommender):
    history = ["i2", "i4", "i6"]
    for rules in (
        {"where": ["year>=1990", "in_stock"]},
        {"where": ["genre=Sea"], "at_most": {"genre": 3}},
        {"diversity": 0.5, "popularity_discount": 0.2},
    ):
        answer = served.post("/v1/recommend", {"history": history, "k": 5, **rules}).json()["results"][0]
        assert table(answer["items"], "item", "rank") == frame(
            model.recommend_for(history, k=5, **rules), "item", "rank"
        )
        answer = served.post("/v1/recommend", {"users": ["u3"], "k": 5, **rules}).json()["results"][0]
        assert table(answer["items"], "item") == frame(model.recommend("u3", k=5, **rules), "item")


def test_rules_in_an_address(served: Served, model: Recommender):
    for address, rules in (
        ("where=year>=1990&where=in_stock", {"where": ["year>=1990", "in_stock"]}),
        ("where=genre=Sea&at_most=genre=3", {"where": ["genre=Sea"], "at_most": {"genre": 3}}),
        ("diversity=0.5&popularity_discount=0.2", {"diversity": 0.5, "popularity_discount": 0.2}),
        ("cold_items=1", {"cold_items": 1}),
    ):
        answer = served.get(f"/v1/users/u3/recommendations?k=5&{address}").json()
        assert table(answer["items"], "item") == frame(model.recommend("u3", k=5, **rules), "item")
    for wrong in ("at_most=genre", "at_most=genre=0", "at_most==3", "where=", "where=nothing", "diversity=2"):
        assert served.get(f"/v1/users/u3/recommendations?{wrong}").status_code == 422, wrong


def test_attributes_and_cold_items(served: Served):
    body = {"history": ["i2", "i4"], "k": 4, "cold_items": 1, "explain": 1, "attributes": ["genre", "year"]}
    items = served.post("/v1/recommend", body).json()["results"][0]["items"]
    for entry in items[:3]:
        number = int(entry["item"].removeprefix("i"))
        assert entry["attributes"] == {
            "genre": ["Star"] if number % 2 == 0 else ["Sea", "Ship"],
            "year": 1960 + number,
        }
    new = items[3]
    assert new["item"] in ("i55", "i56")
    assert (new["score"], new["kind"], new["because"], new["rank"]) == (None, "new", [], 4)
    assert served.get(f"/v1/items/{new['item']}/similar").status_code == 404


def test_cold_items_keep_to_items_and_exclude(served: Served):
    def listed(**rules: object) -> list[str]:
        body = {"history": ["i2", "i4"], "k": 4, "cold_items": 2, **rules}
        answer = served.post("/v1/recommend", body)
        assert answer.status_code == 200, answer.text
        return [entry["item"] for entry in answer.json()["results"][0]["items"]]

    assert "i56" in listed()  # a star, like the history
    assert "i56" not in listed(exclude=["i56", "nothing"])
    assert not {"i55", "i56"} & set(listed(items=["i6", "i8"]))
    assert listed(items=["i6", "i56"]) == ["i6", "i56"]
    assert "i56" not in listed(history=["i2", "i4", "i56"])
    assert "i56" in listed(history=["i2", "i4", "i56"], exclude_seen=False)


def test_the_columns_are_described(served: Served):
    about = served.get("/v1/model").json()
    assert about["has_titles"]
    assert about["cold_items"] == 2
    genre, year, stock, poster = about["columns"]
    assert genre == {"name": "genre", "kind": "tags", "is_image": False, "values": ["Star", "Sea", "Ship"]}
    assert year == {"name": "year", "kind": "number", "is_image": False, "least": 1960.0, "most": 2016.0}
    assert stock == {"name": "in_stock", "kind": "flag", "is_image": False}
    assert poster == {"name": "poster", "kind": "text", "is_image": True}


def test_without_a_table(tmp_path):
    loaded = load(snapshot_model(fitted().save(tmp_path / "m")), "m")
    for rules in ({"where": ["year"]}, {"at_most": {"a": 1}}, {"cold_items": 1}):
        asked = RecommendRequest(history=["i2"], **rules)
        with pytest.raises(Problem, match="no item table") as error:
            answers.recommend_history(loaded, ["i2"], 3, rules=answers.rules_of(asked))
        assert error.value.status == 422
    assert loaded.columns == []
