"""Lists of every model against a full sort of its scores; blocks, candidates, files."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import purerec as pr
from conftest import ROOT
from purerec.cli.commands import app
from purerec.errors import ConfigError, DataError, StoreError
from purerec.models.registry import REGISTRY, make_model
from purerec.output.tables import write_parts
from purerec.ranking.ranks import tie_order

every_model = pytest.mark.parametrize("name", REGISTRY)
N_USERS, N_ITEMS = 30, 23


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(0)
    user, item = np.repeat(np.arange(N_USERS), 6), rng.integers(0, N_ITEMS, 6 * N_USERS)
    item[:N_ITEMS] = np.arange(N_ITEMS)
    data = pr.Interactions.from_columns([f"u{u}" for u in user], [f"i{i:02}" for i in item], name="small")
    return data.with_labels({f"i{i:02}": f"Title {i}" for i in range(0, N_ITEMS, 2)})


@pytest.fixture(scope="module")
def fitted(log):
    cache = {}

    def get(name):
        if name not in cache:
            quick = {"epochs": 5, "pretrain_epochs": 4}
            quick = {k: v for k, v in quick.items() if k in make_model(name).config_class.model_fields}
            cache[name] = make_model(name, **quick).fit(log, seed=0)
        return cache[name]

    return get


def best(scores, allowed, k):
    """The k best of the allowed items by a full sort under the tie rule, without any of `purerec.ranking.ranks`."""
    place = np.argsort(tie_order(len(scores), 0))
    order = [i for i in np.lexsort((place, -scores)) if allowed[i]]
    return order[:k]


def check_order(model, scores, items, wanted):
    """The same items up to rounding: lists come from factors, scores from a matrix product."""
    found = model.items.indices(items)
    assert len(found) == len(wanted)
    np.testing.assert_allclose(scores[found], scores[np.array(wanted, dtype=int)], rtol=1e-4, atol=1e-4)
    assert len(set(items)) == len(items)


@every_model
@pytest.mark.parametrize("exclude_seen", [True, False])
def test_lists_are_a_full_sort_of_the_scores(name, fitted, exclude_seen):
    model = fitted(name)
    only, never = [f"i{i:02}" for i in range(20)], ["i03", "i04", "nothing of ours"]
    found = model.recommend(k=7, exclude_seen=exclude_seen, items=only, exclude=never)
    scores = model.score(np.arange(len(model.users)))
    for user, part in found.group_by("user", maintain_order=True):
        u = model.users.index(user[0])
        allowed = np.zeros(N_ITEMS, bool)
        allowed[model.items.indices(only)] = True
        allowed[model.items.indices(never[:2])] = False
        if exclude_seen:
            allowed[model.seen.row(u)] = False
        check_order(model, scores[u], part["item"].to_list(), best(scores[u], allowed, 7))
        assert part["rank"].to_list() == list(range(1, len(part) + 1))
        assert part["score"].is_sorted(descending=True)
    assert found["user"].n_unique() == len(model.users)
    assert found["score"].is_finite().all()
    assert found.columns == ["user", "item", "label", "score", "rank"]


@every_model
def test_new_people_are_a_full_sort_of_their_scores(name, fitted):
    model = fitted(name)
    history = ["i01", "i05", "i06", "i05"]
    known = np.unique(model.items.indices(history))
    scores = model.score_history(known)
    found = model.recommend_for(history, k=5, exclude=["i02"])
    allowed = np.ones(N_ITEMS, bool)
    allowed[known] = allowed[model.items.index("i02")] = False
    check_order(model, scores, found["item"].to_list(), best(scores, allowed, 5))
    assert model.recommend_for(history, k=3, items=["i01", "i07"], exclude_seen=False).height == 2
    assert model.recommend_for(history, k=3, items=["i01"]).is_empty()
    with pytest.warns(UserWarning, match="'unheard of'"):
        assert len(model.recommend_for(["unheard of", "i01"], k=3)) == 3


@every_model
def test_nothing_known_gives_popularity(name, fitted):
    model = fitted(name)
    counts = model.popularity()
    found = model.items.indices(model.recommend_for([], k=N_ITEMS)["item"])
    assert (np.diff(counts[found]) <= 0).all()


@every_model
def test_similar_items(name, fitted):
    model = fitted(name)
    found = model.similar_items("i03", k=6)
    assert found["rank"].to_list() == [1, 2, 3, 4, 5, 6]
    assert "i03" not in found["item"].to_list()
    assert found["score"].is_sorted(descending=True)
    assert found["score"].is_finite().all()
    with pytest.raises(DataError, match="'i99'"):
        model.similar_items("i99")


def test_similar_items_by_vectors_and_by_weights(fitted):
    vectors = fitted("bpr").factors().items.astype(float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    liked = fitted("bpr").popularity()
    near = vectors @ vectors[5]
    near = np.where(near > 0, near * liked / (liked + 50), near)
    near[5] = -2
    top = fitted("bpr").top_similar(5, 3)
    np.testing.assert_array_equal(top.items[0], np.argsort(-near)[:3])
    np.testing.assert_allclose(top.scores[0], np.sort(near)[::-1][:3], atol=1e-5)
    weights = fitted("ease")._weights.row(5)
    assert fitted("ease").top_similar(5, 1).items[0, 0] == np.argmax(np.where(np.arange(N_ITEMS) == 5, -9, weights))


def test_similar_items_by_people(fitted, log):
    x = np.zeros((N_USERS, N_ITEMS))
    x[log.user_idx, log.item_idx] = 1
    near = x.T @ x[:, 4] / np.sqrt(x.sum(0) * x[:, 4].sum()) * x.sum(0) / (x.sum(0) + 50)
    top = fitted("itempop").top_similar(4, N_ITEMS)
    np.testing.assert_allclose(np.sort(top.scores[0])[::-1], np.sort(np.delete(near, 4))[::-1], atol=1e-6)


@pytest.mark.parametrize("name", ["bpr", "ease", "itempop", "slopeone"])
def test_blocks_are_the_whole(name, fitted):
    model = fitted(name)
    whole = model.recommend(k=4, exclude=["i02"])
    for size in (1, 7, 100):
        parts = list(model.recommend_blocks(k=4, exclude=["i02"], block_users=size))
        assert len(parts) == -(-N_USERS // size)
        assert pl.concat(parts).equals(whole)
    some = model.recommend(["u3", "u1", "u3"], k=2)
    assert some["user"].to_list() == ["u3", "u3", "u1", "u1", "u3", "u3"]
    assert model.recommend([], k=2).is_empty()


@settings(deadline=None, max_examples=40)
@given(
    only=st.one_of(st.none(), st.lists(st.integers(0, N_ITEMS - 1), max_size=N_ITEMS)),
    never=st.lists(st.integers(0, N_ITEMS - 1), max_size=N_ITEMS),
    users=st.lists(st.integers(0, N_USERS - 1), min_size=1, max_size=20),
    k=st.integers(1, 30),
    exclude_seen=st.booleans(),
)
@pytest.mark.parametrize("name", ["bpr", "ease"])
def test_candidates_are_kept_to(name, fitted, only, never, users, k, exclude_seen):
    model = fitted(name)
    found = model.top_for_users(
        np.array(users),
        k,
        exclude_seen=exclude_seen,
        items=None if only is None else np.array(only, dtype=np.int32),
        exclude=np.array(never, dtype=np.int32),
    )
    for row, user in zip(found.items, users, strict=True):
        left = set(range(N_ITEMS) if only is None else only) - set(never)
        if exclude_seen:
            left -= set(model.seen.row(user).tolist())
        listed = [i for i in row.tolist() if i >= 0]
        assert set(listed) <= left
        assert len(set(listed)) == len(listed) == min(k, len(left))
        assert (row[len(listed) :] == -1).all()


def test_what_is_wrong_is_told(fitted):
    model = fitted("bpr")
    with pytest.raises(DataError, match="'i77'"):
        model.recommend(["u1"], items=["i77"])
    with pytest.raises(DataError, match="'nobody'"):
        model.recommend("nobody")
    with pytest.raises(ConfigError, match="k must be"):
        model.recommend_for(["i01"], k=0)
    with pytest.raises(ConfigError, match="block_users"):
        model.recommend_blocks(block_users=0)
    with pytest.raises(DataError, match="item indices"):
        model.top_for_history(np.array([99]), 3)
    with pytest.raises(DataError, match="item indices"):
        model.top_similar(99, 3)


def test_what_was_made_once_is_forgotten_by_a_new_fit(log):
    model = make_model("ials", dim=3).fit(log, seed=0)
    model.recommend_for(["i01"])
    model.similar_items("i01")
    again = make_model("ials", dim=3).fit(log, seed=1)
    model.fit(log, seed=1)
    assert model.recommend_for(["i01"]).equals(again.recommend_for(["i01"]))
    assert model.similar_items("i01").equals(again.similar_items("i01"))
    assert model.recommend().equals(again.recommend())


# ---------------------------------------------------------------------- files


@pytest.fixture
def folder(fitted, tmp_path):
    return fitted("bpr").save(tmp_path / "model")


def run(*args):
    return subprocess.run(
        [sys.executable, "-m", "purerec.cli", "recommend", *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
    )


READ = {".parquet": pl.read_parquet, ".csv": pl.read_csv, ".jsonl": pl.read_ndjson}


@pytest.mark.parametrize("suffix", READ)
def test_everybody_into_a_file(suffix, folder, fitted, tmp_path):
    target = tmp_path / f"recs{suffix}"
    target.write_text("an earlier file")
    done = CliRunner().invoke(app, ["recommend", str(folder), "--all", "-k", "4", "--out", str(target)])
    assert done.exit_code == 0, done.output
    assert f"{4 * N_USERS} recommendations for {N_USERS} people" in done.output
    found = READ[suffix](target)
    expected = fitted("bpr").recommend(k=4)
    assert found.drop("score").cast(pl.String).equals(expected.drop("score").cast(pl.String))
    np.testing.assert_allclose(found["score"], expected["score"], rtol=1e-6)
    assert {p.name for p in tmp_path.iterdir()} == {"model", target.name}


def test_some_into_a_file(folder, tmp_path):
    (tmp_path / "users.txt").write_text("u3\n\nu1\n")
    options = ["--users-file", str(tmp_path / "users.txt"), "--items", "i01,i02,i03,i04,i05,i06", "--exclude", "i02"]
    target = tmp_path / "recs.jsonl"
    done = CliRunner().invoke(app, ["recommend", str(folder), *options, "--include-seen", "--out", str(target)])
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert {row["user"] for row in rows} == {"u1", "u3"}
    assert {row["item"] for row in rows} == {"i01", "i03", "i04", "i05", "i06"}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--all", "--out", "recs.xlsx"], ".parquet, .csv, .jsonl"),
        (["--all", "--out", "no/such/place/recs.csv"], "cannot write"),
        (["--all"], "--out"),
        (["--all", "--user", "u1"], "give one of"),
        ([], "give one of"),
        (["--users-file", "nothing.txt"], "nothing.txt cannot be read"),
        (["--user", "u1", "--items", "i77"], "'i77'"),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_code_2(args, message, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(folder, *args)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert {p.name for p in tmp_path.iterdir()} == {"model"}


@pytest.mark.parametrize("suffix", READ)
def test_an_error_half_way_leaves_the_earlier_file(suffix, tmp_path):
    target = tmp_path / f"recs{suffix}"
    target.write_text("an earlier file")

    def parts():
        yield pl.DataFrame({"user": [1], "item": [2]})
        raise StoreError("the disk is on fire")

    with pytest.raises(StoreError, match="on fire"):
        write_parts(target, parts())
    assert target.read_text() == "an earlier file"
    assert [p.name for p in tmp_path.iterdir()] == [target.name]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_an_interruption_leaves_nothing(suffix, tmp_path):
    code = f"""
import time, polars as pl
from purerec.output.tables import write_parts
def parts():
    for n in range(1000):
        time.sleep(.02)
        yield pl.DataFrame({{"user": range(1000)}})
        print("part", flush=True)
write_parts("recs{suffix}", parts())
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    for _ in range(3):
        process.stdout.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_memory_stays_bounded(tmp_path):
    """Thirty times the rows take hardly more memory."""
    code = """
import resource, sys, numpy as np, polars as pl
from purerec.output.tables import write_parts
parts = (pl.DataFrame({"user": np.full(100_000, n), "score": np.random.default_rng(n).random(100_000)})
         for n in range(int(sys.argv[1])))
write_parts("recs.parquet", parts)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
    peaks = []
    for n in (10, 300):
        done = subprocess.run(
            [sys.executable, "-c", code, str(n)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            env=os.environ,
        )
        peaks.append(float(done.stdout))
    assert peaks[1] < peaks[0] + 100  # all rows would take 480 MB


def test_the_page_about_it_runs():
    text = (ROOT / "docs" / "recommending.md").read_text()
    exec("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), {})


# ---------------------------------------------------------------------- internal indices

BAD_INDICES = [-1, N_USERS, 2**31, 2**63, 2**200, 1.5, 1.0, float("nan"), True, "3", None, [[0, 1]], [True], [0, -1],
               [0, True], [0.0], [[0], [0, 1]], np.array([1.5]), np.array([True]), np.array([[0]])]  # fmt: skip
BY_INDEX = {
    "score": lambda model, bad: model.score(bad),
    "top_for_users": lambda model, bad: model.top_for_users(bad, 3),
    "top_for_users, seen ones too": lambda model, bad: model.top_for_users(bad, 3, exclude_seen=False),
    "top_for_users items": lambda model, bad: model.top_for_users(np.array([0]), 3, items=_listed(bad)),
    "top_for_users exclude": lambda model, bad: model.top_for_users(np.array([0]), 3, exclude=_listed(bad)),
    "top_for_history": lambda model, bad: model.top_for_history(_listed(bad), 3),
    "top_for_history items": lambda model, bad: model.top_for_history([0], 3, items=_listed(bad)),
    "top_for_history exclude": lambda model, bad: model.top_for_history([0], 3, exclude=_listed(bad)),
    "score_history": lambda model, bad: model.score_history(_listed(bad)),
    "fold_in": lambda model, bad: model.fold_in(_listed(bad)),
    "reasons_for_history": lambda model, bad: model.reasons_for_history(_listed(bad), 1),
    "reasons_for_history target": lambda model, bad: model.reasons_for_history([0], bad),
    "reasons_for_user": lambda model, bad: model.reasons_for_user(bad, 1),
    "top_similar": lambda model, bad: model.top_similar(bad, 3),
}


def _listed(bad):
    return bad if isinstance(bad, list | np.ndarray) else [bad]


@pytest.mark.parametrize("name", ["bpr", "ease", "itempop", "itemknn"])
@pytest.mark.parametrize("method", BY_INDEX)
def test_internal_indices_are_whole_and_in_range_or_refused(fitted, name, method):
    model = fitted(name)
    for bad in BAD_INDICES:
        with pytest.raises(DataError, match=r"(user|item) ind"):
            BY_INDEX[method](model, bad)


def test_good_indices_of_any_type_give_the_same(fitted):
    model = fitted("bpr")
    expected = model.score([0, 3])
    for good in ((0, 3), np.array([0, 3], dtype=np.uint8), np.array([0, 3], dtype=np.uint64), np.array([3, 0])[::-1]):
        assert np.array_equal(model.score(good), expected)
    assert np.array_equal(model.score(3), model.score([3]))
    assert np.array_equal(model.score(np.int16(3)), model.score([3]))
    assert model.score([]).shape == (0, N_ITEMS)
    assert model.top_for_users([0], 3, exclude=[]).items.tolist() == model.top_for_users(0, 3).items.tolist()


@pytest.mark.parametrize("bad", [-1, N_ITEMS, 1.5, True, "3", None])
def test_ids_and_titles_by_index(log, bad):
    for ask in (log.label, log.items.__getitem__, lambda bad: log.items.take([bad])):
        with pytest.raises(DataError, match="item indices must be"):
            ask(bad)
    assert list(log.items) == log.items.take(np.arange(N_ITEMS)).to_list()


@pytest.mark.parametrize("strange", [True, 1.5, None, b"a", [1]])
def test_columns_of_other_things_than_ids_are_refused(strange):
    with pytest.raises(DataError, match=r"row 1 has the item .*, which is not a valid id"):
        pr.Interactions.from_columns([1, 2], [1, strange])


@pytest.mark.parametrize("strange", [True, 1.0, None, (), [0], 2**70, b"u1"])
def test_ids_of_another_type_find_nobody(strange):
    model = make_model("itempop").fit(pr.Interactions.from_columns([0, 1, 1], [0, 1, 0]))
    with pytest.raises(DataError, match="was not in training"):
        model.recommend([strange])
    with pytest.raises(DataError, match="was not in training"):
        model.similar_items(strange)
    with pytest.warns(UserWarning, match="left out of the history"):
        model.recommend_for([strange])


def test_ids_that_are_no_list():
    model = make_model("itempop").fit(pr.Interactions.from_columns([0, 1, 1], [0, 1, 0]))
    with pytest.raises(DataError, match="ids are integers or text"):
        model.recommend(1.5)
    for size in (0, -1, True, 1.5):
        with pytest.raises(ConfigError, match="block_users"):
            model.recommend_blocks(block_users=size)
