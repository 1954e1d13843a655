"""Shared by IRGAN and GraphGAN: a generator pre-trained as BPR, then trained alternately with a discriminator.

Both players are factors with an item bias. The generator draws items, which cannot be differentiated through, so it
follows a policy gradient (`engines.irgan`, `engines.graphgan`); the two differ in how it draws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from purerec.data.pairs import Csr
from purerec.engines.bpr import FactorTables, PairwiseEngine, PairwiseSettings, pack, unpack, vectors
from purerec.models.contract.iterative import scheduled
from purerec.models.contract.search_space import Floats, Ints, SearchSpace
from purerec.models.families.pairwise_mf import FactorConfig, FactorModel
from purerec.rng import key64, named_rng
from purerec.sampling.dynamic import RULES, Negatives
from purerec.training.history import Measures, mean_norms
from purerec.types import F64, State

Player = Literal["discriminator", "generator"]


class PolicyConfig(FactorConfig):
    """Settings of both."""

    epochs: int = Field(default=110, ge=0, le=100_000)
    """Total number of epochs, pre-training included."""
    pretrain_epochs: int = Field(default=100, ge=0, le=100_000)
    """How many of these are epochs of BPR before the game; learning_rate and schedule apply to them."""
    negatives: Negatives = "dns"
    """Negatives of pre-training. uniform: a random unobserved item of the user; dns: the highest-scoring of
    `candidates` such items; drns: one of them at random, in proportion to exp(score)."""
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

    search_space: ClassVar[SearchSpace] = {
        **FactorConfig.search_space,
        "epochs": Ints(100, 150, log=False),
        "candidates": Ints(2, 50),
        "discriminator_rate": Floats(0.002, 0.2),
        "generator_rate": Floats(0.0005, 0.4),
        "game_regularization": Floats(0.001, 0.1),
    }

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.pretrain_epochs > self.epochs:
            raise ValueError(
                f"pretrain_epochs={self.pretrain_epochs} is more than epochs={self.epochs}, which is all"
            )
        return self


def settings_to_continue(settings: dict[str, Any], *, ranking: Player) -> dict[str, Any]:
    """Settings to learn more data as in pre-training, to which the game would add only noise.

    If the discriminator ranks, only its parameters are stored: the generator starts from them in its place and hands
    them back for one epoch of the game.
    """
    if ranking == "generator":
        return settings | {"pretrain_epochs": settings["epochs"]}
    return settings | {"pretrain_epochs": settings["epochs"] - 1, "start": "pretrained"}


class PolicyGame(ABC):
    """Pre-training and the game, as `training` expects them."""

    def __init__(self, model: FactorModel, config: PolicyConfig, positives: Csr, seed: int) -> None:
        self._name, self._config, self._seed = model.name, config, seed
        n_users, n_items = positives.shape
        self.dim, self._rate = model._dim(n_users), model._rate(n_users)
        settings = PairwiseSettings(
            dim=self.dim,
            rule=RULES[config.negatives],
            candidates=config.candidates,
            regularization=model._regularization(positives),
            bias_regularization=config.bias_regularization,
            init_std=config.init_std,
        )
        self.engine = PairwiseEngine(positives, settings, seed=seed)
        rng = named_rng(seed, f"{self._name} discriminator")
        self.discriminator = pack(
            rng.normal(0, config.init_std, (n_users, self.dim)).astype(np.float32),
            rng.normal(0, config.init_std, (n_items, self.dim)).astype(np.float32),
            np.zeros(n_items, np.float32),
        )

    @abstractmethod
    def _pass(self, who: Player, rate: float, order: np.uint64, draw: np.uint64, sums: F64) -> None:
        """One pass of a player; adds its losses or rewards, and their number, to `sums`."""

    @property
    def generator(self) -> FactorTables:
        return self.engine.factors

    @property
    def ranking(self) -> FactorTables:
        """The player that makes the lists."""
        return self.generator

    def epoch(self, number: int) -> Measures:
        config = self._config
        if number < config.pretrain_epochs:
            rate = scheduled(config.schedule, self._rate, number, config.pretrain_epochs)
            loss = self.engine.epoch(number, rate)
            return {
                "phase": "pre-training",
                "loss": loss,
                "learning_rate": rate,
                **mean_norms(vectors(self.ranking, self.dim)),
            }
        if number == config.pretrain_epochs and config.start == "pretrained":
            self.discriminator = pack(*unpack(self.generator, self.dim).values())
        d_sums = self._passes("discriminator", config.discriminator_passes, config.discriminator_rate, number)
        g_sums = self._passes("generator", config.generator_passes, config.generator_rate, number)
        return {
            "phase": "game",
            "loss": float(d_sums[0] / max(d_sums[1], 1)),
            "reward": float(g_sums[0] / max(g_sums[1], 1)),
            **self._more(g_sums),
            **mean_norms(vectors(self.ranking, self.dim)),
        }

    def _passes(self, who: Player, passes: int, rate: float, number: int) -> F64:
        sums = np.zeros(3)
        for turn in range(passes):
            self.play(who, f"{number} {turn}", rate, sums)
        return sums

    def play(self, who: Player, when: str, rate: float, sums: F64) -> None:
        """One pass of one player; `when` separates its random draws from those of other passes."""
        order, draw = (key64(self._seed, f"{self._name} {who} {what} {when}") for what in ("order", "draw"))
        self._pass(who, rate, order, draw, sums)

    def _more(self, sums: F64) -> Measures:
        """Further measures from the generator's passes."""
        return {}

    def parameters(self) -> State:
        return dict(unpack(self.ranking, self.dim))

    def state(self) -> State:
        d = unpack(self.discriminator, self.dim)
        return unpack(self.generator, self.dim) | {f"discriminator.{name}": value for name, value in d.items()}

    def restore(self, state: State, number: int) -> None:
        self.engine.restore({name: state[name] for name in ("user", "item", "item_bias")})
        self.discriminator = pack(*(state[f"discriminator.{name}"] for name in ("user", "item", "item_bias")))
