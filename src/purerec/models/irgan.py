"""IRGAN: a generator that draws items from a softmax, against a discriminator that tells them from positives.

Wang, Yu, Zhang, Gong, Xu, Wang, Zhang, Zhang (2017), IRGAN: A Minimax Game for Unifying Generative and
Discriminative Information Retrieval Models.

    min_g max_d  sum over u of  E_{i positive} log D(u, i) + E_{j ~ p_g(.|u)} log(1 - D(u, j))
    p_g(i|u) = softmax over i of g(u, i) / temperature
    D = sigmoid(d(u, i)) (pointwise) or sigmoid(d(u, i) - d(u, j)) (pairwise)

d and g are factors with an item bias. The generator cannot be differentiated through its draws, so it climbs the
policy gradient of the reward 2 D - 1, with importance sampling (a share of the samples are the user's positives,
which the softmax alone would hardly ever draw) and a baseline, the mean reward. Before the game the generator is
pre-trained as BPR with dynamic negatives; the discriminator starts at random, or there, too. Adapted: importance
weights are normalised, so that the gradient touches only the items sampled (see `engines.irgan_kernels`).

An epoch of the game costs (discriminator_passes + generator_passes) n_users softmaxes over all items, n_items d
each; one of pre-training costs what BPR's does. Use it to see what an adversarial ranker does: its quality is that of
the pre-training, to which no setting tried for the game added more than noise (see also Deshpande and Khapra
2020). Give validation data and patience, and the best epoch is kept.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from purerec.engines import irgan_kernels as kernels
from purerec.engines.negatives import RULES, Negatives
from purerec.engines.pairwise import Factors, PairwiseEngine, PairwiseSettings, Rules, pack, unpack
from purerec.engines.vectors import LANES
from purerec.interactions import Csr
from purerec.models.base import State
from purerec.models.factor_model import FactorConfig, FactorModel, norms, scheduled
from purerec.randomness import generator, key64
from purerec.training import Record

_MODES = {"pointwise": kernels.POINTWISE, "pairwise": kernels.PAIRWISE}


class IRGANConfig(FactorConfig):
    """Settings of IRGAN."""

    mode: Literal["pointwise", "pairwise"] = "pointwise"
    """Whether the discriminator looks at items one by one, or at a positive beside a generated item."""
    output: Literal["generator", "discriminator"] = "generator"
    """Which of the two ranks in the end."""
    epochs: int = Field(default=110, ge=0, le=100_000)
    """Epochs in all, pre-training included."""
    pretrain_epochs: int = Field(default=100, ge=0, le=100_000)
    """Of them, epochs of BPR before the game; learning_rate and schedule are theirs."""
    negatives: Negatives = "dns"
    """Of pre-training. uniform: a random unobserved item of the user; dns: of `candidates` such items the one with
    the highest score; drns: one of them at random, in proportion to exp(score)."""
    candidates: int = Field(default=10, ge=1, le=1000)
    """Items that dns and drns choose from."""
    start: Literal["pretrained", "random"] = "random"
    """Where the discriminator starts from; the generator always starts pre-trained."""
    discriminator_passes: int = Field(default=1, ge=0, le=1000)
    """Passes of the discriminator over the positives in an epoch of the game."""
    generator_passes: int = Field(default=1, ge=0, le=1000)
    """Steps of the generator for each user in an epoch of the game."""
    discriminator_rate: float = Field(default=0.015, gt=0, le=10)
    """Step size of the discriminator in the game."""
    generator_rate: float = Field(default=0.04, gt=0, le=10)
    """Step size of the generator in the game."""
    game_regularization: float = Field(default=0.01, ge=0, le=100)
    """L2 on the factors that a step of the game touches."""
    temperature: float = Field(default=2.0, gt=0, le=100)
    """Of the generator's softmax; small: draws come from the top of its ranking."""
    samples: int = Field(default=128, ge=2, le=100_000)
    """Draws for one step of the generator."""
    positive_share: float = Field(default=0.2, ge=0, lt=1)
    """Of these draws, how many are the user's positives (corrected for by importance weights)."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.pretrain_epochs > self.epochs:
            raise ValueError(
                f"pretrain_epochs={self.pretrain_epochs} is more than epochs={self.epochs}, which is all"
            )
        return self


class IRGAN(FactorModel):
    """Policy gradient against a discriminator."""

    name: ClassVar[str] = "irgan"
    config_class = IRGANConfig
    config: IRGANConfig

    def _game(self, positives: Csr, seed: int) -> IRGANGame:
        return IRGANGame(self, positives, seed)


class IRGANGame:
    """Pre-training and the game, as `training` wants them."""

    def __init__(self, model: IRGAN, positives: Csr, seed: int) -> None:
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
        rng = generator(seed, "irgan discriminator")
        self.discriminator = pack(
            rng.normal(0, config.init_std, (n_users, self.dim)).astype(np.float32),
            rng.normal(0, config.init_std, (n_items, self.dim)).astype(np.float32),
            np.zeros(n_items, np.float32),
        )
        width = self.discriminator.width
        self._work = kernels.Work(
            np.empty(n_users, np.int32),
            np.empty(-(-n_items // LANES) * LANES, np.float32),
            np.empty(n_items, np.float64),
            np.empty(config.samples, np.int32),
            np.empty(config.samples, np.float32),
            np.empty(config.samples, np.float32),
            np.empty(width, np.float32),
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
        d_sums, g_sums = np.zeros(2), np.zeros(2)
        for turn in range(config.discriminator_passes):
            self._discriminator_pass(f"{number} {turn}", d_sums)
        for turn in range(config.generator_passes):
            self._generator_pass(f"{number} {turn}", g_sums)
        return {
            "phase": "game",
            "loss": float(d_sums[0] / max(d_sums[1], 1)),
            "reward": float(g_sums[0] / max(g_sums[1], 1)),
            **norms(self.parameters()),
        }

    def _discriminator_pass(self, what: str, sums: kernels.F64) -> None:
        config = self.config
        rates = self._rates(config.discriminator_rate)
        rules = Rules(0, False, 1, 0.0, config.game_regularization, 0.0)
        keys = self._keys("discriminator", what)
        kernels.discriminator_pass(
            self.engine.tables, self.generator, self.discriminator, self._work, rates, rules, *keys, sums
        )

    def _generator_pass(self, what: str, sums: kernels.F64) -> None:
        rates, keys = self._rates(self.config.generator_rate), self._keys("generator", what)
        kernels.generator_pass(self.engine.tables, self.generator, self.discriminator, self._work, rates, *keys, sums)

    def _rates(self, rate: float) -> kernels.Rates:
        c = self.config
        return kernels.Rates(_MODES[c.mode], c.temperature, c.positive_share, rate, c.game_regularization)

    def _keys(self, who: str, what: str) -> tuple[np.uint64, np.uint64]:
        return key64(self.seed, f"irgan {who} order {what}"), key64(self.seed, f"irgan {who} draw {what}")

    def parameters(self) -> State:
        ranking = self.discriminator if self.config.output == "discriminator" else self.generator
        return unpack(ranking, self.dim)

    def state(self) -> State:
        d = unpack(self.discriminator, self.dim)
        return unpack(self.generator, self.dim) | {f"discriminator.{name}": value for name, value in d.items()}

    def restore(self, state: State, number: int) -> None:
        self.engine.restore({name: state[name] for name in ("user", "item", "item_bias")})
        self.discriminator = pack(*(state[f"discriminator.{name}"] for name in ("user", "item", "item_bias")))
