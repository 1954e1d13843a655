"""What the torch engine reports about an epoch: sums over its steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from purerec.engines.pure import spec
from purerec.engines.pure.torch.modules import Pairs
from purerec.types import F64


class Step(NamedTuple):
    """What one step adds to the statistics of an epoch; tensors, so that no step waits for a GPU."""

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


def sums_of(steps: list[Step]) -> F64:
    """(N_SUMS,) sums over the steps of an epoch; the loss includes its penalty."""
    sums = np.zeros(spec.N_SUMS)
    if steps:
        sums[spec.LOSS] = torch.stack([step.loss for step in steps]).double().sum().item()
        totals = torch.stack([step.sums for step in steps]).double().sum(0).tolist()
        sums[[spec.D_POSITIVE, spec.D_UNLABELED, spec.D_FAKE, spec.FAKE_NORM]] = totals
        sums[[spec.N_POSITIVE, spec.N_UNLABELED, spec.N_FAKES]] = np.sum([step.counts for step in steps], axis=0)
    sums[spec.N_STEPS] = len(steps)
    return sums
