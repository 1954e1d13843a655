"""Estimates of the class prior from scores: what share of all pairs is relevant, when only some were observed.

Both assume that observed pairs are a random sample of the relevant ones ('selected completely at random'). A log in
which popular items are shown more often violates that; docs/theory.md shows how far off the estimates then are.
"""

from __future__ import annotations

import numpy as np

from purerec.errors import DataError
from purerec.paper.risks import Logits, sigmoid


def elkan_noto_prior(phi_p: Logits, observed: float) -> float:
    """observed / c with c = mean of D over positives that the fit has not seen (Elkan and Noto 2008, estimator e1).

    phi are logits of a PN fit, whose D estimates the chance that a pair is observed, and `observed` is the share of
    observed pairs in that fit. Where the score identifies relevant pairs, D equals c, the share of relevant pairs
    that are observed. Where it cannot, D is lower, and the estimate of the prior too high.
    """
    _check(phi_p)
    return min(1.0, observed / float(np.mean(sigmoid(phi_p), dtype=np.float64)))


def best_bin_prior(phi_p: Logits, phi_u: Logits, *, deviations: float = 4.0) -> float:
    """The least ratio of tails, P_u(phi >= t) / P_p(phi >= t): the best bin of Garg et al. (2021).

    If only relevant pairs score above t, the ratio is the prior; otherwise it is larger. The t chosen has the least
    upper limit of the ratio, this many standard errors up: with fewer, a tail of a handful of pairs would be chosen
    by luck. Garg et al. use absolute limits, which are too wide for a small prior: here they are limits of the
    logarithm. `phi_u` are scores of all pairs, relevant or not.
    """
    _check(phi_p)
    _check(phi_u)
    positive, unlabeled = np.sort(phi_p), np.sort(phi_u)
    above_p = np.arange(len(positive), 0, -1)
    above_u = len(unlabeled) - np.searchsorted(unlabeled, positive, side="left")
    # The first of equal scores in sorted order has them all at or above it.
    first = np.append(True, positive[1:] > positive[:-1])
    above_p, above_u = above_p[first], np.maximum(above_u[first], 1)
    ratio = (above_u / len(unlabeled)) / (above_p / len(positive))
    errors = np.sqrt(1 / above_u - 1 / len(unlabeled) + 1 / above_p - 1 / len(positive))
    best = int(np.argmin(np.log(ratio) + deviations * errors))
    return min(1.0, float(ratio[best]))


def _check(phi: Logits) -> None:
    if phi.size == 0 or not np.all(np.isfinite(phi)):
        raise DataError("a prior is estimated from scores; give at least one, and all finite")
