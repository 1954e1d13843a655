"""A vector for a person who was not in training: the PU risk, minimised over e_u with the items fixed.

    min_e  -mean_{i in history} phi(i) + (1/prior) mean_{all i} softplus(phi(i)) + reg (|e|^2 terms)
    phi(i) = e.q_i + b_i + bias

The problem is convex in e, and Newton's method solves it in a few steps of cost n_items * dim^2. The unlabeled
expectation is taken over all items exactly, where training samples it.
"""

from __future__ import annotations

import numpy as np

from purerec.interactions import F32, I32

_STEPS = 30


def fold_in(
    items: F32,
    item_bias: F32 | None,
    history: I32,
    *,
    bias: float,
    prior: float,
    regularization: float,
    scale: F32 | None = None,
) -> F32:
    """(n_items,) phi for a person with this history. `scale` is r of the gmf scorer: items already carry none."""
    q = items.astype(np.float64)
    offset = np.full(len(q), bias) + (0 if item_bias is None else item_bias)
    weight = regularization * np.ones(q.shape[1])
    if scale is not None:
        # phi = (e * r).q: with f = e * r, the penalty |e|^2 is |f / r|^2.
        weight = weight / np.maximum(scale.astype(np.float64) ** 2, 1e-6)
    # Each positive counts an own and an unlabeled sample with the person's vector in the penalty.
    weight = 2 * weight + 1e-9
    pull = q[history].mean(axis=0)
    vector = np.zeros(q.shape[1])

    def value(f: np.ndarray) -> float:
        phi = q @ f + offset
        return float(-pull @ f + np.logaddexp(0, phi).mean() / prior + 0.5 * weight @ f**2)

    current = value(vector)
    for _ in range(_STEPS):
        phi = q @ vector + offset
        d = 0.5 * (1 + np.tanh(0.5 * phi))
        gradient = -pull + (q.T @ d) / (len(q) * prior) + weight * vector
        hessian = (q.T * (d * (1 - d))) @ q / (len(q) * prior) + np.diag(weight)
        step = np.linalg.solve(hessian, gradient)
        rate = 1.0
        while (after := value(vector - rate * step)) > current and rate > 1e-8:
            rate /= 2
        if current - after < 1e-10 * abs(current) + 1e-12:
            break
        vector, current = vector - rate * step, after
    return (q @ vector + offset).astype(np.float32)
