"""Embeddings in fewer dimensions."""

from __future__ import annotations

import numpy as np
import pytest

from purerec.models.families.scorers import Narrowing, narrowed


@pytest.fixture
def sides():
    rng = np.random.default_rng(0)
    return rng.normal(size=(50, 12)).astype(np.float32), 3 * rng.normal(size=(40, 12)).astype(np.float32)


@pytest.mark.parametrize("width", [1, 5, 12])
def test_the_product_is_the_best_approximation_of_this_rank(sides, width):
    users, items = sides
    left, values, right = np.linalg.svd(users @ items.T)
    best = (left[:, :width] * values[:width]) @ right[:width]
    found = Narrowing(*sides).factors(width)
    np.testing.assert_allclose(found.users @ found.items.T, best, atol=1e-4)
    assert found.users.shape == (50, width)
    assert found.users.dtype == found.items.dtype == np.float32


def test_the_ratio_of_lengths_is_kept(sides):
    found = Narrowing(*sides).factors(5)
    lengths = [np.linalg.norm(side) for side in (*sides, found.users, found.items)]
    assert lengths[2] / lengths[3] == pytest.approx(lengths[0] / lengths[1], rel=1e-5)


def test_dimensions_that_are_empty_do_not_count(sides):
    users, items = (np.concatenate([side[:, :3], np.zeros_like(side)], axis=1) for side in sides)
    assert Narrowing(users, items).rank == 3
    assert Narrowing(np.zeros_like(users), items).rank == 0
    nothing = narrowed({"user": np.zeros_like(users), "item": items, "bias": np.zeros(1, np.float32)}, 4)
    assert nothing["user"].shape[1] == nothing["item"].shape[1] == 1  # which is still empty
    assert not nothing["user"].any()


def test_parameters_of_this_width_are_left_alone(sides):
    """Even if some dimensions are empty, as with fewer items than dimensions."""
    params = {"user": sides[0], "item": sides[1][:3], "bias": np.zeros(1, np.float32)}
    assert narrowed(params, 12) is params


@pytest.mark.parametrize("conditional", [True, False])
@pytest.mark.parametrize("side", ["user", "item"])
def test_a_generator_still_makes_the_same_fakes(sides, side, conditional):
    """As far as the narrower embeddings can tell: in their space, for the same hidden units."""
    users, items = sides
    rng = np.random.default_rng(1)
    shapes = {"w1": (7, 24 if conditional else 12), "b1": (7,), "w2": (12, 7), "b2": (12,)}
    weights = {f"{side}_gen.{name}": rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    # All of the product in eight dimensions, so that nothing is lost by keeping eight.
    users = users @ np.diag([1] * 8 + [0] * 4).astype(np.float32)
    items = items @ np.diag([1] * 8 + [0] * 4).astype(np.float32)
    found = narrowed({"user": users, "item": items, "bias": np.zeros(1, np.float32), **weights}, 8)
    assert found[f"{side}_gen.w1"].shape == (7, 16 if conditional else 8)
    own, others = ("user", "item") if side == "user" else ("item", "user")
    old, new = ({"user": users, "item": items}, found)

    def outputs(params, weights, dim):
        hidden = weights[f"{side}_gen.b1"]
        if conditional:
            hidden = hidden + params[others] @ weights[f"{side}_gen.w1"][:, dim:].T
        fakes = np.maximum(hidden, 0) @ weights[f"{side}_gen.w2"].T + weights[f"{side}_gen.b2"]
        return np.atleast_2d(fakes) @ params[others].T  # what D sees: products with the other side

    np.testing.assert_allclose(outputs(new, new, 8), outputs(old, weights, 12), rtol=1e-3, atol=1e-2)
    noise, before = found[f"{side}_gen.w1"][:, :8], weights[f"{side}_gen.w1"][:, :12]
    np.testing.assert_allclose(noise @ noise.T, before @ before.T, atol=1e-4)  # the same noise reaches the units
    assert own in found
