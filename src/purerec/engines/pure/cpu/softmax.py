"""The softmax risk, compiled: each pair's share of its positive's sum of exponentials. See `SoftmaxRisk`."""

from __future__ import annotations

import math

import numpy as np

from purerec.engines.pure.cpu.kernels import KernelSettings
from purerec.jit.decorator import Scalar, kernel
from purerec.jit.simd import LANES, exp_negative, first_lanes, load, log_positive, splat, store, total, where_positive
from purerec.types import F32

_ZERO, _NEVER = np.float32(0.0), np.float32(-1e30)


@kernel(inner=True)
def share_out(
    phi: F32, sigma: F32, c: KernelSettings, n_pos: Scalar, unl: Scalar, n_unl: Scalar
) -> tuple[Scalar, Scalar, Scalar]:
    """Put the shares of positives (from 0) and draws (from `unl`) in sigma; return sums of losses and both shares.

    Draw k belongs to positive k modulo n_pos, so draws come in rounds of one for each positive. Eight positives are
    processed at a time, round by round. The last round may be incomplete. n_unl >= n_pos.
    """
    per_degree = np.float32(1.0 / c.temperature)
    rounds = n_unl // max(n_pos, 1)
    extra = n_unl - rounds * n_pos
    log_own = np.float32(math.log(c.observed)) if c.observed > 0.0 else _NEVER
    log_few = np.float32(math.log((1.0 - c.observed) / max(rounds, 1)))
    log_more = np.float32(math.log((1.0 - c.observed) / (rounds + 1)))
    losses, own_shares, draw_shares = splat(_ZERO), splat(_ZERO), splat(_ZERO)
    nothing, never = splat(_ZERO), splat(_NEVER)
    for k in range(0, n_pos, LANES):
        here, has_more = first_lanes(n_pos - k), first_lanes(extra - k)
        log_weight = where_positive(has_more, splat(log_more), splat(log_few))
        x_own = load(phi, k) * per_degree
        own = x_own + log_own
        highest = own
        for at in range(unl + k, unl + k + rounds * n_pos, n_pos):
            x = load(phi, at) * per_degree + log_weight
            highest = where_positive(x - highest, x, highest)
        last = unl + k + rounds * n_pos
        x_last = never
        if extra > k:
            x_last = where_positive(has_more, load(phi, last) * per_degree + log_weight, never)
            highest = where_positive(x_last - highest, x_last, highest)

        of_own, of_last = exp_negative(own - highest), exp_negative(x_last - highest)
        of_draws = where_positive(has_more, of_last, nothing)
        for at in range(unl + k, unl + k + rounds * n_pos, n_pos):
            part = exp_negative(load(phi, at) * per_degree + log_weight - highest)
            of_draws = of_draws + part
            # Lanes beyond the round belong to other positives.
            store(sigma, at, where_positive(here, part, load(sigma, at)))
        whole = of_own + of_draws
        scale = splat(np.float32(1.0)) / whole
        for at in range(unl + k, unl + k + rounds * n_pos, n_pos):
            part = load(sigma, at)
            store(sigma, at, where_positive(here, part * scale, part))
        if extra > k:
            store(sigma, last, where_positive(has_more, of_last * scale, load(sigma, last)))
        store(sigma, k, of_own * scale)
        losses = losses + where_positive(here, highest + log_positive(whole) - x_own, nothing)
        own_shares = own_shares + where_positive(here, of_own * scale, nothing)
        draw_shares = draw_shares + where_positive(here, of_draws * scale, nothing)
    return np.float64(total(losses)), np.float64(total(own_shares)), np.float64(total(draw_shares))
