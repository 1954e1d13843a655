"""GraphGAN: a generator that walks the graph of positives, against a discriminator that knows its edges.

Wang, Wang, Wang, Zhao, Zhang, Zhang, Xie, Guo (2018), GraphGAN: Graph Representation Learning with Generative
Adversarial Nets.

    min_g max_d  sum over u of  E_{i positive} log D(u, i) + E_{v ~ G(.|u)} log(1 - D(u, v))
    D(u, v) = sigmoid(d_u.d_v + b_v)
    G(v|u) = product over the path from u to v of softmaxes of g(next).g(node), and of the step back from v

Graph softmax: probabilities follow the BFS tree of u, so that near items are likely ones, and a walk costs only the
nodes on its way. Adapted: the graph is bipartite, walks end at items, and trees are cut at depth 3 (items of people
who share an item with the user). Trees are not built but sampled along the walk, `branching` children to a node
(see `engines.graphgan_kernels`): the paper's authors keep the tree of every vertex, n_users trees with all edges,
which is why PURE's authors could not finish it on Yelp. The discriminator has an item bias, both sides are
pre-trained as BPR, the reward has a baseline, and the generator ranks.

An epoch of the game costs n_p (discriminator) + n_users * walks (generator) walks of about 3 (branching + 1) d
numbers each, whatever the graph. Use it to study walks as negatives; as a recommender BPR does as well in less
time, and a long game at a high rate undoes its pre-training: give validation data and patience.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from purerec.engines import graphgan_kernels as kernels
from purerec.engines.irgan_kernels import POINTWISE, Rates
from purerec.engines.negatives import RULES, Negatives
from purerec.engines.pairwise import Factors, PairwiseEngine, PairwiseSettings, pack, unpack
from purerec.interactions import Csr
from purerec.models.base import State
from purerec.models.factor_model import FactorConfig, FactorModel, norms, scheduled
from purerec.randomness import generator, key64
from purerec.training import Record


class GraphGANConfig(FactorConfig):
    """Settings of GraphGAN."""

    epochs: int = Field(default=110, ge=0, le=100_000)
    """Epochs in all, pre-training included."""
    pretrain_epochs: int = Field(default=100, ge=0, le=100_000)
    """Of them, epochs of BPR before the game; learning_rate and schedule are theirs."""
    negatives: Negatives = "dns"
    """Of pre-training. uniform: a random unobserved item of the user; dns: of `candidates` such items the one with
    the highest score; drns: one of them at random, in proportion to exp(score)."""
    candidates: int = Field(default=10, ge=1, le=1000)
    """Items that dns and drns choose from."""
    start: Literal["pretrained", "random"] = "pretrained"
    """Where the discriminator starts from; the generator always starts pre-trained."""
    branching: int = Field(default=10, ge=1, le=1000)
    """Children of a node of the tree, at most; of more neighbours a random few are taken, anew for each walk."""
    walks: int = Field(default=20, ge=2, le=10_000)
    """Walks for a step of the generator, for each user."""
    discriminator_passes: int = Field(default=1, ge=0, le=1000)
    """Passes of the discriminator over the positives in an epoch of the game."""
    generator_passes: int = Field(default=1, ge=0, le=1000)
    """Steps of the generator for each user in an epoch of the game."""
    discriminator_rate: float = Field(default=0.05, gt=0, le=10)
    """Step size of the discriminator in the game."""
    generator_rate: float = Field(default=0.005, gt=0, le=10)
    """Step size of the generator in the game."""
    game_regularization: float = Field(default=0.01, ge=0, le=100)
    """L2 on the factors that a step of the game touches."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.pretrain_epochs > self.epochs:
            raise ValueError(
                f"pretrain_epochs={self.pretrain_epochs} is more than epochs={self.epochs}, which is all"
            )
        return self


class GraphGAN(FactorModel):
    """Random walks against a discriminator."""

    name: ClassVar[str] = "graphgan"
    config_class = GraphGANConfig
    config: GraphGANConfig

    def _game(self, positives: Csr, seed: int) -> GraphGANGame:
        return GraphGANGame(self, positives, seed)


class GraphGANGame:
    """Pre-training and the game, as `training` wants them."""

    def __init__(self, model: GraphGAN, positives: Csr, seed: int) -> None:
        config = model.config
        self.config, self.seed = config, seed
        n_users, n_items = positives.shape
        self.dim = model._dim(n_users)
        settings = PairwiseSettings(
            dim=self.dim,
            rule=RULES[config.negatives],
            candidates=config.candidates,
            regularization=config.regularization,
            bias_regularization=config.bias_regularization,
            init_std=config.init_std,
        )
        self.engine = PairwiseEngine(positives, settings, seed=seed)
        rng = generator(seed, "graphgan discriminator")
        self.discriminator = pack(
            rng.normal(0, config.init_std, (n_users, self.dim)).astype(np.float32),
            rng.normal(0, config.init_std, (n_items, self.dim)).astype(np.float32),
            np.zeros(n_items, np.float32),
        )
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

    @property
    def generator(self) -> Factors:
        return self.engine.factors

    def epoch(self, number: int) -> Record:
        config = self.config
        if number < config.pretrain_epochs:
            rate = scheduled(config.schedule, config.learning_rate, number, config.pretrain_epochs)
            loss = self.engine.epoch(number, rate)
            return {"phase": "pre-training", "loss": loss, "learning_rate": rate, **norms(self.parameters())}
        if number == config.pretrain_epochs and config.start == "pretrained":
            self.discriminator = pack(*unpack(self.generator, self.dim).values())
        d_sums, g_sums = np.zeros(2), np.zeros(3)
        for turn in range(config.discriminator_passes):
            self._pass("discriminator", f"{number} {turn}", config.discriminator_rate, d_sums)
        for turn in range(config.generator_passes):
            self._pass("generator", f"{number} {turn}", config.generator_rate, g_sums)
        return {
            "phase": "game",
            "loss": float(d_sums[0] / max(d_sums[1], 1)),
            "reward": float(g_sums[0] / max(g_sums[1], 1)),
            "ends_unobserved": float(g_sums[2] / max(g_sums[1], 1)),
            **norms(self.parameters()),
        }

    def _pass(self, who: Literal["discriminator", "generator"], what: str, rate: float, sums: kernels.F64) -> None:
        run = kernels.discriminator_pass if who == "discriminator" else kernels.generator_pass
        rates = Rates(POINTWISE, 1.0, 0.0, rate, self.config.game_regularization)
        order, draw = (key64(self.seed, f"graphgan {who} {purpose} {what}") for purpose in ("order", "draw"))
        players = self.generator, self.discriminator
        run(self.engine.tables, self._graph, *players, self._walks, rates, order, draw, sums)

    def parameters(self) -> State:
        return dict(unpack(self.generator, self.dim))

    def state(self) -> State:
        d = unpack(self.discriminator, self.dim)
        return unpack(self.generator, self.dim) | {f"discriminator.{name}": value for name, value in d.items()}

    def restore(self, state: State, number: int) -> None:
        self.engine.restore({name: state[name] for name in ("user", "item", "item_bias")})
        self.discriminator = pack(*(state[f"discriminator.{name}"] for name in ("user", "item", "item_bias")))
