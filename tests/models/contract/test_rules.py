"""Rules for lists: conditions, caps, diversity, a discount on popularity, cold items."""

import numpy as np
import polars as pl
import pytest

import purerec as pr
from purerec.errors import ConfigError, DataError, StoreError
from purerec.models.contract.rules import ListRules
from purerec.storage import pack_item_table, unpack_item_table

N = 60
GENRES = ["Comedy", "Drama", "Comedy|Drama", "Horror"]


@pytest.fixture(scope="module")
def world():
    return pr.make_world(users=200, items=N, prior=0.3, interactions=2500, seed=1).observed


def items():
    rows = range(N + 3)
    frame = {"item": list(rows), "title": [f"Title {n}" for n in rows], "genre": [GENRES[n % 4] for n in rows]}
    return pr.read_items(pl.DataFrame({**frame, "year": [1950 + n for n in rows], "here": [n % 5 > 0 for n in rows]}))


@pytest.fixture(scope="module", params=["ials", "ease", "itempop", "pure"])
def model(request, world):
    # Narrow: with wider vectors, a product for three users may differ in the last bit from three separate products.
    narrow = {"dim": 5} if request.param == "pure" else {}
    return pr.make_model(request.param, **narrow).fit(world, seed=0).set_items(items())


def test_a_condition_that_no_item_fulfils_is_warned_of(model):
    with pytest.warns(UserWarning, match="no item has genre=Comdy; did you mean Comedy?"):
        assert model.recommend(5, k=3, where="genre=Comdy").is_empty()
    with pytest.warns(UserWarning, match="no item has year>3000"):
        assert model.recommend(5, k=3, where="year>3000").is_empty()
    with pytest.warns(UserWarning, match="no item has year>3000"):
        assert model.recommend_for([3], where="year>3000").is_empty()


def test_where(model):
    plain = model.recommend(5, k=N)
    kept = [i for i in plain["item"] if i % 4 in (0, 2) and 1950 + i >= 1970 and i % 5]
    found = model.recommend(5, k=N, where=["genre=Comedy", "year>=1970", "here"])
    assert found["item"].to_list() == kept
    assert found["rank"].to_list() == list(range(1, len(kept) + 1))
    both = model.recommend(5, k=N, where="here", items=range(30), exclude=[7])
    assert set(both["item"]) == {i for i in plain["item"] if i % 5 and i < 30 and i != 7}
    new = model.recommend_for([1, 2, 3], k=4, where="genre=Horror")
    assert all(i % 4 == 3 for i in new["item"])


def test_caps(model):
    found = model.recommend(5, k=10, at_most={"genre": 2})
    tags = [tag for item in found["item"] for tag in GENRES[item % 4].split("|")]
    assert max(tags.count(tag) for tag in tags) <= 2
    best = model.recommend(5, k=1)["item"][0]
    assert found["item"][0] == best
    assert model.recommend(5, k=5, at_most={"year": 1})["item"].to_list() == model.recommend(5, k=5)["item"].to_list()


def test_caps_ignore_case(world):
    brands, tags = ["apple", "Apple", "banana", None], ["Comedy|comedy", "COMEDY", "drama|Comedy", "Drama"]
    frame = {"item": range(N), "brand": [brands[n % 4] for n in range(N)], "tag": [tags[n % 4] for n in range(N)]}
    model = pr.make_model("itempop").fit(world).set_items(pr.read_items(pl.DataFrame(frame)))
    found = model.recommend(5, k=N, at_most={"brand": 1}, exclude_seen=False)["item"].to_list()
    named = [brands[item % 4] for item in found if item % 4 != 3]
    assert sorted(name.lower() for name in named) == ["apple", "banana"]
    found = model.recommend(5, k=N, at_most={"tag": 2}, exclude_seen=False)["item"].to_list()
    assert sum("comedy" in tags[item % 4].lower() for item in found) == 2
    assert sum("drama" in tags[item % 4].lower() for item in found) == 2


def test_a_discount_weighs_scores_and_popularity_alike():
    """Also if everybody likes nearly everything: both are scaled to 0 to 1 among the items of the list."""
    rng = np.random.default_rng(0)
    user, item = np.nonzero(rng.random((400, 30)) < 0.5 + 0.004 * np.arange(30))
    model = pr.make_model("ials").fit(pr.Interactions.from_columns(user, item))

    def scaled(values):
        return (values - values.min()) / (values.max() - values.min())

    score, liked = (scaled(values.astype(float)) for values in (model.score([5])[0], np.log1p(model.popularity())))
    for p in (0.3, 0.6, 0.9):
        found = model.recommend(5, k=6, popularity_discount=p, exclude_seen=False)
        assert found["item"].to_list() == np.argsort(p * liked - (1 - p) * score)[:6].tolist()


def test_diversity_and_discount_trade_off(model):
    def alike(found):
        looks = model.derived.profiles[model.items.indices(found["item"])]
        return (looks @ looks.T)[np.triu_indices(len(found), 1)].mean()

    plain = model.recommend_for([1, 2, 3], k=8)
    assert model.recommend_for([1, 2, 3], k=8, diversity=0.0).equals(plain)
    diverse = model.recommend_for([1, 2, 3], k=8, diversity=0.9)
    assert diverse["item"][0] == plain["item"][0]
    assert alike(diverse) <= alike(plain)
    assert alike(diverse) < alike(plain) or model.name == "ials"  # here all its vectors are alike
    liked = model.popularity()
    obscure = model.recommend_for([1, 2, 3], k=8, popularity_discount=1.0)
    mean = [liked[model.items.indices(found["item"])].mean() for found in (obscure, plain)]
    assert mean[0] < mean[1]
    assert np.sort(liked[model.items.indices(obscure["item"])])[-1] <= np.sort(np.delete(liked, [1, 2, 3]))[7]
    scores = dict(model.recommend_for([1, 2, 3], k=N).select("item", "score").rows())
    for item, score in obscure.select("item", "score").rows():
        assert score == pytest.approx(scores[item], rel=1e-5)


def test_cold_items(model):
    found = model.recommend_for([0, 4, 8], k=5, cold_items=2, explain=1)
    assert found["item"].to_list()[:3] == model.recommend_for([0, 4, 8], k=3)["item"].to_list()
    assert set(found["item"].to_list()[3:]) <= {60, 61, 62}
    assert 60 in found["item"].to_list()[3:]  # a comedy, like the person's items
    assert found["score"].is_null().to_list() == [False] * 3 + [True] * 2
    assert found["label"][3].startswith("Title 6")
    assert found["reason"][4].startswith("new")
    assert model.recommend_for([0, 4], k=5, cold_items=2, where="genre=Drama")["item"][-1] in (61, 62)
    assert set(model.recommend_for([], k=5, cold_items=2)["item"]) <= set(range(N))
    everybody = model.recommend(k=3, cold_items=1)
    assert everybody["item"].max() >= N


def test_a_table_without_cold_items_is_warned_of(world):
    table = pr.read_items(pl.DataFrame({"item": list(range(N)), "genre": ["Comedy"] * N}))
    model = pr.make_model("itempop").fit(world).set_items(table)
    with pytest.warns(UserWarning, match="no cold items: everything in the item table was in training"):
        assert len(model.recommend(5, k=3, cold_items=1)) == 3


def test_cold_items_keep_to_the_other_rules(model):
    def cold(**rules):
        found = model.recommend_for([0, 4, 8], k=5, cold_items=2, **rules)["item"].to_list()
        assert len(found) == len(set(found)) <= 5
        return found, [item for item in found if item >= N]

    assert set(cold(exclude=[60, 61])[1]) == {62}
    assert cold(exclude=["60", "nobody's"])[1] == cold(exclude=[60])[1] != cold()[1]
    assert cold(items=range(10))[1] == []
    assert cold(items=[*range(10), 62])[1] == [62]
    assert cold(items=[60])[0] == [60]
    with pytest.raises(DataError, match="99"):
        cold(items=[1, 99])
    found, new = cold(at_most={"genre": 1})
    tags = [tag for item in found for tag in GENRES[item % 4].split("|")]
    assert len(tags) == len(set(tags))
    assert len(new) <= 1  # each of the three shares something with another
    assert 60 in cold(at_most={"genre": 4})[1]


@pytest.mark.filterwarnings("ignore:ignoring history items")
def test_cold_items_of_the_history_are_left_out_like_others(model):
    def cold(history, **options):
        return {i for i in model.recommend_for(history, k=5, cold_items=3, **options)["item"] if i >= N}

    assert cold([0, 1, 2]) == {60, 61, 62}
    assert cold(item for item in [0, 60, 1, "62", 2]) == {61}
    assert cold([0, 1, 2, 60], exclude=[61]) == {62}
    assert cold([0, 1, 2, 60], items=[1, 60, 62]) == {62}
    assert cold([0, 1, 2, 60], exclude_seen=False) == {60, 61, 62}


def test_lists_of_everybody_are_those_of_each(model):
    rules = {"where": "here", "at_most": {"genre": 2}, "diversity": 0.3}
    together = model.recommend([3, 4, 5], k=4, **rules)
    apart = pl.concat([model.recommend(user, k=4, **rules) for user in (3, 4, 5)])
    assert together.equals(apart)


def test_a_folder_keeps_the_table_and_an_update_knows_it(model, tmp_path):
    model.save(tmp_path / "m")
    again = pr.load_model(tmp_path / "m")
    assert repr(again.item_table) == repr(model.item_table)
    rules = {"where": ["genre=Comedy"], "cold_items": 1, "explain": 1}
    assert again.recommend(5, k=6, **rules).equals(model.recommend(5, k=6, **rules))
    if model.name == "ease":
        again.update(pr.Interactions.from_columns([5, 6], [60, 99]))
        assert again.item_table.n_cold == 2
        assert again.labels[again.items.index(60)] == "Title 60"
        assert again.item_table.row(again.items.index(99)) == {}
        assert 60 in again.recommend(7, k=N, where="genre=Comedy")["item"]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"where": "nope=1"}, "no column 'nope'"),
        ({"where": [3]}, "not 3"),
        ({"at_most": {"nope": 1}}, "no column 'nope'"),
        ({"at_most": {"genre": 0}}, "at least 1, not 0"),
        ({"at_most": {"genre": True}}, "not True"),
        ({"at_most": 3}, "for each column"),
        ({"diversity": 1.5}, "diversity is from 0 to 1"),
        ({"popularity_discount": "much"}, "popularity_discount is from 0 to 1"),
        ({"cold_items": -1}, "cold_items"),
    ],
)
def test_what_is_wrong_is_named(model, rules, message):
    with pytest.raises(ConfigError, match=message):
        model.recommend(5, **rules)


def test_without_a_table_and_without_sense(world):
    model = pr.ItemPop().fit(world, seed=0)
    for rules in ({"where": "a=1"}, {"at_most": {"a": 1}}, {"cold_items": 1}):
        with pytest.raises(ConfigError, match=r"no item table; give it one with model\.set_items"):
            model.recommend(5, **rules)
    assert len(model.recommend(5, k=3, diversity=0.5)) == 3
    with pytest.raises(TypeError, match="nonsense"):
        model.recommend(5, nonsense=1)


def test_pools_are_bounded():
    rules = ListRules(diversity=0.5)
    assert (rules.pool(1), rules.pool(10), rules.pool(50), rules.pool(500), rules.pool(9000)) == (
        200,
        200,
        1000,
        5000,
        9000,
    )
    assert ListRules(cold_items=3).pool(10) == 10


def test_damaged_tables_are_refused(world):
    aligned = items().aligned(world.items)
    whole = pack_item_table(aligned)
    found = unpack_item_table(whole, world.items)
    assert [found.row(n) for n in range(N + 3)] == [aligned.row(n) for n in range(N + 3)]
    assert unpack_item_table({}, world.items) is None
    for name, change in {
        "table.kinds": lambda a: a + 9,
        "table.0.codes": lambda a: a + 99,
        "table.0.starts": lambda a: a[::-1].copy(),
        "table.1.values": lambda a: a[:-1],
        "table.1.null": lambda a: a.astype(np.int64),
        "table.2.flags": lambda a: a + np.int8(5),
        "table.titles.ends": lambda a: a[:-1],
        "table.0.words.bytes": lambda a: a[::-1].copy(),
    }.items():
        with pytest.raises(StoreError):
            unpack_item_table({**whole, name: change(whole[name])}, world.items)
