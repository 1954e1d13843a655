"""The generators in numpy compared with the trainable ones of the torch engine."""

import numpy as np
import pytest

from conftest import need
from purerec.engines.pure.spec import GameSettings, initial_parameters
from purerec.paper.generators import generate
from purerec.rng import named_rng

need("torch")
N_USERS, N_ITEMS, DIM, N = 30, 20, 4, 12


@pytest.mark.parametrize("constraint", ["none", "norm", "recolour"])
@pytest.mark.parametrize("side", ["user", "item"])
def test_as_the_torch_engine_makes_them(side, constraint):
    import torch

    from purerec.engines.pure.torch import modules

    rng = np.random.default_rng(0)
    settings = GameSettings(
        dim=DIM, scorer="mf", generators="both", hidden=8, conditional=True, output="linear", noise=1
    )
    params = initial_parameters(N_USERS, N_ITEMS, settings, named_rng(1, "init"))
    noise = rng.standard_normal((N, DIM)).astype(np.float32)
    condition = params["item" if side == "user" else "user"][:N]
    weight = rng.integers(1, 9, len(params[side]))
    net = modules.new_generators(settings)[f"{side}_gen"]
    net.load_state_dict({part: torch.tensor(params[f"{side}_gen.{part}"]) for part in ("w1", "b1", "w2", "b2")})
    expected = net(torch.tensor(np.concatenate([noise, condition], axis=1)))
    if constraint != "none":
        real = modules.real_side(torch.tensor(params[side]), torch.tensor(weight, dtype=torch.float64))
        expected = modules.CONSTRAINTS[constraint](expected, real)
    found = generate(params, side, noise, condition, output="linear", constraint=constraint, weight=weight)
    np.testing.assert_allclose(found, expected.detach().numpy(), atol=2e-5)


def test_relu_gives_nothing_negative():
    settings = GameSettings(dim=DIM, scorer="mf", generators="item", hidden=8)
    params = initial_parameters(N_USERS, N_ITEMS, settings, named_rng(1, "init"))
    assert generate(params, "item", np.ones((3, DIM), np.float32), output="relu").min() >= 0
