"""The discriminator's step against gradients by differences."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from engines.pure.cpu.reference import (
    check_discriminator,
    discriminator_loss,
    doubles,
    engine,
    random_batch,
    settings_of,
)


@pytest.mark.parametrize(
    ("scorer", "risk"), list(itertools.product(["mf", "gmf", "bilinear", "fm"], ["pu", "nnpu", "pn"]))
)
def test_discriminator_gradients(scorer: str, risk: str) -> None:
    check_discriminator(settings_of(scorer, risk=risk))


@pytest.mark.parametrize("risk", ["pu", "nnpu"])
@pytest.mark.parametrize("observed", [0.1, 0.3])
def test_gradients_with_the_stratum_of_observed_pairs(risk: str, observed: float) -> None:
    check_discriminator(settings_of("fm", risk=risk, observed=observed))


def test_the_stratified_risk_at_the_observed_share_trains_as_the_pn_risk_does() -> None:
    pu, pn = (engine(settings_of("fm", risk=risk, observed=0.3)) for risk in ("pu", "pn"))
    batch = random_batch(pu.settings, 3)
    losses = [e.step_discriminator(batch, learning_rate=0.01) for e in (pu, pn)]
    assert losses[0] == losses[1]
    for name, value in pu.state().items():
        np.testing.assert_array_equal(value, pn.state()[name])


@pytest.mark.parametrize("observed", [0.0, 0.2])
def test_the_clipped_branch_of_nnpu(observed: float) -> None:
    s = settings_of("gmf", risk="nnpu", prior=0.9, observed=observed)
    p = doubles(engine(s).parameters())

    def is_clipped(seed: int) -> bool:
        frozen: dict[str, Any] = {}
        discriminator_loss(p, s, random_batch(s, seed), frozen)
        return bool(frozen["clipped"])

    check_discriminator(s, next(seed for seed in range(100) if is_clipped(seed)))


def test_a_bias_that_is_not_trained_stays() -> None:
    s = settings_of("gmf", train_bias=False)
    e = check_discriminator(s)
    assert e.parameters()["bias"] == engine(s).parameters()["bias"]


@pytest.mark.parametrize("dims", [(5, 11), (11, 5), (8, 8), (19, 19)])
def test_dims_that_do_and_do_not_fill_the_lanes(dims: tuple[int, int]) -> None:
    check_discriminator(settings_of("bilinear", dim=dims[0], item_dim=dims[1], generators="both"))


@pytest.mark.parametrize("scorer", ["mf", "gmf", "bilinear", "fm"])
@pytest.mark.parametrize("constraint", ["none", "norm", "recolour"])
def test_discriminator_gradients_with_fakes(scorer: str, constraint: str) -> None:
    changes = {"constraint": constraint, "conditional": True, "output": "linear"}
    check_discriminator(settings_of(scorer, generators="both", **changes))
