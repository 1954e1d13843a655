"""Metrics: hand-computed cases, and agreement with ranx and ir-measures."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import need
from purerec.errors import ConfigError
from purerec.evaluation import metrics
from purerec.evaluation.metrics import DEFAULT_METRICS, parse

# Two users: positives at ranks 1, 4, 5 of the first, at rank 6 of the second; the third has none.
RANKS = np.array([1, 4, 5, 6], dtype=np.int32)
INDPTR = np.array([0, 3, 4, 4])


def test_known_answers() -> None:
    def of(name: str) -> list[float]:
        return parse(name).of_ranks(RANKS, INDPTR).tolist()

    assert of("P@3") == pytest.approx([1 / 3, 0, 0])
    assert of("P@5") == pytest.approx([3 / 5, 0, 0])
    assert of("P@10") == pytest.approx([3 / 10, 1 / 10, 0])
    assert of("Recall@4") == pytest.approx([2 / 3, 0, 0])
    assert of("HitRate@5") == [1, 0, 0]
    assert of("HitRate@6") == [1, 1, 0]
    assert of("MAP") == pytest.approx([(1 + 2 / 4 + 3 / 5) / 3, 1 / 6, 0])
    assert of("MRR") == pytest.approx([1, 1 / 6, 0])
    ideal = 1 + 1 / math.log2(3) + 1 / math.log2(4)
    assert of("NDCG@3") == pytest.approx([1 / ideal, 0, 0])
    assert of("NDCG@5") == pytest.approx([(1 + 1 / math.log2(5) + 1 / math.log2(6)) / ideal, 0, 0])
    assert of("NDCG@10")[1] == pytest.approx(1 / math.log2(7))
    assert of("NDCG@1") == [1, 0, 0]


def test_a_perfect_ranking_is_one() -> None:
    ranks, indptr = np.arange(1, 6), np.array([0, 5])
    for name in ("P@5", "NDCG@3", "NDCG@5", "NDCG@10", "Recall@5", "HitRate@1", "MAP", "MRR"):
        assert parse(name).of_ranks(ranks, indptr) == pytest.approx([1.0])


def test_no_users_at_all() -> None:
    for name in (*DEFAULT_METRICS, "Recall@5", "HitRate@5"):
        values = parse(name).of_ranks(np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64))
        assert values.shape == (0,)
        assert values.dtype == np.float64


@given(st.lists(st.sets(st.integers(1, 60), max_size=20), min_size=1, max_size=8), st.integers(1, 70))
@settings(deadline=None)
def test_bounds_and_monotony(users: list[set[int]], k: int) -> None:
    ranks = np.array([rank for user in users for rank in sorted(user)], dtype=np.int32)
    indptr = np.cumsum([0, *(len(user) for user in users)])
    for name in (f"P@{k}", f"NDCG@{k}", f"Recall@{k}", f"HitRate@{k}", "MAP", "MRR"):
        values = parse(name).of_ranks(ranks, indptr)
        assert values.shape == (len(users),)
        assert (values >= 0).all()
        assert (values <= 1 + 1e-12).all()
    for kind in ("Recall", "HitRate"):
        assert (
            parse(f"{kind}@{k}").of_ranks(ranks, indptr) <= parse(f"{kind}@{k + 1}").of_ranks(ranks, indptr)
        ).all()


def random_rankings(n_users: int = 60, n_items: int = 80) -> tuple[np.ndarray, np.ndarray, dict, dict]:
    """Flat ranks, and the same as qrels and runs of the reference packages."""
    rng = np.random.default_rng(0)
    ranks, qrels, runs = [], {}, {}
    for user in range(n_users):
        n = int(rng.integers(1, 25))
        order = rng.permutation(n_items)
        relevant = rng.choice(n_items, n, replace=False)
        ranks.append(np.flatnonzero(np.isin(order, relevant)) + 1)
        qrels[f"u{user:03}"] = {f"i{item}": 1 for item in relevant.tolist()}
        runs[f"u{user:03}"] = {f"i{item}": float(n_items - place) for place, item in enumerate(order.tolist())}
    indptr = np.cumsum([0, *(len(r) for r in ranks)])
    return np.concatenate(ranks), indptr, qrels, runs


RANX = """
import json, sys, warnings
warnings.simplefilter("ignore")
import ranx
qrels, runs, names = json.load(sys.stdin)
found = ranx.evaluate(ranx.Qrels(qrels), ranx.Run(runs), names, return_mean=False)
print(json.dumps({name: list(values) for name, values in found.items()}))
"""


def test_agreement_with_ranx() -> None:
    need("ranx")
    ranks, indptr, qrels, runs = random_rankings()
    names = {
        "precision": "P",
        "ndcg": "NDCG",
        "recall": "Recall",
        "hit_rate": "HitRate",
    }
    pairs = {f"{theirs}@{k}": f"{ours}@{k}" for theirs, ours in names.items() for k in (1, 3, 5, 10, 50)}
    pairs |= {"map": "MAP", "mrr": "MRR"}
    # As plain Python: compiling it takes far longer than running it.
    given, env = json.dumps([qrels, runs, list(pairs)]), {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", RANX], input=given, capture_output=True, text=True, env=env, check=True
    )
    found = json.loads(done.stdout)
    for theirs, ours in pairs.items():
        np.testing.assert_allclose(parse(ours).of_ranks(ranks, indptr), found[theirs], rtol=0, atol=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_agreement_with_ir_measures() -> None:
    need("ir_measures")
    import ir_measures

    ranks, indptr, qrels, runs = random_rankings()
    names = ["P@3", "P@5", "P@10", "nDCG@3", "nDCG@5", "nDCG@10", "R@10", "Success@5", "AP", "RR"]
    ours = {"nDCG": "NDCG", "R": "Recall", "Success": "HitRate", "AP": "MAP", "RR": "MRR", "P": "P"}
    measures = [ir_measures.parse_measure(name) for name in names]
    for name, measure in zip(names, measures, strict=True):
        kind, *k = name.split("@")
        theirs = {row.query_id: row.value for row in ir_measures.iter_calc([measure], qrels, runs)}
        values = parse("@".join([ours[kind], *k])).of_ranks(ranks, indptr)
        expected = [theirs[f"u{user:03}"] for user in range(len(values))]
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-9, err_msg=name)


def test_coverage_gini_and_novelty() -> None:
    lists = np.array([[0, 1], [0, 2], [0, -1]], dtype=np.int32)
    assert metrics.coverage(lists, 5) == pytest.approx(3 / 5)
    # Exposure 3, 1, 1, 0, 0: mean absolute difference over twice the mean.
    x = np.array([3, 1, 1, 0, 0])
    expected = np.abs(x[:, None] - x[None, :]).sum() / (2 * 25 * x.mean())
    assert metrics.gini(lists, 5) == pytest.approx(expected)
    assert metrics.gini(np.array([[0, 1], [2, 3]]), 4) == pytest.approx(0)
    assert metrics.gini(np.full((2, 1), -1), 4) == 0
    novelty = metrics.novelty(lists, np.array([8, 4, 0, 1, 1]), 8)
    assert novelty == pytest.approx([(0 + 1) / 2, (0 + 3) / 2, 0])
    assert metrics.novelty(np.full((1, 2), -1), np.ones(3, dtype=int), 8).tolist() == [0]


def test_names() -> None:
    assert parse("P@20") == metrics.Metric("P@20", "P", 20)
    assert parse("Coverage@10").needs_lists
    assert not parse("MAP").needs_lists
    for name in ("p@5", "P", "P@0", "P@-1", "P@x", "MAP@10", "Precision@5", "", "Gini", "P@5 ", None):
        with pytest.raises(ConfigError, match="choose from MAP, MRR, P@k, NDCG@k, Recall@k, HitRate@k, Coverage@k"):
            parse(name)  # type: ignore[arg-type]
