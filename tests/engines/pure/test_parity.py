"""The two engines agree: the same parameters and the same batch give the same loss and the same update.

Adam's first steps use little more than the sign of a gradient, which would hide a wrong size and magnify a
rounding error at zero. So most comparisons use a large epsilon, where an update is close to the gradient itself, and
one uses the usual epsilon.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from conftest import need

need("torch")

from engines.pure.phi import scores
from engines.pure.sources import source_of
from purerec.engines.pure.cpu.engine import CpuEngine
from purerec.engines.pure.spec import Batch, Engine, GameSettings, Params, initial_parameters
from purerec.engines.pure.torch.engine import TorchEngine
from purerec.errors import DataError
from purerec.paper import risks
from purerec.rng import named_rng

N_USERS, N_ITEMS = 40, 25
LEARNING_RATE = 0.05
BASE = GameSettings(
    dim=5,
    prior=0.05,
    regularization=0.2,
    epsilon=1.0,
    hidden=14,  # more than any dim below: recolouring a singular covariance magnifies rounding a thousandfold
    noise=0.7,
    fake_weight=0.4,
    unlabeled_per_epoch=200,
)
SCORERS = [
    {"scorer": "mf"},
    {"scorer": "gmf"},
    {"scorer": "fm"},
    {"scorer": "bilinear", "item_dim": 3},
    {"scorer": "bilinear", "dim": 3, "item_dim": 11},
]


def positives() -> tuple[np.ndarray, np.ndarray]:
    seen = np.random.default_rng(0).random((N_USERS, N_ITEMS)) < 0.2
    seen[0] = False  # a user and an item without weight
    seen[:, 1] = False
    return np.concatenate([[0], np.cumsum(seen.sum(1))]), np.nonzero(seen)[1].astype(np.int32)


def start_of(settings: GameSettings) -> Params:
    """Parameters around one half in size, and most generator units alive: gradients well away from zero."""
    start = initial_parameters(N_USERS, N_ITEMS, settings, named_rng(0, "init"))
    rng = np.random.default_rng(7)
    shapes = {name: value.shape for name, value in start.items()}
    params = {name: rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    alive = {name: np.abs(value) for name, value in params.items() if name.endswith((".b1", ".b2"))}
    return params | alive | {"bias": np.array([-1.0], dtype=np.float32)}


def engines_of(settings: GameSettings) -> tuple[Engine, Engine]:
    indptr, indices = positives()
    params = start_of(settings)
    return (
        CpuEngine(source_of(indptr, indices, N_ITEMS), settings, seed=0, params=params),
        TorchEngine(source_of(indptr, indices, N_ITEMS), settings, seed=0, params=params, device="cpu"),
    )


def batch_of(settings: GameSettings, seed: int, n_p: int = 19, n_u: int = 30, n_fakes: int = 27) -> Batch:
    rng = np.random.default_rng(100 + seed)

    def noise(side: str, dim: int) -> np.ndarray:
        n = n_fakes if settings.generators in (side, "both") else 0
        return rng.normal(0, settings.noise, (n, dim)).astype(np.float32)

    return Batch(
        rng.integers(N_USERS, size=n_p).astype(np.int32),
        rng.integers(N_ITEMS, size=n_p).astype(np.int32),
        rng.integers(N_USERS, size=n_u).astype(np.int32),
        rng.integers(N_ITEMS, size=n_u).astype(np.int32),
        noise("item", settings.dim_i),
        noise("user", settings.dim),
    )


def assert_same_state(cpu: Engine, reference: Engine, *, atol: float = 2e-6) -> None:
    """Parameters, and Adam's moments, of which the first after one step is the gradient times 1 - beta1."""
    ours, theirs = cpu.state(), reference.state()
    assert cpu.parameters().keys() == reference.parameters().keys()
    for name in reference.parameters():
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-5, atol=atol, err_msg=name, strict=True)
        for moment in (f"{name}/m", f"{name}/v"):
            if moment in theirs:
                # A gradient is a sum of terms that may cancel: rounding errors are as large as the largest ones'.
                largest = float(np.abs(theirs[moment]).max())
                np.testing.assert_allclose(
                    ours[moment], theirs[moment], rtol=1e-4, atol=1e-5 * largest, err_msg=moment, strict=True
                )


def assert_parity(settings: GameSettings, *, generators: bool = False, steps: int = 3) -> None:
    cpu, reference = engines_of(settings)
    start = start_of(settings)
    # Where a gradient cancels to almost nothing, the usual epsilon lets Adam magnify its rounding error.
    atol = 2e-6 if settings.epsilon == 1.0 else 1e-3 * LEARNING_RATE
    for step in range(steps):
        batch = batch_of(settings, step)
        losses = [engine.step_discriminator(batch, learning_rate=LEARNING_RATE) for engine in (cpu, reference)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
        assert_same_state(cpu, reference, atol=atol)
        if generators:
            batch = batch_of(settings, 50 + step)
            losses = [engine.step_generators(batch, learning_rate=LEARNING_RATE) for engine in (cpu, reference)]
            assert losses[0] == pytest.approx(losses[1], rel=1e-5)
            assert_same_state(cpu, reference, atol=atol)
    # Something must have moved, or the comparison means nothing.
    moved = reference.parameters()
    for name in start.keys() - {"bias" if not settings.train_bias else ""}:
        if generators or "_gen." not in name:
            assert np.abs(moved[name] - start[name]).max() > 1e-5, name


def name_of(changes: dict[str, object]) -> str:
    return "-".join(str(value) for value in changes.values())


@pytest.mark.parametrize("scorer", SCORERS, ids=name_of)
@pytest.mark.parametrize("risk", ["pu", "nnpu", "pn"])
@pytest.mark.parametrize("epsilon", [1.0, 1e-8])
def test_every_risk_and_scorer(scorer: dict[str, object], risk: str, epsilon: float) -> None:
    assert_parity(replace(BASE, risk=risk, epsilon=epsilon, **scorer))  # type: ignore[arg-type]


@pytest.mark.parametrize("risk", ["pu", "nnpu"])
def test_the_stratum_of_observed_pairs(risk: str) -> None:
    assert_parity(replace(BASE, risk=risk, observed=0.02, scorer="fm", epsilon=1.0))  # type: ignore[arg-type]


def drawn_for(batch: Batch, n_p: int) -> Batch:
    """The first positives of a batch, and its draws as those of their users, round by round."""
    users = batch.pos_user[:n_p]
    return replace(batch, pos_user=users, pos_item=batch.pos_item[:n_p], unl_user=np.resize(users, 30))


SOFTMAX = replace(BASE, risk="softmax", observed=0.02, temperature=0.7)


@pytest.mark.parametrize("scorer", SCORERS, ids=name_of)
@pytest.mark.parametrize("changes", [{}, {"observed": 0.0}, {"generators": "both", "output": "linear"}], ids=name_of)
def test_a_prior_per_user(scorer: dict[str, object], changes: dict[str, object]) -> None:
    """Loss, gradients and update, for groups of draws that are complete, incomplete, and wider than eight."""
    settings = replace(SOFTMAX, **scorer, **changes)  # type: ignore[arg-type]
    cpu, reference = engines_of(settings)
    start = start_of(settings)
    for step, n_p in enumerate((19, 10, 3, 16, 1)):
        batch = drawn_for(batch_of(settings, step), n_p)
        losses = [engine.step_discriminator(batch, learning_rate=LEARNING_RATE) for engine in (cpu, reference)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5, abs=1e-6)
        assert_same_state(cpu, reference)
    moved = reference.parameters()
    for name in ("user", "item"):
        assert np.abs(moved[name] - start[name]).max() > 1e-5
    for name in {"bias", "user_bias"} & start.keys():  # the risk does not depend on them
        np.testing.assert_array_equal(moved[name], start[name])


def test_the_loss_of_a_prior_per_user_is_that_of_the_equations() -> None:
    settings = replace(SOFTMAX, regularization=0.0)
    batch = drawn_for(batch_of(settings, 0), 7)
    assert settings.softmax is not None
    for engine in engines_of(settings):
        reference = engines_of(settings)[1]
        phi_p = logits(reference, batch.pos_user, batch.pos_item)
        expected = settings.softmax.value(phi_p, logits(reference, batch.unl_user, batch.unl_item))
        assert engine.step_discriminator(batch, learning_rate=LEARNING_RATE) == pytest.approx(expected, rel=1e-5)


def test_a_temperature_is_a_factor_of_the_l2() -> None:
    """Vectors times sqrt(T), and an L2 of lambda at T: the same risk as an L2 of lambda T at a temperature of 1."""
    temperature = 0.3
    warm = replace(SOFTMAX, scorer="mf", temperature=temperature, regularization=0.5)
    cool = replace(warm, temperature=1.0, regularization=0.5 * temperature)
    start, batch = start_of(warm), drawn_for(batch_of(warm, 0), 10)
    longer = {name: value * np.float32(temperature**0.5) for name, value in start.items()}
    losses = [
        CpuEngine(source_of(*positives(), N_ITEMS), settings, seed=0, params=params).step_discriminator(
            batch, learning_rate=LEARNING_RATE
        )
        for settings, params in ((warm, longer), (cool, start))
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_draws_of_other_users_are_refused() -> None:
    for engine in engines_of(SOFTMAX):
        with pytest.raises(DataError, match="positive k modulo"):
            engine.step_discriminator(batch_of(SOFTMAX, 0), learning_rate=LEARNING_RATE)


@pytest.mark.parametrize("scorer", SCORERS, ids=name_of)
def test_the_corrected_step_of_nnpu(scorer: dict[str, object]) -> None:
    settings = replace(BASE, risk="nnpu", prior=0.97, **scorer)  # type: ignore[arg-type]
    cpu, reference = engines_of(settings)
    corrected = 0
    for seed in range(12):
        batch = batch_of(settings, seed)
        phi_p, phi_u = (
            logits(reference, batch.pos_user, batch.pos_item),
            logits(reference, batch.unl_user, batch.unl_item),
        )
        corrected += risks.negative_risk(phi_p, phi_u, settings.prior) < 0
        losses = [engine.step_discriminator(batch, learning_rate=LEARNING_RATE) for engine in (cpu, reference)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5, abs=1e-6)
        assert_same_state(cpu, reference)
    assert corrected > 0


def logits(engine: Engine, user: np.ndarray, item: np.ndarray) -> np.ndarray:
    assert isinstance(engine, TorchEngine)
    return scores(engine, user)[np.arange(len(user)), item]


GENERATORS = list(
    product(
        ["item", "user", "both"],
        [False, True],
        ["relu", "linear"],
        ["none", "norm", "recolour"],
        ["nonsaturating", "saturating"],
    )
)


@pytest.mark.parametrize(("sides", "conditional", "output", "constraint", "loss"), GENERATORS)
def test_every_generator(sides: str, conditional: bool, output: str, constraint: str, loss: str) -> None:
    settings = replace(
        BASE,
        generators=sides,  # type: ignore[arg-type]
        conditional=conditional,
        output=output,  # type: ignore[arg-type]
        constraint=constraint,  # type: ignore[arg-type]
        generator_loss=loss,  # type: ignore[arg-type]
    )
    assert_parity(settings, generators=True)


@pytest.mark.parametrize("scorer", SCORERS, ids=name_of)
@pytest.mark.parametrize("risk", ["pu", "nnpu", "pn"])
@pytest.mark.parametrize("constraint", ["none", "recolour"])
def test_generators_with_every_risk_and_scorer(scorer: dict[str, object], risk: str, constraint: str) -> None:
    settings = replace(BASE, risk=risk, constraint=constraint, **scorer)  # type: ignore[arg-type]
    assert_parity(replace(settings, generators="both", conditional=True, output="linear"), generators=True)


@pytest.mark.parametrize("epsilon", [1.0, 1e-8])
def test_the_bias_may_be_held(epsilon: float) -> None:
    assert_parity(replace(BASE, train_bias=False, epsilon=epsilon))


def test_at_the_start_of_real_training() -> None:
    """The paper's numbers: prior 1e-4, bias at its logit, small embeddings, Adam's usual epsilon."""
    settings = GameSettings(dim=5, prior=1e-4, generators="both", noise=0.01)
    indptr, indices = positives()
    cpu = CpuEngine(source_of(indptr, indices, N_ITEMS), settings, seed=3)
    reference = TorchEngine(source_of(indptr, indices, N_ITEMS), settings, seed=3, device="cpu")
    assert_same_state(cpu, reference)  # the same seed gives both the same start
    for step in range(3):
        batch = batch_of(settings, step)
        losses = [engine.step_discriminator(batch, learning_rate=1e-3) for engine in (cpu, reference)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
        assert_same_state(cpu, reference)


def test_large_logits() -> None:
    """Scores of several hundred on both sides of zero: neither engine may overflow."""
    settings = replace(BASE, scorer="mf", regularization=0.0)
    indptr, indices = positives()
    params = {name: value * 20 for name, value in start_of(settings).items()}
    cpu = CpuEngine(source_of(indptr, indices, N_ITEMS), settings, seed=0, params=params)
    reference = TorchEngine(source_of(indptr, indices, N_ITEMS), settings, seed=0, params=params, device="cpu")
    batch = batch_of(settings, 0)
    losses = [engine.step_discriminator(batch, learning_rate=LEARNING_RATE) for engine in (cpu, reference)]
    assert np.isfinite(losses).all()
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert_same_state(cpu, reference)


@pytest.mark.parametrize(("unlabeled", "risk"), [("per_user", "pu"), ("global", "pu"), ("popularity", "pu"),
                                                  ("per_user", "softmax")])  # fmt: skip
def test_whole_epochs_agree_in_distribution(unlabeled: str, risk: str) -> None:
    """The two draw different numbers, so epochs are compared by their totals, not bit by bit."""
    settings = GameSettings(
        dim=4, risk=risk, prior=0.02, unlabeled=unlabeled, unlabeled_per_epoch=800, batch_size=32, generators="both",  # type: ignore[arg-type]
        constraint="norm", output="linear", noise=0.5, fake_weight=0.1,
    )  # fmt: skip
    indptr, indices = positives()
    results = []
    for engine in (
        CpuEngine(source_of(indptr, indices, N_ITEMS), settings, seed=0),
        TorchEngine(source_of(indptr, indices, N_ITEMS), settings, seed=0, device="cpu"),
    ):
        for _ in range(20):
            stats = engine.train_discriminator(learning_rate=5e-3)
            engine.train_generators(learning_rate=5e-3, steps=5)
        results.append(stats)
    ours, theirs = results
    assert ours.samples == theirs.samples
    assert ours.loss == pytest.approx(theirs.loss, rel=0.1)
    assert ours.d_positive == pytest.approx(theirs.d_positive, rel=0.2)
    assert ours.d_unlabeled == pytest.approx(theirs.d_unlabeled, rel=0.2)
    assert ours.fake_norm == pytest.approx(theirs.fake_norm, rel=0.3)
