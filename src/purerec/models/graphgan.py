"""GraphGAN: a generator that walks the graph of positives, against a discriminator that knows its edges.

Wang, Wang, Wang, Zhao, Zhang, Zhang, Xie, Guo (2018), GraphGAN: Graph Representation Learning with Generative
Adversarial Nets.

    min_g max_d  sum over u of  E_{i positive} log D(u, i) + E_{v ~ G(.|u)} log(1 - D(u, v))
    D(u, v) = sigmoid(d_u.d_v + b_v)
    G(v|u) = product over the path from u to v of softmaxes of g(next).g(node), and of the step back from v

Graph softmax: probabilities follow the BFS tree of u, so that nearby items are likely, and a walk costs only the
nodes on its path. Adapted: the graph is bipartite, walks end at items, and trees are cut at depth 3 (items of people
who share an item with the user). Trees are not built but sampled along the walk, `branching` children per node (see
`engines.graphgan`): the paper's authors keep the tree of every vertex, n_users trees with all edges, which is
why PURE's authors could not finish it on Yelp. The discriminator has an item bias, both sides are pre-trained as BPR,
the reward has a baseline, and the generator ranks.

An epoch of the game costs n_p (discriminator) + n_users * walks (generator) walks of about 3 (branching + 1) d
numbers each, whatever the graph. Use it to study walks as negatives; as a recommender, BPR does as well in less time,
and a long game at a high rate undoes the pre-training: set validation data and patience.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from purerec.data.pairs import Csr
from purerec.engines import graphgan as kernels
from purerec.engines.irgan import POINTWISE, Rates
from purerec.models.contract.search_space import Ints, SearchSpace
from purerec.models.families.pairwise_mf import FactorModel
from purerec.models.families.policy_gradient import Player, PolicyConfig, PolicyGame, settings_to_continue
from purerec.training.history import Measures
from purerec.types import F64


class GraphGANConfig(PolicyConfig):
    """Settings of GraphGAN."""

    start: Literal["pretrained", "random"] = "pretrained"
    """Where the discriminator starts from; the generator always starts pre-trained."""
    discriminator_rate: float = Field(default=0.05, gt=0, le=10)
    """Step size of the discriminator in the game."""
    generator_rate: float = Field(default=0.005, gt=0, le=10)
    """Step size of the generator in the game."""
    branching: int = Field(default=10, ge=1, le=1000)
    """At most this many children per tree node; of more neighbours, each walk takes a different random few."""
    walks: int = Field(default=20, ge=2, le=10_000)
    """Walks per user for a step of the generator."""

    search_space: ClassVar[SearchSpace] = {
        **PolicyConfig.search_space,
        "branching": Ints(3, 30),
        "walks": Ints(5, 40),
    }


class GraphGAN(FactorModel):
    """Random walks against a discriminator."""

    name: ClassVar[str] = "graphgan"
    config_class = GraphGANConfig
    config: GraphGANConfig

    def _settings_to_continue(self, epochs: int | None) -> dict[str, Any]:
        return settings_to_continue(super()._settings_to_continue(epochs), ranking="generator")

    def _start(self, positives: Csr, seed: int) -> GraphGANGame:
        return GraphGANGame(self, positives, seed)


class GraphGANGame(PolicyGame):
    """The generator walks from a user through the graph of positives."""

    def __init__(self, model: GraphGAN, positives: Csr, seed: int) -> None:
        super().__init__(model, model.config, positives, seed)
        self.config = config = model.config
        n_users, n_items = positives.shape
        turned = Csr.of(positives.indices, positives.users, (n_items, n_users))
        self._graph = kernels.Graph(turned.indptr, turned.indices, config.branching)
        n_steps = config.walks * kernels.STEPS
        self._walks = kernels.Walks(
            np.empty(n_users, np.int32),
            np.empty(n_steps, np.int32),
            np.empty(n_steps, np.int32),
            np.empty(n_steps, np.int32),
            np.empty(n_steps * (config.branching + 1), np.int32),
            np.empty(n_steps * (config.branching + 1), np.float32),
            np.empty(config.walks, np.int32),
            np.empty(config.walks, np.float64),
        )

    def _pass(self, who: Player, rate: float, order: np.uint64, draw: np.uint64, sums: F64) -> None:
        run = kernels.discriminator_pass if who == "discriminator" else kernels.generator_pass
        rates = Rates(POINTWISE, 1.0, 0.0, rate, self.config.game_regularization)
        players = self.generator, self.discriminator
        run(self.engine.tables, self._graph, *players, self._walks, rates, order, draw, sums)

    def _more(self, sums: F64) -> Measures:
        return {"ends_unobserved": float(sums[2] / max(sums[1], 1))}
