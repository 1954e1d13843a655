"""What the torch engine reports about an epoch: sums over its steps, and their means."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from purerec.engines.pure.spec import EpochStats
from purerec.engines.pure.torch.modules import Pairs


class Step(NamedTuple):
    """What the statistics of an epoch sum up; tensors, so that no step waits for a GPU."""

    loss: Tensor
    sums: Tensor
    """(4,) of D on positives, on unlabeled pairs, on fakes, and of the fakes' norms."""
    counts: tuple[int, int, int]

    @classmethod
    @torch.no_grad()
    def of(cls, loss: Tensor, d_p: Tensor, d_u: Tensor, phi_fakes: list[Tensor], fakes: list[Pairs]) -> Step:
        phi_f = torch.cat([d_p[:0], *phi_fakes])
        norms = [(pairs.e_i if pairs.item_idx is None else pairs.e_u).norm(dim=1) for pairs in fakes]
        parts = (d_p, d_u, phi_f.sigmoid(), torch.cat([d_p[:0], *norms]))
        counts = (len(d_p), len(d_u), len(phi_f))
        return cls(loss.detach(), torch.stack([part.sum() for part in parts]), counts)


def means(steps: list[Step]) -> EpochStats:
    if not steps:
        return EpochStats(math.nan, math.nan, math.nan, math.nan, math.nan, samples=0)
    n_p, n_u, n_f = (sum(counts) for counts in zip(*(step.counts for step in steps), strict=True))
    d_p, d_u, d_f, norm = torch.stack([step.sums for step in steps]).double().sum(0).tolist()

    def over(total: float, n: int) -> float:
        return total / n if n else math.nan

    return EpochStats(
        loss=torch.stack([step.loss for step in steps]).double().mean().item(),
        d_positive=over(d_p, n_p),
        d_unlabeled=over(d_u, n_u),
        d_fake=over(d_f, n_f),
        fake_norm=over(norm, n_f),
        samples=n_p + n_u + n_f,
    )
