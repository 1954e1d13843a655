"""LambdaFM: BPR with negatives that matter at the top of the list.

Yuan, Guo, Jose, Chen, Yu, Zhang (2016), LambdaFM: Learning Optimal Ranking with Factorization Machines Using Lambda
Surrogates.

    min  sum over (u, i, j) of  w_ij softplus(-(s_ui - s_uj)) + reg/2 (|e_u|^2 + |q_i|^2 + |q_j|^2)
    s_ui = e_u.q_i + b_i

A lambda, the change in NDCG if i and j swapped places, would need the whole ranking at every step. The paper's three
samplers approximate it by drawing or weighting the pairs for which such a swap would matter most:

    static     j by popularity: the item of popularity rank r in proportion to exp(-(r + 1) / (n_items rho))
    dynamic    j by score: of k = `candidates` uniform draws, the r-th best in proportion to exp(-(r + 1) / (k rho))
    rank       the first of up to k uniform draws that scores above s_ui - margin, at draw T, with the
               weight w = H((n_items - 1) / T) / H(n_items), H the harmonic numbers; no such draw, no step

Adapted: with users and items as the only features, the factorization machine is e_u.q_i + b_i (a user's bias
cancels in every pair), so code and cost are those of BPR: n_p steps on 3 d numbers an epoch, `dynamic` adds
`candidates` scores to each, and `rank` as many as it takes, more as the model improves. Use it when the first few
places matter more than the rest.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from purerec.data.pairs import Csr
from purerec.engines.bpr import PairwiseSettings
from purerec.models.contract.search_space import Choices, Floats, Ints, SearchSpace
from purerec.models.families.pairwise_mf import (
    FactorConfig,
    FactorModel,
    PairwiseFitting,
    default_regularization,
)
from purerec.sampling.dynamic import FIRST, RANKED, VIOLATING

_RULES = {"static": FIRST, "dynamic": RANKED, "rank": VIOLATING}


class LambdaFMConfig(FactorConfig):
    """Settings of LambdaFM."""

    regularization: Annotated[float, Field(ge=0, le=100)] | None = None
    """L2 on the factors of a triple, at each step. None: 0.85 times that of BPR."""

    epochs: int = Field(default=80, ge=0, le=100_000)
    """Passes over the positives."""
    bias_regularization: float = Field(default=0.01, ge=0, le=100)
    """L2 on the item biases of a triple."""
    sampler: Literal["static", "dynamic", "rank"] = "rank"
    """Where negatives come from: by popularity, by score among some candidates, or the first that violates the
    margin, weighted by the estimated rank of the positive."""
    rho: float = Field(default=0.5, gt=0, le=1000)
    """For `static` and `dynamic`: how far down the ranking negatives come from; small: the top; large: uniform."""
    candidates: int = Field(default=30, ge=1, le=1000)
    """For `dynamic`: items ranked for each negative; for `rank`: the most that are tried."""
    margin: float = Field(default=2.0, ge=0, le=100)
    """For `rank`: an item that a positive outscores by more than this is not used as its negative."""

    search_space: ClassVar[SearchSpace] = {
        **FactorConfig.search_space,
        "regularization": Floats(0.001, 0.2, start=lambda positives: _default_regularization(positives)),
        "sampler": Choices(("static", "dynamic", "rank")),
        "rho": Floats(0.05, 5),
        "candidates": Ints(3, 100),
        "margin": Floats(0, 5, log=False),
    }


def _default_regularization(positives: Csr) -> float:
    return 0.85 * default_regularization(positives)


class LambdaFM(FactorModel):
    """Pairwise factors with top-weighted negatives."""

    name: ClassVar[str] = "lambdafm"
    config_class = LambdaFMConfig
    config: LambdaFMConfig

    def _default_regularization(self, positives: Csr) -> float:
        return _default_regularization(positives)

    def _hard_negatives(self) -> int:
        """The best of five approximates what `rank` and `dynamic` draw: on ML-100k it gives the vectors closest to
        those of training."""
        return 1 if self.config.sampler == "static" else 5

    def _start(self, positives: Csr, seed: int) -> PairwiseFitting:
        config = self.config
        settings = PairwiseSettings(
            dim=self._dim(positives.shape[0]),
            rule=_RULES[config.sampler],
            candidates=config.candidates,
            rho=config.rho,
            margin=config.margin,
            regularization=self._regularization(positives),
            bias_regularization=config.bias_regularization,
            init_std=config.init_std,
        )
        return PairwiseFitting(self, positives, settings, seed)
