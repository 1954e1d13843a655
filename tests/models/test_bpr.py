"""BPR against finite differences of its objective, and its negatives against brute force."""

import itertools

import numpy as np
import pytest
from scipy.stats import chisquare

import purerec as pr
from conftest import checkerboard
from purerec.data.pairs import Csr
from purerec.engines.bpr import PairwiseEngine, PairwiseSettings
from purerec.errors import DataError
from purerec.models.bpr import BPR
from purerec.models.contract.foldin import PairwiseFolding
from purerec.sampling.dynamic import BEST, FIRST, RANKED, SOFTMAX, VIOLATING
from purerec.training.run import Run

N_ITEMS, N_USERS = 5, 20_000
SCORES = np.array([0.3, 1.1, -0.4, 0.0, 0.8])
"""Item 0 is everybody's positive."""


def softplus(x):
    return np.logaddexp(0, x)


def slopes(function, at, step=1e-5):
    """The gradient of a function of one array, by central differences."""
    found = np.zeros_like(at)
    for k in np.ndindex(at.shape):
        there = np.zeros_like(at)
        there[k] = step
        found[k] = (function(at + there) - function(at - there)) / (2 * step)
    return found


@pytest.mark.parametrize("dim", [1, 5, 8, 11, 24])
def test_a_step_descends_the_objective(dim):
    # One user with one of two items: there is only one triple.
    engine = PairwiseEngine(
        Csr.of([0], [1], (1, 2)),
        PairwiseSettings(dim=dim, regularization=0.3, bias_regularization=0.2, init_std=0.5),
        seed=3,
    )
    before = engine.state()
    before["item_bias"] = np.array([0.4, -0.3], np.float32)
    engine.restore(before)
    start = {name: value.astype(np.float64) for name, value in before.items()}

    def objective(**changed):
        p = start | changed
        s = p["item"] @ p["user"][0] + p["item_bias"]
        squares = (p["user"] ** 2).sum() + (p["item"] ** 2).sum()
        return softplus(s[0] - s[1]) + 0.15 * squares + 0.1 * (p["item_bias"] ** 2).sum()

    loss = engine.epoch(0, 0.1)
    after = engine.state()
    s = start["item"] @ start["user"][0] + start["item_bias"]
    assert loss == pytest.approx(softplus(s[0] - s[1]), rel=1e-5)
    for name, value in start.items():
        gradient = slopes(lambda x, name=name: objective(**{name: x}), value)
        np.testing.assert_allclose(after[name], value - 0.1 * gradient, atol=2e-6)


def drawn(rule, *, candidates=3, rho=0.0, margin=0.5, seed=0):
    """How often each item was the negative of item 0, read off the biases after steps too small to change scores."""
    engine = PairwiseEngine(
        Csr.of(np.arange(N_USERS), np.zeros(N_USERS, int), (N_USERS, N_ITEMS)),
        PairwiseSettings(dim=1, rule=rule, candidates=candidates, rho=rho, margin=margin, regularization=0.0),
        seed=seed,
    )
    start = {
        "user": np.ones((N_USERS, 1), np.float32),
        "item": SCORES[:, None].astype(np.float32),
        "item_bias": np.zeros(N_ITEMS, np.float32),
    }
    engine.restore(start)
    rate = 1e-7
    engine.epoch(0, rate)
    sigma = 1 / (1 + np.exp(SCORES[0] - SCORES))
    return -engine.state()["item_bias"][1:].astype(float) / (rate * sigma[1:])


def expected(choose, candidates=3):
    """(4,) the same by enumerating all lists of candidates: choose(scores) gives the share of each place."""
    found = np.zeros(N_ITEMS)
    for items in itertools.product(range(1, N_ITEMS), repeat=candidates):
        for item, share in zip(items, choose(SCORES[list(items)]), strict=True):
            found[item] += share / 4**candidates
    return found[1:]


def by_softmax(scores):
    return np.exp(scores) / np.exp(scores).sum()


def by_rank(scores, rho=0.4):
    shares = np.exp(-(np.arange(len(scores)) + 1) / (len(scores) * rho))
    result = np.empty(len(scores))
    result[np.argsort(-scores, kind="stable")] = shares / shares.sum()
    return result


@pytest.mark.parametrize(
    ("rule", "rho", "choose"),
    [
        (FIRST, 0.0, lambda s: [1, 0, 0]),
        (BEST, 0.0, lambda s: np.eye(3)[np.argmax(s)]),
        (SOFTMAX, 0.0, by_softmax),
        (RANKED, 0.4, by_rank),
    ],
    ids=["uniform", "dns", "drns", "ranked"],
)
def test_negatives_have_the_distribution_of_their_rule(rule, rho, choose):
    counts = drawn(rule, rho=rho)
    assert counts.sum() == pytest.approx(N_USERS, rel=1e-3)
    assert chisquare(counts, expected(choose) * counts.sum()).pvalue > 1e-3


def test_violating_negatives_are_weighted_by_the_rank_they_suggest():
    # Items 1, 3 and 4 come within 0.5 of the positive's score or pass it; item 2 does not.
    moved = drawn(VIOLATING, candidates=3, margin=0.5)
    harmonic = np.cumsum(1 / np.arange(1, N_ITEMS + 1))
    weight = [harmonic[max(1, (N_ITEMS - 1) // trial) - 1] / harmonic[-1] for trial in (1, 2, 3)]
    chance = [0.75 * 0.25 ** (trial - 1) for trial in (1, 2, 3)]
    each = N_USERS / 3 * np.dot(weight, chance)
    assert moved[1] == 0
    np.testing.assert_allclose(moved[[0, 2, 3]], each, rtol=0.05)


def test_static_negatives_go_by_the_rank_of_popularity():
    # Item popularity 0 > 1 > 2 > 3 > 4; only the users with item 0 alone are looked at.
    user = np.concatenate([np.arange(N_USERS), *(N_USERS + np.arange(40 - 8 * k) for k in range(1, 5))])
    item = np.concatenate([np.zeros(N_USERS, int), *(np.full(40 - 8 * k, k) for k in range(1, 5))])
    settings = PairwiseSettings(dim=1, rule=FIRST, rho=0.3, regularization=0.0)
    engine = PairwiseEngine(Csr.of(user, item, (N_USERS + 32, N_ITEMS)), settings, seed=5)
    start = engine.state()
    start["item"][:] = 0
    engine.restore(start)
    engine.epoch(0, 1e-7)
    counts = -engine.state()["item_bias"][1:].astype(float) / 0.5e-7
    shares = np.exp(-(np.arange(N_ITEMS) + 1) / (N_ITEMS * 0.3))[1:]
    # The 80 others change counts by less than that.
    np.testing.assert_allclose(counts / counts.sum(), shares / shares.sum(), atol=0.015)


def test_the_order_is_another_one_each_epoch_and_depends_on_the_seed():
    data = checkerboard()
    scores = [
        BPR(epochs=n, schedule="constant").fit(data, seed=seed).score([0, 1])
        for n, seed in ((2, 0), (2, 0), (2, 1), (3, 0))
    ]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert not np.array_equal(scores[0], scores[2])
    assert not np.array_equal(scores[0], scores[3])


@pytest.mark.parametrize("negatives", ["uniform", "dns", "drns"])
def test_a_resumed_run_ends_in_the_same_bits(negatives, tmp_path):
    data = checkerboard()
    make = lambda: BPR(epochs=12, negatives=negatives)  # noqa: E731
    whole = make().fit(data, seed=2)
    make().fit(data, seed=2, run=Run(checkpoint=tmp_path / "c", checkpoint_epochs=5, stop_after=7))
    resumed = make().fit(data, seed=2, run=Run(checkpoint=tmp_path / "c", resume=True))
    np.testing.assert_array_equal(resumed.score(np.arange(20)), whole.score(np.arange(20)))


def test_validation_and_early_stopping():
    parts = pr.split(checkerboard(), "ratio")
    model = BPR(epochs=60, patience=2, validate_every=2).fit(parts.train, valid=parts.valid)
    assert len(model.history.records) < 60
    assert model.history.curve("P@5")


def test_a_new_person_gets_the_minimum_of_the_same_risk():
    rng = np.random.default_rng(0)
    items, bias = rng.normal(size=(12, 3)).astype(np.float32), rng.normal(size=12).astype(np.float32)
    liked = np.array([1, 4, 7], np.int32)
    others = np.setdiff1d(np.arange(12), liked)

    def risk(e):
        s = items @ e + bias
        return softplus(s[others][None, :] - s[liked][:, None]).mean() + 0.1 * e @ e

    found = PairwiseFolding(items, bias, 0.2, np.random.default_rng(0)).vector(liked)
    np.testing.assert_allclose(slopes(risk, found.astype(float)), 0, atol=1e-4)


def test_nothing_to_compare_is_refused():
    with pytest.raises(DataError, match="no pair to compare"):
        BPR().fit(pr.Interactions.from_columns([1, 2], [7, 7]))
