"""Items rated too low to count as positive: models do not learn from them, and lists leave them out."""

import numpy as np
import pytest

from conftest import purerec
from purerec.data.interactions import Interactions
from purerec.errors import StoreError
from purerec.models.registry import load_model, make_model
from purerec.storage import HEAD, read_folder, write_folder

N_ITEMS = 10
POSITIVE = [(f"u{u}", f"i{(u + step) % N_ITEMS}", 5) for u in range(8) for step in (2, 3)]
LOW = [("u0", "i4", 2), ("u0", "i5", 2), ("u1", "i0", 2)]


def log(*rows, positive_rating=4):
    users, items, ratings = zip(*rows, strict=True)
    return Interactions.from_columns(users, items, rating=ratings, positive_rating=positive_rating)


def listed(model, user, **options):
    return set(model.recommend([user], k=N_ITEMS, **options)["item"])


@pytest.mark.parametrize("name", ["itempop", "ease", "bpr", "svd", "pure"])
def test_lists_leave_out_what_somebody_rated_low(name):
    model = make_model(name).fit(log(*POSITIVE, *LOW))
    assert {"i2", "i3", "i4", "i5"} == set(model.items.ids) - listed(model, "u0")
    assert {"i4", "i5"} < listed(model, "u0", exclude_seen=False)
    assert {"i3", "i4", "i0"} == set(model.items.ids) - listed(model, "u1")
    assert len(model.seen) == len(POSITIVE)


@pytest.fixture
def model():
    return make_model("itemknn").fit(log(*POSITIVE, *LOW))


def test_a_saved_model_leaves_it_out_too(model, tmp_path):
    again = load_model(model.save(tmp_path / "m"))
    assert listed(again, "u0") == listed(model, "u0")
    assert len(again.seen) == len(POSITIVE)


def test_without_low_ratings_nothing_more_is_stored(tmp_path):
    everything = log(*POSITIVE, *LOW, positive_rating=None)
    model = make_model("itempop").fit(everything).update(everything)
    stored = read_folder(model.save(tmp_path / "m"), kind="model")
    assert not any(name.startswith("touched") for name in stored.tensors)
    assert listed(load_model(tmp_path / "m"), "u0") == listed(model, "u0")


def test_a_damaged_part_is_refused(model, tmp_path):
    stored = read_folder(model.save(tmp_path / "m"), kind="model")
    facts = {name: value for name, value in stored.manifest.items() if name not in HEAD}
    tensors = {name: array.copy() for name, array in stored.tensors.items()}
    tensors["touched.indices"][0] = 10**6
    write_folder(tmp_path / "bad", kind="model", manifest=facts, tensors=tensors)
    with pytest.raises(StoreError, match="touched has indices"):
        load_model(tmp_path / "bad")


@pytest.mark.parametrize("name", ["itemknn", "bpr"])
def test_an_update_remembers_old_and_new_low_ratings(name):
    model = make_model(name).fit(log(*POSITIVE, *LOW))
    model.update(log(("u0", "i9", 5), ("u0", "i6", 1), ("u9", "new", 5), ("u9", "i1", 1), positive_rating=None))
    assert set(model.items.ids) - listed(model, "u0") == {"i2", "i3", "i4", "i5", "i6", "i9"}
    assert set(model.items.ids) - listed(model, "u9") == {"new", "i1"}
    assert len(model.seen) == len(POSITIVE) + 2


def test_an_update_with_low_ratings_only_needs_no_training(model):
    before = model.score([0]), model.fitted_on
    model.update(log(("u0", "i7", 1)))
    assert "i7" not in listed(model, "u0")
    np.testing.assert_array_equal(model.score([0]), before[0])
    assert model.fitted_on == before[1]


def test_the_command(tmp_path):
    rows = [",".join(map(str, row)) for row in (*POSITIVE, *LOW)]
    data, later, folder = tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "m"
    data.write_text("\n".join(["user,item,rating", *rows]))
    later.write_text("user,item,rating\nu0,i7,1\n")
    purerec("fit", data, "--model", "itemknn", "--min-rating", "4", "--out", folder, check=0)
    done = purerec("update", folder, later, "--out", folder, check=0)
    assert "no new positives" in done.stdout
    assert "leave out 1 more pair rated too low" in done.stdout
    shown = purerec("recommend", folder, "--user", "u0", "-k", "10", "--json", "-", check=0)
    for item in ("i4", "i5", "i7"):
        assert f'"{item}"' not in shown.stdout
    assert '"i8"' in shown.stdout
    again = purerec("update", folder, later, "--out", folder, check=0)
    assert "nothing new" in again.stdout
    likes = tmp_path / "likes.csv"
    likes.write_text("user,item,grade\nu0,i8,1\n")
    unrated = purerec("update", folder, likes, "--out", tmp_path / "other", check=0)
    assert "likes.csv: no ratings were found, so every row counts as positive" in unrated.stderr
    rated = purerec("update", folder, likes, "--rating", "grade", "--out", tmp_path / "other", check=0)
    assert "no ratings" not in rated.stderr
