"""Adam on some rows: on all rows it equals torch's, on some the others stay; its state can be resumed."""

import numpy as np

from conftest import need

need("torch")
import torch

from purerec.engines.row_adam import RowAdam


def start():
    draws = torch.Generator().manual_seed(0)
    return {"wide": torch.randn(6, 3, generator=draws), "bias": torch.randn(3, generator=draws)}


def loss(w):
    return ((w["wide"] ** 2).sum(1) * torch.arange(1, len(w["wide"]) + 1)).sum() + (w["bias"] ** 4).sum()


def test_on_all_rows_it_is_adam():
    ours, theirs = RowAdam(start(), ["wide"], regularization=0.1), start()
    for weight in theirs.values():
        weight.requires_grad_()
    adam = torch.optim.Adam(list(theirs.values()), lr=0.05, weight_decay=0.1)
    for _ in range(20):
        taken = ours.take()
        ours.step(loss(taken), taken, None, 0.05)
        adam.zero_grad()
        loss(theirs).backward()
        adam.step()
    for name, weight in ours.weights.items():
        np.testing.assert_allclose(weight.numpy(), theirs[name].detach().numpy(), rtol=1e-5)


def test_rows_that_are_not_taken_stay():
    ours, before = RowAdam(start(), ["wide"], regularization=0.1), start()
    some = torch.tensor([1, 4])
    for _ in range(3):
        taken = ours.take(some)
        ours.step(loss(taken), taken, some, 0.05)
    moved = (ours.weights["wide"] != before["wide"]).any(1)
    assert moved.tolist() == [False, True, False, False, True, False]
    assert (ours.weights["bias"] != before["bias"]).all()
    state = ours.state()
    assert (state["wide.exp_avg"][[0, 2, 3, 5]] == 0).all()
    assert (state["wide.exp_avg"][[1, 4]] != 0).all()


def test_rows_are_moved_as_if_they_were_alone():
    some = torch.tensor([1, 4])
    part = RowAdam(start(), ["wide"], regularization=0.0)
    alone = RowAdam({"wide": start()["wide"][some]}, ["wide"], regularization=0.0)
    for _ in range(5):
        taken, own = part.take(some), alone.take()
        part.step((taken["wide"] ** 2).sum() + taken["bias"].sum(), taken, some, 0.05)
        alone.step((own["wide"] ** 2).sum(), own, None, 0.05)
    np.testing.assert_array_equal(part.weights["wide"][some].numpy(), alone.weights["wide"].numpy())


def test_a_state_is_all_there_is():
    def steps(adam, n):
        for k in range(n):
            some = torch.tensor([k % 6, (k + 2) % 6]).sort().values
            taken = adam.take(some)
            adam.step(loss(taken), taken, some, 0.05)
        return adam

    half = steps(RowAdam(start(), ["wide"], regularization=0.1), 6)
    kept, other = half.state(), RowAdam({k: w * 0 for k, w in start().items()}, ["wide"], regularization=0.1)
    steps(half, 6)
    other.restore(kept)
    steps(other, 6)
    for name, array in half.state().items():
        np.testing.assert_array_equal(other.state()[name], array)
