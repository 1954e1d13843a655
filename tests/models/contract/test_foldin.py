"""A new person's vector against a general minimiser of the same risk, and what each item adds to it."""

import numpy as np
import pytest
from scipy.optimize import minimize, nnls

import purerec as pr
from purerec.engines.foldin import pointwise as kernels
from purerec.models.contract.foldin import PairwiseFolding, SquaredFolding
from purerec.models.families.foldin import LogisticFolding, PersonRisk
from purerec.models.registry import make_model
from purerec.paper.risks import LogisticRisk

HISTORY = np.array([1, 4, 7, 30, 31], dtype=np.int32)


def catalogue(n, dim, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0, 0.6, (n, dim)).astype(np.float32), rng.normal(0, 1, n).astype(np.float32)


def into_item_space(vector, relation):
    return vector if relation is None else vector * relation if relation.ndim == 1 else vector @ relation


def logistic(n, dim, *, own, relation=None, free_bias=False, kappa=1.0, by_popularity=False, prior=1e-3, shift=-7.0):
    items, bias = catalogue(n, dim)
    draw = np.exp(bias.astype(float)) if by_popularity else np.ones(n)
    draw /= draw.sum()
    weights = LogisticRisk.of("pn" if own else "pu", prior)
    risk = PersonRisk(weights, 0.1, lambda _: kappa)
    people = np.random.default_rng(1).normal(0, 0.5, (50, dim + free_bias))
    folding = LogisticFolding(
        items, bias + np.float32(shift), risk, draw=draw, people=people, relation=relation, free_bias=free_bias
    )

    def logits(e):
        return (
            items.astype(float) @ into_item_space(e[:dim], relation) + (bias + shift) + (e[dim] if free_bias else 0)
        )

    def value(e):
        """The risk of the docstring, term by term."""
        phi = logits(e)
        soft = np.logaddexp(0, phi)
        rest = np.ones(n, bool)
        rest[HISTORY] = False
        drawn = (draw * soft)[rest].sum() / draw[rest].sum()
        found = -phi[HISTORY].mean() + own * soft[HISTORY].mean() + weights.unlabeled * kappa * drawn
        return found + 0.5 * 0.1 * (1 + kappa) * e[:dim] @ e[:dim]

    return folding, value, logits


CASES = {
    "pu": {"own": 0.0},
    "pn": {"own": 1.0},
    "pn of items that are liked": {"own": 1.0, "prior": 0.3, "shift": 0.5},
    "a bias of the person": {"own": 0.0, "free_bias": True},
    "pn with a bias": {"own": 1.0, "free_bias": True},
    "gmf": {"own": 0.0, "relation": np.array([0.5, 2, -1, 1], np.float32)},
    "bilinear": {"own": 0.0, "relation": np.random.default_rng(3).normal(0, 1, (4, 4)).astype(np.float32)},
    "drawn from all pairs": {"own": 0.0, "kappa": 3.0},
    "drawn by popularity": {"own": 0.0, "by_popularity": True},
}


@pytest.mark.parametrize("n", [60, 6000], ids=["all items", "sample, then all"])
@pytest.mark.parametrize("case", CASES)
def test_logistic_minimum(case, n):
    folding, value, _ = logistic(n, 4, **CASES[case])
    found = folding.solve(HISTORY)
    best = minimize(value, np.zeros(len(found)), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(found, best.x, rtol=5e-3, atol=5e-3)
    assert value(found.astype(float)) <= best.fun + 1e-5 * abs(best.fun)


@pytest.mark.parametrize("case", [case for case in CASES if not CASES[case]["own"]])
def test_logistic_parts_of_the_pu_risk_are_its_influence_function(case):
    """How the vector moves if an item gets more weight, by finite differences."""
    folding, value, logits = logistic(60, 4, **CASES[case])
    parts = folding.parts(HISTORY, folding.vector(HISTORY))
    assert parts.shape == (len(HISTORY), 4)
    step = 1e-2

    def heavier(e, at, by):
        return value(e) - by / len(HISTORY) * logits(e)[HISTORY[at]]

    start = folding.solve(HISTORY).astype(float)
    for at in (0, 3):
        ends = [minimize(heavier, start, (at, by), method="BFGS", options={"gtol": 1e-8}).x for by in (step, -step)]
        moved = into_item_space((ends[0] - ends[1])[:4] / (2 * step), CASES[case].get("relation"))
        np.testing.assert_allclose(parts[at], moved, rtol=0.02, atol=2e-3)


def derivatives(f, at, step=1e-3):
    """Gradient and Hessian by central differences."""
    n = len(at)
    shift = step * np.eye(n)
    gradient = np.array([f(at + h) - f(at - h) for h in shift]) / (2 * step)
    corners = [[f(at + g + h) - f(at + g - h) - f(at - g + h) + f(at - g - h) for h in shift] for g in shift]
    return gradient, np.array(corners) / (4 * step**2)


@pytest.mark.parametrize("case", CASES)
def test_logistic_parts_are_those_of_newtons_method(case):
    """c_j = H^-1 (A_j e - l_j'(e)), the formula of `explaining`, with every derivative taken of the risk itself."""
    folding, value, logits = logistic(60, 4, **CASES[case])
    own, relation = CASES[case]["own"], CASES[case].get("relation")
    e = folding.solve(HISTORY).astype(float)
    parts = folding.parts(HISTORY, folding.vector(HISTORY))
    _, hessian = derivatives(value, e)
    for at, item in enumerate(HISTORY):

        def of_item(x, item=item):
            return (-logits(x)[item] + own * np.logaddexp(0, logits(x)[item])) / len(HISTORY)

        slope, curve = derivatives(of_item, e)
        expected = into_item_space(np.linalg.solve(hessian, curve @ e - slope)[:4], relation)
        np.testing.assert_allclose(parts[at], expected, rtol=0.01, atol=1e-3)


def test_squared_parts_are_the_vector():
    items, _ = catalogue(60, 4)
    folding = SquaredFolding(items, weight=lambda n: 0.05, penalty=lambda n: 0.3)
    vector = folding.vector(HISTORY)
    q = items.astype(float)
    value = lambda e: ((q[HISTORY] @ e - 1) ** 2).sum() + 0.05 * ((q @ e) ** 2).sum() + 0.3 * e @ e  # noqa: E731
    np.testing.assert_allclose(vector, minimize(value, np.zeros(4)).x, atol=1e-4)
    np.testing.assert_allclose(folding.parts(HISTORY, vector).sum(axis=0), vector, atol=1e-5)


@pytest.mark.parametrize("non_negative", [False, True])
def test_squared_minimum_with_offsets(non_negative):
    items, bias = catalogue(60, 4)
    offset = 0.1 * bias
    folding = SquaredFolding(
        items, weight=lambda n: 0.05, own_weight=lambda n: 0.95, penalty=lambda n: 0.3, offset=offset,
        own_target=1.0, free_bias=not non_negative, non_negative=non_negative,
    )  # fmt: skip
    table = items.astype(float) if non_negative else np.column_stack([items, np.ones(60)]).astype(float)
    weight, target = np.full(60, 0.05), np.zeros(60)
    weight[HISTORY], target[HISTORY] = 1, 1
    root = np.sqrt(weight)
    left = np.vstack([table * root[:, None], np.sqrt(0.3) * np.eye(table.shape[1])])
    right = np.r_[(target - offset) * root, np.zeros(table.shape[1])]
    best = nnls(left, right)[0] if non_negative else np.linalg.lstsq(left, right)[0]
    vector = folding.vector(HISTORY)
    np.testing.assert_allclose(vector, best[:4], atol=1e-4)
    if non_negative:
        assert (vector >= 0).all()


@pytest.mark.parametrize("candidates", [1, 6])
def test_pairwise_minimum(candidates):
    items, bias = catalogue(900, 5)
    folding = PairwiseFolding(items, bias, 0.02, np.random.default_rng(0), candidates=candidates)
    groups = folding._drawn.reshape(-1, candidates)

    def value(e):
        s = items.astype(float) @ e + bias
        of_groups = s[groups]
        of_groups[np.isin(groups, HISTORY)] = -np.inf
        of_groups = of_groups[of_groups.max(axis=1) > -np.inf]
        best = of_groups.max(axis=1)
        smooth = best + 0.05 * np.log(np.exp((of_groups - best[:, None]) / 0.05).sum(axis=1))
        return np.logaddexp(0, smooth[None, :] - s[HISTORY][:, None]).mean() + 0.01 * e @ e

    found = folding.vector(HISTORY)
    best = minimize(value, np.zeros(5), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(found, best.x, rtol=2e-3, atol=2e-3)
    # Every term belongs to an own item, so only the last, unfinished step is left over.
    np.testing.assert_allclose(folding.parts(HISTORY, found).sum(axis=0), found, rtol=5e-3, atol=5e-3)


def test_derivatives_of_a_pass():
    rng = np.random.default_rng(0)
    items, bias = catalogue(37, 5)
    table = kernels.make_table(items, bias, rng.random(37).astype(np.float32))
    own = kernels.Own(items[:3].copy(), bias[:3].copy(), np.float32([0.2, -0.1, 0.4]))
    pull, penalty = rng.normal(size=5), np.full(5, 0.3)
    e = rng.normal(size=5).astype(np.float32)

    def value(v):
        soft = np.logaddexp(0, items.astype(float) @ v + bias)
        return 2 * table.weight[:37] @ soft + own.change @ soft[:3] - pull @ v + 0.5 * penalty @ v**2

    sums = kernels.make_sums(5)
    assert kernels.add_up(table, own, 2.0, pull, penalty, e, sums, True) == pytest.approx(value(e), rel=1e-5)
    h = 1e-4
    for k in range(5):
        unit = np.eye(5)[k] * h
        slope = (value(e + unit) - value(e - unit)) / (2 * h)
        assert sums.gradient[k] == pytest.approx(slope, rel=1e-3, abs=1e-3)
        for j in range(k + 1):
            other = np.eye(5)[j] * h
            bent = value(e + unit + other) - value(e + unit - other) - value(e - unit + other)
            assert sums.hessian[k, j] == pytest.approx((bent + value(e - unit - other)) / (4 * h * h), abs=2e-3)


@pytest.mark.parametrize("prior", [0.05, 0.1])
@pytest.mark.parametrize("name", ["pugmf", "gmf", "bpr", "lambdafm", "ials", "svd", "pmf", "nmf"])
def test_folded_vectors_are_near_those_of_training(name, prior):
    world = pr.make_world(users=300, items=120, prior=prior, seed=0).observed
    # In the sparse world, BPR's usual L2 leaves the vectors so small that there is little to agree on.
    settings = {"regularization": 0.02} if (name, prior) == ("bpr", 0.05) else {}
    model = make_model(name, dim=4, **settings).fit(world, seed=0)
    users = np.flatnonzero(world.positives.counts >= 10)[:40]
    known = model.factors().users[users]
    found = np.stack([model.fold_in(world.positives.row(user)) for user in users])
    scores = [v @ model.factors().items.T for v in (known, found)]
    agreement = [np.corrcoef(a, b)[0, 1] for a, b in zip(*scores, strict=True)]
    assert np.mean(agreement) > 0.9


@pytest.mark.parametrize("name", ["pugmf", "gmf", "bpr", "ials", "svd"])
def test_a_history_of_everything_or_of_one(name):
    data = pr.Interactions.from_columns(np.repeat(np.arange(8), 4), (np.arange(32) * 3) % 10)
    model = make_model(name, dim=2, epochs=3).fit(data, seed=0)
    for history in (np.arange(10, dtype=np.int32), np.array([3], dtype=np.int32)):
        assert np.isfinite(model.score_history(history)).all()


@pytest.mark.parametrize(
    ("name", "settings", "unlabeled", "positive"),
    [
        ("gmf", {}, 0.95 / 0.05, 1.0),
        ("pugmf", {}, 0.6 / 0.05, 0.4 / 0.05),  # of 80 pairs 32 are observed
        ("pure", {}, 0.6 / 0.05, 0.4 / 0.05),
        ("pugmf", {"stratified": False}, 1 / 0.05, 0.0),
    ],
)
def test_a_new_persons_risk_is_the_one_of_training(name, settings, unlabeled, positive):
    data = pr.Interactions.from_columns(np.repeat(np.arange(8), 4), (np.arange(32) * 3) % 10)
    model = make_model(name, dim=2, epochs=1, prior=0.05, regularization=0.3, **settings).fit(data, seed=0)
    risk = model._folding()._risk
    assert (risk.weights.unlabeled, risk.weights.positive) == pytest.approx((unlabeled, positive))
    assert risk.regularization == 0.3
    assert risk.kappa(3) == 1
    model = make_model(name, dim=2, epochs=1, unlabeled="global").fit(data, seed=0)
    # of 80 pairs 48 are unobserved, 7 of them of a person with 3 of 10 items, who has 3 of 32 positives
    assert model._folding()._risk.kappa(3) == pytest.approx((7 / 48) / (3 / 32))


def test_a_network_refuses_in_words():
    pytest.importorskip("torch")
    data = pr.Interactions.from_columns(np.repeat(np.arange(8), 4), (np.arange(32) * 3) % 10)
    model = make_model("pugmf", dim=2, epochs=1, scorer="mlp").fit(data, seed=0)
    with pytest.raises(pr.PurerecError, match="use fm"):
        model.recommend_for([1, 2])
