"""Similar items, judged by held-out people."""

import numpy as np

import purerec as pr
from purerec.experiments.kinds import similar
from purerec.experiments.specs import SimilarSpec


def test_a_jury_knows_what_is_liked_together():
    data = pr.Interactions.from_columns([0, 0, 1, 1, 2, 3], ["a", "b", "a", "b", "a", "c"])
    jury = similar.Jury.of(data.positives, np.array([0, 1, 2]))
    a, b, c = (data.items.index(item) for item in "abc")
    assert jury.fans[[a, b, c]].tolist() == [3, 2, 0]
    assert np.isclose(jury.judge(a, np.array([b])), 2 / np.sqrt(6))
    assert np.isclose(jury.judge(a, np.array([b, c])), 1 / np.sqrt(6))


def test_nobody_is_in_two_parts_and_the_experiment_runs(monkeypatch):
    world = pr.make_world(users=150, items=40, prior=0.2, seed=0).observed
    train, valid, test = similar.held_out(world, 0.2, np.random.default_rng(0))
    assert len(np.unique(train.user_idx)) <= 90
    counts = world.positives.item_counts
    np.testing.assert_array_equal(train.positives.item_counts + valid.fans + test.fans, counts)
    monkeypatch.setattr(similar.catalog, "load", lambda name: world)
    spec = SimilarSpec(
        kind="similar",
        title="t",
        seeds=2,
        data=["w"],
        models=["itempop"],
        k=5,
        held_out=0.2,
        fans=2,
        shrinkages=[0.0, 50.0],
    )
    found = similar.similar_quality(spec, 2, lambda _: None)
    (row,) = found["rows"]
    assert len(row["runs"]) == 2
    for run in row["runs"]:
        assert {(v["support"], v["by"]) for v in run["valid"]} == {
            (s, b) for s in ("fans", "both") for b in (0.0, 50.0)
        }
        assert 0 < run["test"]["raw"] < 1
