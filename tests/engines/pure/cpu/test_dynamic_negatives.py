"""Dynamic negatives in both engines: the same candidates give the same choice, and the distribution is the rule's."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare

from conftest import need
from engines.pure.sources import source_of
from purerec.engines.pure.cpu.dynamic_negatives import choose_unlabeled
from purerec.engines.pure.cpu.engine import CpuEngine
from purerec.engines.pure.spec import GameSettings
from purerec.errors import ConfigError
from purerec.jit.counter_rng import splitmix64
from purerec.sampling.draws import draw_items, draw_popular_items
from purerec.sampling.dynamic import Negatives, chosen_places

N_USERS, N_ITEMS = 40, 25
SCORES = np.array([0.3, 1.1, -0.4, 0.0, 0.8], dtype=np.float32)
"""Scores of the items in a small world in which item 0 is everybody's positive."""


def positives() -> tuple[np.ndarray, np.ndarray]:
    seen = np.random.default_rng(0).random((N_USERS, N_ITEMS)) < 0.2
    return np.concatenate([[0], np.cumsum(seen.sum(1))]), np.nonzero(seen)[1].astype(np.int32)


def start_of(settings: GameSettings) -> dict[str, np.ndarray]:
    rng, engine = np.random.default_rng(7), CpuEngine(source_of(*positives(), N_ITEMS), settings, seed=0)
    return {name: rng.normal(0, 0.7, p.shape).astype(np.float32) for name, p in engine.parameters().items()}


def cpu_choice(settings: GameSettings, params: dict[str, np.ndarray], user: np.ndarray, item: np.ndarray):
    """The items that the kernel chooses, the candidates it had, and the levels of its random choice."""
    engine = CpuEngine(source_of(*positives(), N_ITEMS), settings, seed=1, params=params)
    memory, tables, more = engine._memory, engine._sampler.tables, settings.candidates - 1
    keys, counter = (np.uint64(11), np.uint64(12)), np.uint64(1000)
    draw = draw_popular_items if settings.unlabeled == "popularity" else draw_items
    others = np.empty(len(user) * more, np.int32)
    draw(tables, np.repeat(user, more), others.size, keys[0], counter * np.uint64(more), others)
    x = np.array([float(splitmix64(keys[1], counter + np.uint64(k)) >> np.uint64(11)) for k in range(len(user))])
    chosen = item.copy()
    choose_unlabeled(
        tables, memory.model, engine._kernel_settings, memory.choice, user, chosen, len(user), *keys, counter
    )
    return chosen, np.column_stack([item, others.reshape(-1, more)]), x / 2.0**53


@pytest.mark.parametrize("unlabeled", ["per_user", "popularity", "global"])
@pytest.mark.parametrize("negatives", ["dns", "drns"])
@pytest.mark.parametrize("scorer", ["mf", "gmf", "fm", "bilinear"])
def test_engines_choose_alike(scorer: str, negatives: Negatives, unlabeled: str) -> None:
    need("torch")
    from purerec.engines.pure.torch.engine import TorchEngine

    wider = {"item_dim": 11} if scorer == "bilinear" else {}
    settings = replace(
        GameSettings(dim=5, unlabeled_per_epoch=10, candidates=6), scorer=scorer, negatives=negatives,
        unlabeled=unlabeled, **wider,
    )  # fmt: skip
    params = start_of(settings)
    torch_engine = TorchEngine(source_of(*positives(), N_ITEMS), settings, seed=1, params=params)
    user, item = torch_engine._batches.sampler.pairs(300, seed=3)  # more than the kernel's blocks
    chosen, candidates, x = cpu_choice(settings, params, user, item)
    phi = torch_engine._phi(np.repeat(user, 6), candidates.ravel()).reshape(-1, 6)
    expected = candidates[np.arange(300), chosen_places(phi, negatives, x)]
    assert (chosen != item).mean() > 0.5
    np.testing.assert_array_equal(chosen, expected)


@pytest.mark.parametrize("negatives", ["dns", "drns"])
@pytest.mark.parametrize("engine", ["cpu", "torch"])
def test_one_candidate_is_uniform_to_the_bit(engine: str, negatives: Negatives) -> None:
    found = []
    for rule in ("uniform", negatives):
        settings = GameSettings(dim=4, batch_size=30, unlabeled_per_epoch=200, negatives=rule, candidates=1)
        trained = new_engine(engine, positives(), N_ITEMS, settings)
        trained.train_discriminator(learning_rate=0.05)
        found.append(trained.parameters()["item"])
    np.testing.assert_array_equal(*found)


def new_engine(name: str, data, n_items: int, settings: GameSettings, **more):
    if name == "cpu":
        return CpuEngine(source_of(*data, n_items), settings, seed=4, **more)
    need("torch")
    from purerec.engines.pure.torch.engine import TorchEngine

    return TorchEngine(source_of(*data, n_items), settings, seed=4, **more)


def expected_shares(negatives: Negatives, candidates: int) -> np.ndarray:
    """(4,) how often items 1 to 4 are chosen, by enumerating all lists of candidates."""
    found = np.zeros(5)
    for items in itertools.product(range(1, 5), repeat=candidates):
        scores = SCORES[list(items)].astype(float)
        weight = np.exp(scores) if negatives == "drns" else np.eye(candidates)[np.argmax(scores)]
        np.add.at(found, list(items), weight / weight.sum() / 4**candidates)
    return found[1:]


@pytest.mark.parametrize("unlabeled", ["per_user", "global"])
@pytest.mark.parametrize("negatives", ["dns", "drns"])
@pytest.mark.parametrize("engine", ["cpu", "torch"])
def test_an_epoch_has_the_distribution_of_the_rule(engine: str, negatives: Negatives, unlabeled: str) -> None:
    n = 8_000
    data = np.arange(n + 1), np.zeros(n, np.int32)
    settings = GameSettings(
        dim=2, scorer="fm", prior=0.1, batch_size=n, unlabeled_per_epoch=n, negatives=negatives, candidates=3,
        unlabeled=unlabeled,
    )  # fmt: skip
    params = {"user": np.zeros((n, 2)), "item": np.zeros((5, 2)), "item_bias": SCORES, "user_bias": np.zeros(n)}
    params = {name: value.astype(np.float32) for name, value in params.items()} | {"bias": np.zeros(1, np.float32)}
    trained = new_engine(engine, data, 5, settings, params=params)
    trained.train_discriminator(learning_rate=1e-6)
    # Adam's first moment is a tenth of the gradient, to which each unlabeled pair gives D / (n * prior).
    gradient = trained.state()["item_bias/m"].astype(float)[1:] / 0.1
    counts = gradient * n * 0.1 * (1 + np.exp(-SCORES[1:].astype(float)))
    assert counts.sum() == pytest.approx(n, rel=1e-3)
    assert chisquare(counts, expected_shares(negatives, 3) * counts.sum()).pvalue > 1e-3


def test_the_levels_of_the_choice_are_shares_of_the_mass() -> None:
    scores = np.log(np.array([[1.0, 2.0, 5.0]] * 4, dtype=np.float32))
    assert chosen_places(scores, "drns", np.array([0.0, 0.124, 0.126, 0.999])).tolist() == [0, 0, 1, 2]
    assert chosen_places(scores, "dns", np.zeros(4)).tolist() == [2] * 4
    assert chosen_places(scores, "uniform", np.zeros(4)).tolist() == [0] * 4


def test_users_who_have_touched_everything_are_left_out() -> None:
    seen = np.ones((3, 6), bool)
    seen[1, 2:] = False
    data = np.concatenate([[0], np.cumsum(seen.sum(1))]), np.nonzero(seen)[1].astype(np.int32)
    settings = GameSettings(dim=3, batch_size=4, unlabeled_per_epoch=60, negatives="dns", candidates=4)
    stats = CpuEngine(source_of(*data, 6), settings, seed=0, threads=2).train_discriminator(learning_rate=0.1)
    assert np.isfinite(stats.loss)


def test_no_candidates_are_refused() -> None:
    with pytest.raises(ConfigError, match="candidates"):
        CpuEngine(source_of(*positives(), N_ITEMS), GameSettings(negatives="dns", candidates=0), seed=0)
