"""The protocols: what is a candidate, what is relevant, and the known answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import purerec as pr
from conftest import need
from evaluation.splits import descending, make_split, random_split
from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.data.splits import Split
from purerec.errors import ConfigError, DataError
from purerec.evaluation.metrics import DEFAULT_METRICS
from purerec.evaluation.protocols import draw_pools, evaluate, repeat_positives
from purerec.paper.printed import paper_row
from purerec.ranking.ranks import Ranks
from purerec.ranking.scorers import Factors
from ranking.known_scores import Product, Table

TRAIN = [(0, 0, 5), (0, 1, 2), (1, 5, 5), (2, 2, 4), (0, 5, 1)]
VALID = [(0, 2, 5), (1, 0, 4)]
TEST = [(0, 3, 5), (0, 4, 2), (1, 1, 4), (2, 0, 3)]


def test_exact_known_answer() -> None:
    """User 0: item 0 is a train positive, item 2 a validation positive, item 1 a train negative and stays."""
    found = evaluate(descending(3, 6), make_split(TRAIN, TEST, VALID), metrics=["MRR", "P@3"])
    assert found.user_idx.tolist() == [0, 1]
    assert found.per_user["MRR"].tolist() == [1 / 2, 1]
    assert found.metrics == pytest.approx({"MRR": 0.75, "P@3": 1 / 3})
    assert (found.n_users_evaluated, found.n_users_skipped) == (2, 1)


def test_exact_without_validation_part() -> None:
    found = evaluate(descending(3, 6), make_split(TRAIN + VALID, TEST), metrics=["MRR"])
    assert found.per_user["MRR"].tolist() == [1 / 2, 1]


def test_on_validation_known_answer() -> None:
    """Test positives are then candidates like any other: nothing about them may be known."""
    found = evaluate(descending(3, 6), make_split(TRAIN, TEST, VALID), metrics=["MRR"], on="valid")
    assert found.per_user["MRR"].tolist() == [1 / 2, 1]
    swapped = evaluate(descending(3, 6), make_split(TRAIN, VALID, TEST), metrics=["MRR"], on="valid")
    assert swapped.per_user["MRR"].tolist() == [1 / 3, 1 / 2]


def test_list_metrics() -> None:
    names = ["Coverage@2", "Gini@2", "Novelty@2", "Novelty@1"]
    found = evaluate(descending(3, 6), make_split(TRAIN, TEST, VALID), metrics=names)
    # The lists are (1, 3) and (1, 2); of the three train users nobody likes 1 or 3 and one likes 2.
    assert list(found.metrics) == names
    assert found.metrics["Coverage@2"] == pytest.approx(3 / 6)
    assert found.per_user["Novelty@2"] == pytest.approx(np.log2([3, 3]))
    assert set(found.per_user) == {"Novelty@2", "Novelty@1"}


@pytest.mark.parametrize("protocol", ["exact", "sampled", "as_published"])
def test_generic_and_factor_models_agree(protocol: Any) -> None:
    rng = np.random.default_rng(3)
    split = random_split()
    users, items = (rng.integers(-3, 4, size=(n, 5)).astype(np.float32) for n in split.train.shape)
    product = Product(Factors(users, items))
    first = evaluate(product, split, protocol=protocol, pool=30)
    second = evaluate(Table(users @ items.T), split, protocol=protocol, pool=30)
    assert first.metrics == second.metrics
    assert tuple(first.metrics) == DEFAULT_METRICS
    for name in DEFAULT_METRICS:
        assert np.array_equal(first.per_user[name], second.per_user[name])
        assert first.per_user[name].mean() == first.metrics[name]


def test_pools_hold_untouched_items_only() -> None:
    split = random_split()
    touched = split.train.pairs.union(split.test.pairs).union(split.valid.pairs)  # type: ignore[union-attr]
    dense = np.zeros(touched.shape, dtype=bool)
    dense[touched.users, touched.indices] = True
    for size in (1, 20, 45, 1000):
        pools = draw_pools(split, split.test.positives, size, seed=1)
        assert not dense[pools.users, pools.indices].any()
        expected = np.where(split.test.positives.counts > 0, np.minimum(size, (~dense).sum(axis=1)), 0)
        assert np.array_equal(pools.counts, expected)
        for user in range(touched.shape[0]):
            assert (np.diff(pools.row(user)) > 0).all()


def test_pools_depend_on_seed_and_user_only() -> None:
    split = random_split()
    pools = draw_pools(split, split.test.positives, 20, seed=1)
    again = draw_pools(split, split.test.positives, 20, seed=1)
    assert np.array_equal(pools.indices, again.indices)
    assert not np.array_equal(pools.indices, draw_pools(split, split.test.positives, 20, seed=2).indices)
    user = int(np.flatnonzero(split.test.positives.counts)[-1])
    alone = Csr.of([user], [0], split.train.shape)
    assert np.array_equal(draw_pools(split, alone, 20, seed=1).row(user), pools.row(user))


@pytest.mark.parametrize("size", [5, 30])
def test_pools_are_uniform(size: int) -> None:
    """Both ways of drawing: 40 users who have each touched two different items out of 42."""
    n = 40
    rows = [(user, item, 5) for user in range(n) for item in (user, n + 1)] + [(0, n, 1)]
    test = [(user, (user + 1) % n, 5) for user in range(n)]
    split = make_split(rows, test)
    counts = sum(
        np.bincount(draw_pools(split, split.test.positives, size, seed).indices, minlength=n + 2)
        for seed in range(200)
    )
    # Each of the first 40 items is free for 38 users, and each user draws `size` of 39 (user 0: 38) free items.
    expected = 200 * 38 * size / 39
    assert np.abs(counts[:n] / expected - 1).max() < 5 / np.sqrt(expected)
    assert counts[n + 1] == 0


def test_sampled_ranks_positives_among_the_pool() -> None:
    split = random_split(n_items=200)
    rng = np.random.default_rng(0)
    scores = rng.normal(size=split.train.shape).astype(np.float32)
    found = evaluate(Table(scores), split, protocol="sampled", pool=25, metrics=["MRR"], seed=4)
    pools = draw_pools(split, split.test.positives, 25, seed=4)
    for user, value in zip(found.user_idx, found.per_user["MRR"], strict=True):
        best = scores[user, split.test.positives.row(user)].max()
        assert value == 1 / (1 + (scores[user, pools.row(user)] > best).sum())
    assert found.label == "sampled, 25 candidates"
    assert found.pool == 25


def test_repeated_positives() -> None:
    """Positives at 2 and 4: o P o P -> o P P P o P P P."""
    found = repeat_positives(Ranks(np.array([7]), np.array([0, 2]), np.array([2, 4], dtype=np.int32)), repetitions=3)
    assert found.values.tolist() == [2, 3, 4, 6, 7, 8]
    assert found.indptr.tolist() == [0, 6]


def test_as_published_inflates_all_but_mrr() -> None:
    split = random_split(n_items=200)
    scores = np.random.default_rng(0).normal(size=split.train.shape).astype(np.float32)
    sampled = evaluate(Table(scores), split, protocol="sampled", pool=50)
    once = evaluate(Table(scores), split, protocol="as_published", pool=50, repetitions=1)
    often = evaluate(Table(scores), split, protocol="as_published", pool=50, repetitions=50)
    assert once.metrics == sampled.metrics
    assert often.metrics["MRR"] == sampled.metrics["MRR"]
    assert often.metrics["MAP"] > 2 * sampled.metrics["MAP"]
    assert often.metrics["P@3"] < often.metrics["P@5"] < often.metrics["P@10"]  # never so with a sane ranking
    assert "defective" in often.label
    assert often.repetitions == 50


def test_seed_breaks_ties_only() -> None:
    split = random_split()
    model = Table(np.random.default_rng(0).normal(size=split.train.shape).astype(np.float32))
    assert evaluate(model, split, seed=0).metrics == evaluate(model, split, seed=1).metrics
    constant = Table(np.zeros(split.train.shape, dtype=np.float32))
    assert evaluate(constant, split, seed=0).metrics != evaluate(constant, split, seed=1).metrics


def test_constant_scorer_is_like_a_random_one() -> None:
    split = random_split(n_users=400, n_items=100)
    rng = np.random.default_rng(0)
    constant = Table(np.zeros(split.train.shape, dtype=np.float32))
    noise = [Table(rng.random(split.train.shape, dtype=np.float32)) for _ in range(10)]
    for name, tolerance in (("MAP", 0.02), ("P@10", 0.03)):
        tied = np.mean([evaluate(constant, split, seed=seed).metrics[name] for seed in range(10)])
        random = np.mean([evaluate(model, split).metrics[name] for model in noise])
        assert tied == pytest.approx(random, abs=tolerance)


def test_cold_users_are_evaluated() -> None:
    split = make_split([(0, 0, 5), (0, 1, 1), (0, 2, 1)], [(1, 1, 5)])
    found = evaluate(descending(2, 3), split, metrics=["MRR"])
    assert found.user_idx.tolist() == [1]
    assert found.metrics == {"MRR": 0.5}


def test_what_is_reported() -> None:
    found = evaluate(descending(3, 6), make_split(TRAIN, TEST, VALID))
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["metrics"] == found.metrics
    assert (told["users"], told["users_skipped"], told["protocol"]) == (2, 1, "exact")
    text = str(found)
    assert "table on test (exact, all items ranked; 2 users, 1 skipped (no test positive))" in text
    heading, values = text.splitlines()[1:]
    assert len(heading) == len(values)
    assert "NDCG@10" in heading
    assert found.seconds > 0


def test_fingerprint_tells_splits_apart() -> None:
    model = descending(3, 6)
    first = evaluate(model, make_split(TRAIN, TEST, VALID))
    assert first.fingerprint == evaluate(model, make_split(TRAIN, TEST, VALID), seed=1).fingerprint
    other = [(0, 4, 5), *TEST[2:]]
    assert first.fingerprint != evaluate(model, make_split([*TRAIN, (0, 3, 1)], other, VALID)).fingerprint


def test_fingerprint_tells_exclusions_apart() -> None:
    """User 0 knows item 0 or item 1: the same number of items, but different candidates."""
    others = [(1, 5, 5), (2, 2, 4), (2, 4, 1)]
    first, second = (
        evaluate(descending(3, 6), make_split([(0, known, 5), (1, 1 - known, 1), *others], [(0, 3, 5)]))
        for known in (0, 1)
    )
    assert first.user_idx.tolist() == second.user_idx.tolist()
    assert first.fingerprint != second.fingerprint


def test_fingerprint_tells_protocols_and_pools_apart() -> None:
    split, model = random_split(), descending(60, 90)
    ways: list[dict[str, Any]] = [
        {"protocol": "exact"},
        {"protocol": "sampled", "pool": 10},
        {"protocol": "sampled", "pool": 11},
        {"protocol": "as_published", "pool": 10, "repetitions": 2},
        {"protocol": "as_published", "pool": 10, "repetitions": 3},
    ]
    assert len({evaluate(model, split, **way).fingerprint for way in ways}) == len(ways)


def test_wrong_use() -> None:
    split, model = make_split(TRAIN, TEST), descending(3, 6)
    with pytest.raises(ConfigError, match="choose exact, sampled, as_published"):
        evaluate(model, split, protocol="exakt")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="'test' or 'valid'"):
        evaluate(model, split, on="train")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no validation part"):
        evaluate(model, split, on="valid")
    with pytest.raises(ConfigError, match="unknown metric 'P@'"):
        evaluate(model, split, metrics=["MAP", "P@"])
    with pytest.raises(ConfigError, match="no metrics are given"):
        evaluate(model, split, metrics=[])
    with pytest.raises(ConfigError, match=r"Gini@10 .* protocol='exact'"):
        evaluate(model, split, protocol="sampled", metrics=["Gini@10"])
    for name in ("pool", "repetitions"):
        with pytest.raises(ConfigError, match=f"{name} must be a whole number"):
            evaluate(model, split, protocol="as_published", **{name: 0})
    with pytest.raises(DataError, match=r"no user has a positive in the test part.*lower the rating"):
        evaluate(model, make_split(TRAIN, [(2, 0, 3), (1, 3, 1), (1, 4, 1)]))
    assert evaluate(model, split, metrics="MAP").metrics.keys() == {"MAP"}


# ---------------------------------------------------------------------- known answers on real data


def ratings(path: Path, separator: str) -> np.ndarray:
    """(n, 3) user, item, rating"""
    text = path.read_text().replace(separator, " ")
    return np.array(text.split(), dtype=np.int64).reshape(-1, 4)[:, :3]


def log_of(rows: np.ndarray) -> Interactions:
    return Interactions.from_columns(rows[:, 0], rows[:, 1], rating=rows[:, 2].astype(np.float32), positive_rating=4)


def test_popularity_on_ml_100k(ml_100k: Interactions) -> None:
    """Which numbers of the paper's ItemPop row of Table 2 we reproduce; see docs/evaluation.md."""
    log = ml_100k
    is_test = np.arange(len(log)) < 20_000
    split = Split(log.subset(~is_test), None, log.subset(is_test))
    popularity = split.train.positives.item_counts.astype(np.float32)
    model = Table(np.tile(popularity, (log.n_users, 1)), name="itempop")
    found = evaluate(model, split)
    ours = {name: round(value, 4) for name, value in found.metrics.items()}
    assert list(ours.values()) == [0.2624, 0.2338, 0.2050, 0.2793, 0.2568, 0.2403, 0.1515, 0.4657]
    printed = paper_row("ml-100k", "itempop")
    assert printed is not None
    assert [name for name in ours if ours[name] == printed[name]] == ["P@3", "P@5", "NDCG@3", "NDCG@5", "MAP"]
    assert [ours[name] - printed[name] for name in ("P@10", "NDCG@10")] == pytest.approx([1e-4, 1e-4])
    assert printed["MRR"] == 0.4557
    assert (found.n_users_evaluated, found.n_users_skipped) == (456, 487)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:OpenBLAS")
def test_published_pattern_on_ml_1m(data_dir: Path) -> None:
    """Where the rising P@k of Tables 3 and 4 come from: ALS, positives listed 1, 5, 20 and 50 times (facts.md)."""
    need("implicit")
    from implicit.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix

    log = log_of(ratings(data_dir / "ml-1m" / "ratings.dat", "::"))
    rng = np.random.default_rng(0)
    order = np.lexsort((rng.random(len(log)), log.user_idx))
    first = np.searchsorted(log.user_idx[order], np.arange(log.n_users))
    is_test = np.zeros(len(log), dtype=bool)
    is_test[order[np.arange(len(log)) - first[log.user_idx[order]] < 10]] = True
    split = Split(log.subset(~is_test), None, log.subset(is_test))
    als = AlternatingLeastSquares(factors=8, regularization=1.0, iterations=15, random_state=0, num_threads=1)
    als.fit(csr_matrix(split.train.positives.to_scipy(), copy=True), show_progress=False)
    model = Product(Factors(als.user_factors, als.item_factors), name="als")
    expected = {
        1: [0.4098, 0.3456, 0.2551, 0.4340, 0.3969, 0.4109, 0.3427, 0.6490],
        5: [0.6441, 0.7177, 0.6737, 0.6117, 0.6714, 0.6587, 0.5467, 0.6490],
        20: [0.6441, 0.7177, 0.8093, 0.6117, 0.6714, 0.7515, 0.7480, 0.6490],
        50: [0.6441, 0.7177, 0.8093, 0.6117, 0.6714, 0.7515, 0.8517, 0.6490],
    }
    for repetitions, row in expected.items():
        found = evaluate(model, split, protocol="as_published", repetitions=repetitions)
        assert list(found.metrics.values()) == pytest.approx(row, rel=0.03)
    assert evaluate(model, split, protocol="sampled").metrics["MAP"] == pytest.approx(0.3427, rel=0.03)


def test_what_is_no_split_is_refused() -> None:
    split = random_split()
    with pytest.raises(ConfigError, match=r"a split, such as pr.split\(data\), not Interactions"):
        evaluate(Table(np.zeros(split.train.positives.shape)), split.train)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [pr.PURE, pr.ItemPop, pr.Recommender])
def test_a_class_in_place_of_a_model_is_refused(kind: type) -> None:
    split = random_split()
    with pytest.raises(ConfigError, match=f"cannot evaluate the class {kind.__name__}; give a fitted model"):
        evaluate(kind, split)
