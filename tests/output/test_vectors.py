"""Vectors for other programs: what is in the files, and how well the index finds."""

import builtins
import json

import numpy as np
import polars as pl
import pytest

from conftest import checkerboard, need, purerec
from purerec.data.interactions import Interactions
from purerec.errors import ConfigError, MissingExtraError, NotFittedError, StoreError
from purerec.models.registry import REGISTRY, make_model
from purerec.output import vectors as exporting
from purerec.output.vectors import INDEX, WITH_VECTORS, ItemIndex, export_vectors, search_index, vectors


@pytest.fixture(scope="module")
def crowd():
    """300 people with six tastes, and 400 items with titles."""
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(300), 20)
    taste = rng.integers(0, 6, 300)
    item = np.where(
        rng.random(6_000) < 0.8, taste[user] * 60 + rng.integers(0, 60, 6_000), rng.integers(0, 400, 6_000)
    )
    data = Interactions.from_columns([f"p{u}" for u in user], item).deduplicate()
    return data.with_labels({str(i): f"item {i}" for i in range(0, 400, 2)})


@pytest.fixture(scope="module")
def bpr(crowd):
    return make_model("bpr", epochs=20, dim=5).fit(crowd, seed=0)


def test_the_list_of_models_with_vectors_is_right():
    need("torch")
    board = checkerboard()
    having = [name for name in REGISTRY if make_model(name).fit(board, seed=0).factors() is not None]
    assert tuple(having) == WITH_VECTORS


@pytest.mark.parametrize("name", WITH_VECTORS)
def test_dot_products_are_the_scores_up_to_a_constant_per_user(name, tmp_path):
    if name in ("cfgan", "multvae"):
        need("torch")
    model = make_model(name).fit(checkerboard(), seed=0)
    export_vectors(model, tmp_path / "v")
    users, items = (pl.read_parquet(tmp_path / "v" / f"{side}.parquet") for side in ("users", "items"))
    dots = users["vector"].to_numpy() @ items["vector"].to_numpy().T
    found = model.score(np.arange(len(model.users)))
    differences = (found - dots) - (found - dots)[:, :1]
    np.testing.assert_allclose(differences, 0, atol=1e-4)
    assert users["id"].to_list() == model.users.ids.to_list()
    assert items["id"].to_list() == model.items.ids.to_list()


def test_pure_has_vectors_without_the_history_and_says_so(tmp_path):
    board = checkerboard()
    with pytest.raises(ConfigError, match="fit it with users='free'"):
        export_vectors(make_model("pure").fit(board, seed=0), tmp_path / "v")
    assert not (tmp_path / "v").exists()
    export_vectors(make_model("pure", users="free").fit(board, seed=0), tmp_path / "v")


def test_files_have_ids_labels_and_lists_of_one_size(bpr, tmp_path):
    found = export_vectors(bpr, tmp_path / "v")
    items, users = (
        pl.read_parquet(tmp_path / "v" / "items.parquet"),
        pl.read_parquet(tmp_path / "v" / "users.parquet"),
    )
    assert items.schema == {"id": pl.Int64, "label": pl.String, "vector": pl.Array(pl.Float32, found.dim)}
    assert users.schema == {"id": pl.String, "vector": pl.Array(pl.Float32, found.dim)}
    assert items["label"].to_list() == bpr.labels.to_list()
    assert (users["vector"].to_numpy()[:, -1] == 1).all()  # multiplies the items' bias
    about = json.loads((tmp_path / "v" / "manifest.json").read_text())
    assert (about["kind"], about["model"], about["index"]) == ("vectors", "bpr", None)


def test_pyarrow_reads_fixed_size_lists(bpr, tmp_path):
    need("pyarrow")
    import pyarrow.parquet as pq

    found = export_vectors(bpr, tmp_path / "v")
    kind = pq.read_table(tmp_path / "v" / "items.parquet").schema.field("vector").type
    assert (str(kind.value_type), kind.list_size) == ("float", found.dim)


def test_an_export_replaces_the_one_before_and_nothing_else(bpr, tmp_path):
    export_vectors(bpr, tmp_path / "v")
    export_vectors(bpr, tmp_path / "v")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    with pytest.raises(StoreError, match="holds other files"):
        export_vectors(bpr, tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "v"]


def test_a_failed_export_leaves_the_old_one(bpr, tmp_path, monkeypatch):
    export_vectors(bpr, tmp_path / "v")
    before = (tmp_path / "v" / "items.parquet").read_bytes()

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(StoreError, match=r"No space left on device; nothing was changed"):
        export_vectors(bpr, tmp_path / "v")
    assert (tmp_path / "v" / "items.parquet").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["v"]


@pytest.mark.parametrize("name", [name for name in REGISTRY if name not in WITH_VECTORS])
def test_models_without_vectors_say_which_have_them(name):
    model = make_model(name).fit(checkerboard(), seed=0)
    with pytest.raises(ConfigError, match=f"{name} has no vectors: .*gmf, pugmf"):
        vectors(model)


def test_an_unfitted_model_has_nothing_to_export(tmp_path):
    with pytest.raises(NotFittedError):
        export_vectors(make_model("bpr"), tmp_path / "v")


# ---------------------------------------------------------------------- the index


@pytest.mark.parametrize("name", ["bpr", "ials", "pugmf", "itempop"])
def test_the_index_finds_what_exact_search_finds(name, crowd, tmp_path):
    need("usearch")
    model = make_model(name, **({} if name == "itempop" else {"epochs": 5})).fit(crowd, seed=0)
    found = export_vectors(model, tmp_path / "v", index=True)
    users = pl.read_parquet(tmp_path / "v" / "users.parquet")["vector"].to_numpy()
    top = ItemIndex(tmp_path / "v").search(users, 10)
    exact = np.sort(model.score(np.arange(len(users))), axis=1)[:, ::-1][:, :10]
    got = np.take_along_axis(model.score(np.arange(len(users))), top.items.astype(np.int64), axis=1)
    recall = np.mean(got >= exact[:, -1:] - 1e-4)
    assert recall >= 0.9
    assert found.recall == pytest.approx(recall, abs=0.02)
    assert json.loads((tmp_path / "v" / "manifest.json").read_text())["index"]["recall@10"] == found.recall


def test_scores_of_the_index_are_dot_products(bpr, tmp_path):
    need("usearch")
    export_vectors(bpr, tmp_path / "v", index=True)
    users, items = vectors(bpr)
    table = search_index(tmp_path / "v", users[:3], 5)
    assert table.columns == ["query", "item", "label", "score", "rank"]
    assert table["rank"].to_list() == [1, 2, 3, 4, 5] * 3
    for query, item, score in table.select("query", "item", "score").rows():
        assert score == pytest.approx(float(users[query] @ items[bpr.items.index(item)]), abs=1e-4)
    one = search_index(tmp_path / "v", users[0], 5)
    assert one["item"].to_list() == table["item"].to_list()[:5]


def test_items_made_equally_long_keep_their_scores(bpr, tmp_path, monkeypatch):
    need("usearch")
    recalls = iter([0.5, 0.99])  # too little is found at first
    monkeypatch.setattr(exporting, "measure_recall", lambda *_: next(recalls))
    found = export_vectors(bpr, tmp_path / "v", index=True)
    assert found.recall == 0.99
    about = json.loads((tmp_path / "v" / "manifest.json").read_text())
    assert (about["dim"], about["index"]["dim"]) == (found.dim, found.dim + 1)
    users, items = vectors(bpr)
    top = ItemIndex(tmp_path / "v").search(users, 10)
    np.testing.assert_allclose(top.scores, np.take_along_axis(users @ items.T, top.items.astype(int), 1), atol=1e-4)
    assert np.mean(top.scores >= np.sort(users @ items.T, axis=1)[:, -10:-9] - 1e-4) >= 0.9


def test_the_first_graph_is_kept_if_the_second_finds_less(bpr, tmp_path, monkeypatch):
    need("usearch")
    recalls = iter([0.9, 0.8])
    monkeypatch.setattr(exporting, "measure_recall", lambda *_: next(recalls))
    assert export_vectors(bpr, tmp_path / "v", index=True).recall == 0.9
    assert json.loads((tmp_path / "v" / "manifest.json").read_text())["index"]["dim"] == 6


def test_more_than_there_is_gives_all_there_is(bpr, tmp_path):
    need("usearch")
    export_vectors(bpr, tmp_path / "v", index=True)
    n = len(bpr.items)
    found = ItemIndex(tmp_path / "v").search(vectors(bpr)[0][:2], 10 * n)
    assert found.items.shape == (2, n)
    assert all((row >= 0).sum() >= 0.9 * n for row in found.items)


def test_wrong_questions_to_the_index(bpr, tmp_path):
    need("usearch")
    users, _ = vectors(bpr)
    export_vectors(bpr, tmp_path / "plain")
    with pytest.raises(StoreError, match="has no index; export it again with --index"):
        ItemIndex(tmp_path / "plain")
    export_vectors(bpr, tmp_path / "v", index=True)
    with pytest.raises(ConfigError, match="vectors of 6 numbers, not of 3"):
        search_index(tmp_path / "v", users[:, :3])
    with pytest.raises(ConfigError, match="at least 1"):
        search_index(tmp_path / "v", users, 0)
    with pytest.raises(StoreError, match="holds a 'model', not a 'vectors'"):
        ItemIndex(bpr.save(tmp_path / "m"))
    with pytest.raises(StoreError, match="does not exist"):
        ItemIndex(tmp_path / "nowhere")


def test_a_damaged_index_is_not_opened(bpr, tmp_path):
    need("usearch")
    export_vectors(bpr, tmp_path / "v", index=True)
    file = tmp_path / "v" / INDEX
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(StoreError, match="damaged"):
        ItemIndex(tmp_path / "v")
    file.unlink()
    with pytest.raises(StoreError, match="export it again"):
        ItemIndex(tmp_path / "v")


def test_without_the_extra_the_error_names_it(bpr, tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("usearch"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"needs usearch; install it with: pip install 'purerec\[ann\]'"):
        export_vectors(bpr, tmp_path / "v", index=True)
    assert not (tmp_path / "v").exists()


# ---------------------------------------------------------------------- the command


@pytest.mark.slow
def test_export_prints_the_recall(bpr, tmp_path):
    need("usearch")
    bpr.save(tmp_path / "m")
    make_model("ease").fit(checkerboard()).save(tmp_path / "ease")
    done = purerec("export", tmp_path / "m", "--out", tmp_path / "v", "--index", check=0)
    assert "recall@10" in done.stdout
    refused = purerec("export", tmp_path / "ease", "--out", tmp_path / "v", check=2)
    assert "ease has no vectors" in refused.stderr
    purerec("export", tmp_path / "nowhere", "--out", tmp_path / "v", check=2)
