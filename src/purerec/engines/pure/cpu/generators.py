"""The generators, compiled: noise, a two-layer network, the constraint on its fakes, and backpropagation."""

from __future__ import annotations

import math

import numpy as np

from purerec.engines.pure.cpu.constraints import NORM, RECOLOUR, constrain
from purerec.engines.pure.cpu.kernels import (
    BILINEAR,
    FM,
    GeneratorMemory,
    KernelSettings,
    Model,
    Work,
    activate,
    aligned,
    dense_adam,
    matrix_times_row,
    row_times_matrix,
)
from purerec.engines.pure.spec import D_FAKE, FAKE_NORM, LOSS, N_FAKES, N_STEPS
from purerec.jit.counter_rng import splitmix64
from purerec.jit.decorator import Scalar, kernel
from purerec.jit.simd import (
    LANES,
    Vector,
    first_lanes,
    load,
    log_positive,
    root,
    splat,
    store,
    total,
    where_positive,
)
from purerec.types import F32, F64, I32

_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_MINUS_TWO = np.float32(-2.0)
_TO_UNIT = np.float32(2.0**-32)
_SHIFT = np.uint64(32)
_LOW_31, _BIT_31 = np.uint64(0x7FFFFFFF), np.uint64(1 << 31)
_HALF_TURN = np.float32(math.pi)
_HALF = np.float32(0.5)
_C1, _C2, _C3, _C4, _C5, _C6 = (np.float32((-1.0) ** k / math.factorial(2 * k)) for k in range(1, 7))
_S1, _S2, _S3, _S4, _S5, _S6 = (np.float32((-1.0) ** k / math.factorial(2 * k + 1)) for k in range(1, 7))


@kernel(inner=True)
def _normal_pair(u: Vector, angle: Vector, sign: Vector) -> tuple[Vector, Vector]:
    """Box-Muller: u in (0, 1], angle in half turns within [-1/2, 1/2], and a sign for the other half."""
    length = root(log_positive(u) * _MINUS_TWO) * sign
    a = angle * _HALF_TURN
    q = a * a
    cosine = (((((q * _C6 + _C5) * q + _C4) * q + _C3) * q + _C2) * q + _C1) * q + _ONE
    sine = ((((((q * _S6 + _S5) * q + _S4) * q + _S3) * q + _S2) * q + _S1) * q + _ONE) * a
    return length * cosine, length * sine


@kernel()
def fill_noise(g: GeneratorMemory, n: Scalar, key: Scalar, counter: Scalar) -> Scalar:
    """Fill n rows with Gaussian noise, and zeros in the padding; return the counter after the numbers used."""
    d = aligned(g.dim)
    deviation = np.float32(g.noise_deviation)
    end = n * d
    for at in range(0, end, 2 * LANES):
        for lane in range(LANES):
            x = splitmix64(key, counter + np.uint64(lane))
            g.uniform[lane] = np.float32((x >> _SHIFT) + np.uint64(1)) * _TO_UNIT
            # 31 bits for the angle, one for the sign: together a full turn.
            half_turns = np.float32(np.int64(x & _LOW_31)) * np.float32(2.0**-31) - _HALF
            g.uniform[LANES + lane] = half_turns
            g.uniform[2 * LANES + lane] = _ONE if x & _BIT_31 else -_ONE
        counter += np.uint64(LANES)
        a, b = _normal_pair(load(g.uniform, 0), load(g.uniform, LANES), load(g.uniform, 2 * LANES))
        store(g.noise, at, a * deviation)
        if at + LANES < end:
            store(g.noise, at + LANES, b * deviation)
    if g.dim < d:
        kept = first_lanes(g.dim - (d - LANES))
        for k in range(n):
            at = k * d + d - LANES
            store(g.noise, at, load(g.noise, at) * kept)
    return counter


@kernel(inner=True)
def _places(g: GeneratorMemory) -> tuple[Scalar, Scalar, Scalar, Scalar, Scalar, Scalar]:
    """The padded width, hidden units and inputs; and where b1, w2 and b2 begin in `theta`."""
    d, h = aligned(g.dim), g.hidden
    n_in = d + (g.condition_dim if g.conditional else 0)
    b1 = n_in * h
    w2 = b1 + h
    return d, h, n_in, b1, w2, w2 + h * d


@kernel(inner=True)
def _forward(g: GeneratorMemory, table: F32, ids: I32, first_id: Scalar, n: Scalar) -> None:
    """raw = W2 relu(W1 x + b1) + b2, by columns of the weights."""
    d, h, n_in, b1, w2, b2 = _places(g)
    zero = splat(_ZERO)
    for k in range(n):
        condition = np.int64(ids[first_id + k]) * 3 * g.condition_dim
        for j in range(0, h, LANES):
            acc = load(g.theta, b1 + j)
            for q in range(d):
                acc = acc + load(g.theta, q * h + j) * g.noise[k * d + q]
            for q in range(d, n_in):
                acc = acc + load(g.theta, q * h + j) * table[condition + q - d]
            store(g.first, k * h + j, where_positive(zero - acc, zero, acc))
        for j in range(0, d, LANES):
            acc = load(g.theta, b2 + j)
            for q in range(h):
                acc = acc + load(g.theta, w2 + q * d + j) * g.first[k * h + q]
            if g.rectified:
                acc = where_positive(zero - acc, zero, acc)
            store(g.raw, k * d + j, acc)


@kernel(inline=True)
def make_fakes(g: GeneratorMemory, m: Model, ids: I32, first_id: Scalar, n: Scalar) -> Scalar:
    """Make n fakes from the noise in `g`, for the pairs whose other side is `ids`; return the sum of norms."""
    if n == 0:
        return 0.0
    _forward(g, m.user if g.is_item else m.item, ids, first_id, n)
    return constrain(g, n)


@kernel(inner=True)
def _score_fakes(g: GeneratorMemory, m: Model, c: KernelSettings, ids: I32, first_id: Scalar, n: Scalar) -> None:
    """Compute phi of the fakes, and d phi / d fake in `pull`: r * e, or for a bilinear relation R^T e_u or R e_i."""
    d, other_dim = aligned(g.dim), g.condition_dim
    table = m.user if g.is_item else m.item
    for k in range(n):
        id_ = np.int64(ids[first_id + k])
        at = id_ * 3 * other_dim
        if c.scorer == BILINEAR and g.is_item:
            row_times_matrix(table, at, m.relation, g.pull, k * d, other_dim, d)
        elif c.scorer == BILINEAR:
            matrix_times_row(table, at, m.relation, g.pull, k * d, d, other_dim)
        else:
            for j in range(0, d, LANES):
                store(g.pull, k * d + j, load(table, at + j) * load(m.relation, j))
        acc = splat(_ZERO)
        for j in range(0, d, LANES):
            acc = acc + load(g.pull, k * d + j) * load(g.fakes, k * d + j)
        g.phi[k] = total(acc) + m.bias[0]
        if c.scorer == FM:
            g.phi[k] += m.user_bias[id_ * 4] if g.is_item else m.item_bias[id_ * 4]


@kernel(inner=True)
def _pull_raw(g: GeneratorMemory, n: Scalar) -> None:
    """Turn `pull` into dL/draw: times dL/dphi, through the constraint (held constant) and the output's relu."""
    d = aligned(g.dim)
    zero = splat(_ZERO)
    share = np.float32(1.0 / n)
    for k in range(n):
        slope = (-g.sigma[k] if g.saturating else g.sigma[k] - _ONE) * share
        if g.constraint == NORM:
            slope *= g.scale[k]
        if g.constraint == RECOLOUR:
            for j in range(0, d, LANES):
                acc = zero
                for q in range(g.dim):
                    acc = acc + load(g.colour32, q * d + j) * g.pull[k * d + q]
                store(g.row32, j, acc)
            for j in range(0, d, LANES):
                store(g.pull, k * d + j, load(g.row32, j))
        for j in range(0, d, LANES):
            x = load(g.pull, k * d + j) * slope
            if g.rectified:
                x = where_positive(load(g.raw, k * d + j), x, zero)
            store(g.pull, k * d + j, x)


@kernel(inner=True)
def _backward(g: GeneratorMemory, table: F32, ids: I32, first_id: Scalar, n: Scalar) -> None:
    """Backpropagate dL/draw, in `pull`, to `grad`, laid out like the weights."""
    d, h, n_in, b1, w2, b2 = _places(g)
    zero = splat(_ZERO)
    for q in range(h):
        for p in range(d):
            g.w2_turned[p * h + q] = g.theta[w2 + q * d + p]
    for j in range(0, g.n_weights, LANES):
        store(g.grad, j, zero)
    for k in range(n):
        condition = np.int64(ids[first_id + k]) * 3 * g.condition_dim
        for j in range(0, d, LANES):
            x = load(g.pull, k * d + j)
            store(g.grad, b2 + j, load(g.grad, b2 + j) + x)
            for q in range(h):
                at = w2 + q * d + j
                store(g.grad, at, load(g.grad, at) + x * g.first[k * h + q])
        for j in range(0, h, LANES):
            acc = zero
            for q in range(d):
                acc = acc + load(g.w2_turned, q * h + j) * g.pull[k * d + q]
            acc = where_positive(load(g.first, k * h + j), acc, zero)
            store(g.grad, b1 + j, load(g.grad, b1 + j) + acc)
            for q in range(d):
                store(g.grad, q * h + j, load(g.grad, q * h + j) + acc * g.noise[k * d + q])
            for q in range(d, n_in):
                at = q * h + j
                store(g.grad, at, load(g.grad, at) + acc * table[condition + q - d])


@kernel(inner=True, inline=True)
def generator_step(
    g: GeneratorMemory,
    m: Model,
    c: KernelSettings,
    ids: I32,
    first_id: Scalar,
    n: Scalar,
    learning_rate: Scalar,
    t: Scalar,
) -> tuple[Scalar, Scalar, Scalar]:
    """Step one generator on the noise in `g`; return its loss before the step, and sums of D and of norms."""
    if n == 0:
        return 0.0, 0.0, 0.0
    norms = make_fakes(g, m, ids, first_id, n)
    _score_fakes(g, m, c, ids, first_id, n)
    phis, sigmas, plus = activate(g.phi, g.sigma, np.int64(0), n)
    loss = -plus / n if g.saturating else (plus - phis) / n
    _pull_raw(g, n)
    _backward(g, m.user if g.is_item else m.item, ids, first_id, n)
    dense_adam(g.theta, g.grad, g.n_weights, c, learning_rate, t)
    return loss, sigmas, norms


@kernel(inline=True)
def step_both(
    item_side: GeneratorMemory | None,
    user_side: GeneratorMemory | None,
    m: Model,
    w: Work,
    c: KernelSettings,
    n_fake_items: Scalar,
    n_fake_users: Scalar,
    learning_rate: Scalar,
    t: Scalar,
    sums: F64,
) -> None:
    """Step both generators on the first pairs in `w` and the noise of the sides; add to `sums`."""
    if item_side is not None:
        loss, sigmas, norms = generator_step(item_side, m, c, w.users, 0, n_fake_items, learning_rate, t)
        sums[LOSS] += loss
        sums[D_FAKE] += sigmas
        sums[FAKE_NORM] += norms
    if user_side is not None:
        loss, sigmas, norms = generator_step(user_side, m, c, w.items, 0, n_fake_users, learning_rate, t)
        sums[LOSS] += loss
        sums[D_FAKE] += sigmas
        sums[FAKE_NORM] += norms
    sums[N_STEPS] += 1
    sums[N_FAKES] += n_fake_items + n_fake_users
