"""Eq. (generator) in plain numpy: what a fitted generator makes of noise.

The engines have trainable versions, and draw the noise, Eq. (noise_input).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from purerec.types import F32, F64, I64

_RIDGE = 1e-6


def generate(
    params: Mapping[str, F32],
    side: Literal["user", "item"],
    noise: F32,
    condition: F32 | None = None,
    *,
    output: Literal["relu", "linear"] = "relu",
    constraint: Literal["none", "norm", "recolour"] = "none",
    weight: I64 | F64 | None = None,
) -> F64:
    """G(z), Eq. (generator): fakes of a side, (n, dim) like the noise.

    condition    (n, dim) embeddings of the other side, for a conditional generator
    constraint   as in the settings of PURE; `weight`, of each real embedding, is its number of positives
    """
    w1, b1, w2, b2 = (params[f"{side}_gen.{part}"].astype(np.float64) for part in ("w1", "b1", "w2", "b2"))
    x = noise if condition is None else np.concatenate([noise, condition], axis=1)
    fakes: F64 = np.maximum(x @ w1.T + b1, 0) @ w2.T + b2
    if output == "relu":
        fakes = np.maximum(fakes, 0)
    if constraint == "none":
        return fakes
    real = params[side].astype(np.float64)
    share = np.full(len(real), 1.0) if weight is None else weight.astype(np.float64)
    share = share / share.sum()
    if constraint == "norm":
        longest, length = share @ np.linalg.norm(real, axis=1), np.linalg.norm(fakes, axis=1, keepdims=True)
        return np.asarray(fakes * np.minimum(1.0, longest / np.maximum(length, 1e-30)))
    mean, factor = _moments(real, share)
    own_mean, own_factor = _moments(fakes, np.full(len(fakes), 1 / len(fakes)))
    return np.asarray(mean + (fakes - own_mean) @ np.linalg.solve(own_factor.T, factor.T))


def _moments(rows: F64, share: F64) -> tuple[F64, F64]:
    """Mean, and the lower Cholesky factor of the covariance."""
    mean = share @ rows
    covariance = ((rows - mean) * share[:, None]).T @ (rows - mean)
    ridge = _RIDGE * covariance.diagonal().mean() + 1e-12
    return mean, np.linalg.cholesky(covariance + ridge * np.eye(len(mean)))
