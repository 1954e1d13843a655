"""BPR: matrix factorisation that ranks a user's positives above the rest.

Rendle, Freudenthaler, Gantner, Schmidt-Thieme (2009), BPR: Bayesian Personalized Ranking from Implicit Feedback.

    min  sum over (u, i, j) of  softplus(-(s_ui - s_uj)) + reg/2 (|e_u|^2 + |q_i|^2 + |q_j|^2),   s_ui = e_u.q_i + b_i

Each epoch visits the positives once, in a new random order (SGD user by user, the natural order of the data,
converges poorly, as the authors note), and draws a negative j for each. Adapted: an item bias; the negative can be
the best of several candidates (Zhang et al. 2013, dynamic negative sampling) or one of them at random by softmax, as
in section 4.2 of the PURE paper. An epoch costs n_p steps on 3 d numbers, plus `candidates` scores each with dynamic
negatives. Use it when only the ranking matters and the data are large: it is the cheapest model here, and its scores
are not probabilities.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from purerec.data.pairs import Csr
from purerec.engines.bpr import PairwiseSettings
from purerec.models.contract.search_space import Choices, Ints, SearchSpace
from purerec.models.families.pairwise_mf import FactorConfig, FactorModel, PairwiseFitting
from purerec.sampling.dynamic import RULES, Negatives


class BPRConfig(FactorConfig):
    """Settings of BPR."""

    negatives: Negatives = "dns"
    """uniform: a random unobserved item of the user, as in Rendle et al.; dns: the highest-scoring of `candidates`
    such items; drns: one of them at random, in proportion to exp(score)."""
    candidates: int = Field(default=10, ge=1, le=1000)
    """Items that dns and drns choose from."""

    search_space: ClassVar[SearchSpace] = {
        **FactorConfig.search_space,
        "negatives": Choices(("uniform", "dns", "drns")),
        "candidates": Ints(2, 50),
    }


class BPR(FactorModel):
    """Matrix factorisation with the pairwise logistic loss."""

    name: ClassVar[str] = "bpr"
    config_class = BPRConfig
    config: BPRConfig

    def _start(self, positives: Csr, seed: int) -> PairwiseFitting:
        config = self.config
        settings = PairwiseSettings(
            dim=self._dim(positives.shape[0]),
            rule=RULES[config.negatives],
            candidates=config.candidates,
            regularization=self._regularization(positives),
            bias_regularization=config.bias_regularization,
            init_std=config.init_std,
        )
        return PairwiseFitting(self, positives, settings, seed)
