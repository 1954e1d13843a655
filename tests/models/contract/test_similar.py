"""Similar items: support matters."""

import numpy as np

import purerec as pr
from purerec.models.contract.similar import shrunk


def test_what_few_liked_has_to_be_nearer():
    """a and b share eighty fans; the one fan of `rare` likes a, too, so that its raw cosine with b is as high."""
    users, items = [], []
    for person in range(100):
        for item in ["a"] * (person < 90) + ["b"] * (person >= 10) + ["c"] * (person % 2):
            users.append(person)
            items.append(item)
    users.append(50)
    items.append("rare")
    model = pr.ItemPop().fit(pr.Interactions.from_columns(users, items), seed=0)
    found = model.similar_items("a", k=3)
    assert found["item"].to_list() == ["b", "c", "rare"]
    cosine = 80 / np.sqrt(90 * 90)
    np.testing.assert_allclose(found["score"][0], cosine * 90 / (90 + 50), rtol=1e-6)


def test_shrinking():
    near = np.array([1.0, 0.5, -0.5, 0.0], dtype=np.float32)
    support = np.array([0.0, 50.0, 1.0, 10.0], dtype=np.float32)
    np.testing.assert_allclose(shrunk(near, support, 50.0), [0.0, 0.25, -0.5, 0.0])
    np.testing.assert_array_equal(shrunk(near, support, 0.0), near)
