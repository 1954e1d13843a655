"""IRGAN: a generator that draws items from a softmax, against a discriminator that tells them from positives.

Wang, Yu, Zhang, Gong, Xu, Wang, Zhang, Zhang (2017), IRGAN: A Minimax Game for Unifying Generative and
Discriminative Information Retrieval Models.

    min_g max_d  sum over u of  E_{i positive} log D(u, i) + E_{j ~ p_g(.|u)} log(1 - D(u, j))
    p_g(i|u) = softmax over i of g(u, i) / temperature
    D = sigmoid(d(u, i)) (pointwise) or sigmoid(d(u, i) - d(u, j)) (pairwise)

d and g are factors with an item bias. The generator cannot be differentiated through its draws, so it follows the
policy gradient of the reward 2 D - 1, with importance sampling (a share of the samples are the user's positives,
which the softmax alone would hardly ever draw) and a baseline, the mean reward. Before the game the generator is
pre-trained as BPR with dynamic negatives; the discriminator starts at random or from the same point. Adapted:
importance weights are normalised, so that the gradient touches only the items sampled (see `engines.irgan`).

An epoch of the game costs (discriminator_passes + generator_passes) n_users softmaxes over all items, n_items d
each; an epoch of pre-training costs as much as one of BPR. Use it to study adversarial ranking: its quality is that
of the pre-training, to which no setting tried for the game added more than noise (see also Deshpande and Khapra
2020). With validation data and patience, the best epoch is kept.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from purerec.data.pairs import Csr
from purerec.engines import irgan as kernels
from purerec.engines.bpr import FactorTables, PairwiseRules
from purerec.jit.simd import LANES
from purerec.models.contract.search_space import Choices, Floats, SearchSpace
from purerec.models.families.pairwise_mf import FactorModel
from purerec.models.families.policy_gradient import Player, PolicyConfig, PolicyGame, settings_to_continue
from purerec.types import F64

_MODES = {"pointwise": kernels.POINTWISE, "pairwise": kernels.PAIRWISE}


class IRGANConfig(PolicyConfig):
    """Settings of IRGAN."""

    mode: Literal["pointwise", "pairwise"] = "pointwise"
    """Whether the discriminator judges items one by one, or a positive against a generated item."""
    output: Literal["generator", "discriminator"] = "generator"
    """Which of the two produces the final ranking."""
    temperature: float = Field(default=2.0, gt=0, le=100)
    """Temperature of the generator's softmax; if small, draws come from the top of its ranking."""
    samples: int = Field(default=128, ge=2, le=100_000)
    """Draws for one step of the generator."""
    positive_share: float = Field(default=0.2, ge=0, lt=1)
    """Share of these draws that are the user's positives (corrected for by importance weights)."""

    search_space: ClassVar[SearchSpace] = {
        **PolicyConfig.search_space,
        "mode": Choices(("pointwise", "pairwise")),
        "temperature": Floats(0.3, 5),
        "positive_share": Floats(0, 0.6, log=False),
    }


class IRGAN(FactorModel):
    """Policy gradient against a discriminator."""

    name: ClassVar[str] = "irgan"
    config_class = IRGANConfig
    config: IRGANConfig

    def _settings_to_continue(self, epochs: int | None) -> dict[str, Any]:
        return settings_to_continue(super()._settings_to_continue(epochs), ranking=self.config.output)

    def _start(self, positives: Csr, seed: int) -> IRGANGame:
        return IRGANGame(self, positives, seed)


class IRGANGame(PolicyGame):
    """The generator draws from a softmax over all items."""

    def __init__(self, model: IRGAN, positives: Csr, seed: int) -> None:
        super().__init__(model, model.config, positives, seed)
        self.config = model.config
        n_users, n_items = positives.shape
        samples = model.config.samples
        self._work = kernels.PolicyWork(
            np.empty(n_users, np.int32),
            np.empty(-(-n_items // LANES) * LANES, np.float32),
            np.empty(n_items, np.float64),
            np.empty(samples, np.int32),
            np.empty(samples, np.float32),
            np.empty(samples, np.float32),
            np.empty(self.discriminator.width, np.float32),
        )

    def _pass(self, who: Player, rate: float, order: np.uint64, draw: np.uint64, sums: F64) -> None:
        c = self.config
        rates = kernels.Rates(_MODES[c.mode], c.temperature, c.positive_share, rate, c.game_regularization)
        given = self.engine.tables, self.generator, self.discriminator, self._work, rates
        if who == "generator":
            kernels.generator_pass(*given, order, draw, sums)
        else:
            rules = PairwiseRules(0, False, 1, 0.0, c.game_regularization, 0.0)
            kernels.discriminator_pass(*given, rules, order, draw, sums)

    @property
    def ranking(self) -> FactorTables:
        return self.discriminator if self.config.output == "discriminator" else self.generator
