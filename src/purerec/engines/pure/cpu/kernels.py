"""What the compiled discriminator and generators share: the models in memory, Adam, scores, activations."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from purerec.jit.decorator import Scalar, kernel
from purerec.jit.simd import LANES, Vector, first_lanes, load, root, sigmoid_softplus, splat, store, total
from purerec.types import F32, F64, I32

MF, GMF, BILINEAR, FM = 0, 1, 2, 3
_ZERO = np.float32(0.0)


class Model(NamedTuple):
    """The discriminator. Every value is stored next to its two Adam moments, since a step needs all three."""

    user: F32
    """(n_users * 3 * d_u,): per user the embedding, its first and its second moment; d_u is padded."""
    item: F32
    relation: F32
    """(3 * n,): n values, then their moments; gmf: d_u, bilinear: d_u * d_i row by row, else d_u ones."""
    bias: F32
    """(3,)"""
    user_bias: F32
    """(n_users * 4,): value, moments, nothing; fm only."""
    item_bias: F32


class KernelSettings(NamedTuple):
    """The settings in the form that kernels expect."""

    u_dim: int
    """Width of the user embedding, padded."""
    i_dim: int
    scorer: int
    temperature: float
    """Temperature of the softmax risk; 0: another risk."""
    observed: float
    """Share of observed pairs in the unlabeled part of the softmax risk."""
    positive: float
    """Weight of softplus(phi) at positives in the other risks."""
    unlabeled: float
    """Weight of softplus(phi) at unlabeled pairs in these."""
    is_clamped: bool
    """Whether the negative part may not fall below 0 (nnPU)."""
    fake: float
    """Weight of softplus(phi) at fakes."""
    train_bias: bool
    regularization: float
    beta1: float
    beta2: float
    epsilon: float


class GeneratorMemory(NamedTuple):
    """One generator with its scratch. d is the padded width of its fakes, h of the hidden layer.

    All weights are in one array, so that one call of Adam updates them:
    w1 (n_in, h), noise first, then the condition; b1 (h,); w2 (h, d); b2 (d,); then the moments.
    """

    is_item: bool
    conditional: bool
    rectified: bool
    constraint: int
    saturating: bool
    noise_deviation: float
    dim: int
    """Width without padding."""
    hidden: int
    """Padded."""
    condition_dim: int
    """Padded width of the other side's embedding."""
    n_weights: int
    theta: F32
    grad: F32
    w2_turned: F32
    """(d, h)"""
    noise: F32
    """(n, d)"""
    first: F32
    """(n, h): hidden layer after its relu."""
    raw: F32
    """(n, d): before the constraint."""
    fakes: F32
    """(n, d): after it."""
    scale: F32
    """(n,): the factors that `norm` applied."""
    phi: F32
    sigma: F32
    pull: F32
    """(n, d): d phi / d fake, then dL/draw."""
    row32: F32
    """(d,)"""
    real_mean: F64
    """(d,)"""
    real_factor: F64
    """(d, d): lower Cholesky factor of the real embeddings' covariance."""
    real_norm: F64
    """(1,)"""
    row: F64
    mean: F64
    factor: F64
    colour: F64
    mean32: F32
    real_mean32: F32
    colour32: F32
    """(d, d): L_r inv(L_b)."""
    colour32_turned: F32
    uniform: F32
    """(3 * LANES,)"""


class Work(NamedTuple):
    """A step's batch and scratch, allocated once.

    Arrays over pairs hold the positives from 0 and the unlabeled from the next multiple of `LANES`; in `phi` and
    `sigma`, pairs of fake items and pairs of fake users follow, also aligned.
    """

    users: I32
    items: I32
    user_slots: I32
    item_slots: I32
    phi: F32
    sigma: F32
    slot_of_user: I32
    """(n_users,): -1 between steps."""
    slot_of_item: I32
    slot_users: I32
    slot_items: I32
    user_grads: F32
    """(slots * max(d_u, d_i),)"""
    item_grads: F32
    user_counts: F32
    """(slots,): the weight of a row in the mean squares that are penalised."""
    item_counts: F32
    user_bias_grads: F32
    item_bias_grads: F32
    user_turned: F32
    """(slots * d_i,): e_u times the bilinear relation."""
    item_turned: F32
    relation_grad: F32
    ones: F32
    row: F32
    report: F64
    """(6,): for the last step, sums of D over positives, unlabeled and fakes, and of the fakes' norms; the penalty;
    the number of unlabeled pairs."""


@kernel(inner=True)
def aligned(n: Scalar) -> Scalar:
    return (n + LANES - 1) // LANES * LANES


@kernel(inner=True)
def power(base: Scalar, exponent: Scalar) -> Scalar:
    return math.exp(math.log(base) * exponent) if base > 0.0 else 0.0


@kernel(inner=True)
def sparse_step_size(c: KernelSettings, learning_rate: Scalar, t: Scalar) -> Scalar:
    """torch.optim.SparseAdam: both bias corrections are in the step size, with epsilon outside them."""
    return np.float32(learning_rate * math.sqrt(1.0 - power(c.beta2, t)) / (1.0 - power(c.beta1, t)))


@kernel(inner=True)
def dense_adam(values: F32, grads: F32, n: Scalar, c: KernelSettings, learning_rate: Scalar, t: Scalar) -> None:
    """torch.optim.Adam on n (a multiple of LANES) values, followed by their moments."""
    step_size = np.float32(learning_rate / (1.0 - power(c.beta1, t)))
    scale = np.float32(1.0 / math.sqrt(1.0 - power(c.beta2, t)))
    gain1, gain2, epsilon = np.float32(1.0 - c.beta1), np.float32(1.0 - c.beta2), np.float32(c.epsilon)
    for k in range(0, n, LANES):
        g, m, v = load(grads, k), load(values, n + k), load(values, 2 * n + k)
        m = m + (g - m) * gain1
        v = v + (g * g - v) * gain2
        store(values, n + k, m)
        store(values, 2 * n + k, v)
        store(values, k, load(values, k) - m / (root(v) * scale + epsilon) * step_size)


@kernel(inner=True)
def scalar_adam(values: F32, at: Scalar, g: Scalar, c: KernelSettings, step_size: Scalar, scale: Scalar) -> None:
    """Adam on one value, followed by its moments; `scale` multiplies the root of the second moment."""
    m, v = values[at + 1], values[at + 2]
    m += (np.float32(g) - m) * np.float32(1.0 - c.beta1)
    v += (np.float32(g) * np.float32(g) - v) * np.float32(1.0 - c.beta2)
    values[at + 1], values[at + 2] = m, v
    root_v = np.float32(math.sqrt(v)) * np.float32(scale)
    values[at] -= np.float32(step_size) * m / (root_v + np.float32(c.epsilon))


@kernel(inner=True)
def dot3(a: F32, a0: Scalar, b: F32, b0: Scalar, r: F32, dim: Scalar) -> Vector:
    """The sum of a * b * r, still spread over the lanes."""
    acc = load(a, a0) * load(r, 0) * load(b, b0)
    for j in range(LANES, dim, LANES):
        acc = acc + load(a, a0 + j) * load(r, j) * load(b, b0 + j)
    return acc


@kernel(inner=True)
def row_times_matrix(
    row: F32, at: Scalar, matrix: F32, out: F32, out_at: Scalar, n_rows: Scalar, width: Scalar
) -> None:
    """out = row @ matrix, for a matrix (n_rows, width) stored row by row."""
    for j in range(0, width, LANES):
        acc = splat(_ZERO)
        for k in range(n_rows):
            acc = acc + load(matrix, k * width + j) * row[at + k]
        store(out, out_at + j, acc)


@kernel(inner=True)
def matrix_times_row(
    row: F32, at: Scalar, matrix: F32, out: F32, out_at: Scalar, n_rows: Scalar, width: Scalar
) -> None:
    """out = matrix @ row."""
    for k in range(n_rows):
        acc = splat(_ZERO)
        for j in range(0, width, LANES):
            acc = acc + load(matrix, k * width + j) * load(row, at + j)
        out[out_at + k] = total(acc)


@kernel(inner=True)
def activate(phi: F32, sigma: F32, first: Scalar, n: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Set sigma = D of n pairs; return the sums of phi, of D and of softplus(phi)."""
    phis, sigmas, losses = splat(_ZERO), splat(_ZERO), splat(_ZERO)
    for k in range(0, n, LANES):
        here = first_lanes(n - k)
        x = load(phi, first + k)
        if n - k < LANES:
            for lane in range(n - k, LANES):  # values beyond n may be NaN, which no mask removes
                phi[first + k + lane] = _ZERO
            x = load(phi, first + k)
        s, p = sigmoid_softplus(x)
        store(sigma, first + k, s)
        phis, sigmas, losses = phis + x * here, sigmas + s * here, losses + p * here
    return np.float64(total(phis)), np.float64(total(sigmas)), np.float64(total(losses))
