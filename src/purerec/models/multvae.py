"""Mult-VAE: an autoencoder that predicts each person's next items, as probabilities that add up to one.

Liang, Krishnan, Hoffman, Jebara (2018), Variational Autoencoders for Collaborative Filtering.

    min  mean_u  -sum_i x_ui log softmax(f(z_u))_i + beta KL(N(m_u, s_u^2) || N(0, 1)),   z_u = m_u + s_u * noise
    (m_u, log s_u^2) = B tanh(A x_u / |x_u| + a) + b,   f(z) = W tanh(C z + c) + w

Made for implicit feedback. Items compete for a person's attention, so that items not chosen need not be treated as
negatives. Each input item is dropped with probability `dropout`, so that the task is to predict the rest, and beta
rises from zero, as in the paper. Adapted: one hidden layer on either side; w starts at the popularity of items.
Scores are f(m_u): a dot product of the last layer, found for a new person by one pass through the network.

An epoch costs 6 n_users c hidden operations; c is the number of items used by a step: those of its people, and
`sampled_columns` others, which stand for all the rest in the sum under the softmax. Use it where there are enough
people for a network to learn from. Needs torch (extra `torch`).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.models.contract.fitted_on import need_positives
from purerec.models.contract.foldin import Folding, tanh_ratio
from purerec.models.contract.iterative import EpochConfig, EpochModel, RateSchedule, scheduled
from purerec.models.contract.search_space import Floats, Ints, SearchSpace
from purerec.ranking.scorers import Factors
from purerec.rng import named_rng
from purerec.storage import Layout, Part
from purerec.training.history import Measures
from purerec.types import F32, I32, I64, State


class MultVAEConfig(EpochConfig):
    """Settings of Mult-VAE."""

    hidden: int = Field(default=200, ge=1, le=4096)
    """Units of the hidden layers, one before and one after the code."""
    latent: int = Field(default=64, ge=1, le=4096)
    """Numbers in the code."""
    dropout: float = Field(default=0.5, ge=0, lt=1)
    """Share of a person's items hidden from the network at each step."""
    beta: float = Field(default=0.2, ge=0, le=100)
    """Final weight of the divergence of a code from the normal distribution."""
    anneal: float = Field(default=0.5, ge=0, le=1)
    """Share of the epochs over which that weight rises from zero."""
    epochs: int = Field(default=100, ge=0, le=100_000)
    """Passes over the people."""
    sampled_columns: int = Field(default=2048, ge=1, le=1_000_000)
    """The most items used in a step that nobody in it has; if there are more, each stands for several,
    so that the cost of a step does not grow with the catalogue."""
    batch_size: int = Field(default=100, ge=1, le=100_000)
    """People per step; at most a fifth of all, so that an epoch on small data has several steps."""
    learning_rate: float = Field(default=1e-3, gt=0, le=1)
    """Initial learning rate of Adam."""
    schedule: RateSchedule = "cosine"
    """cosine: the rate falls to zero over the epochs; steps: to a fifth after two thirds of the epochs, to a
    twenty-fifth after eight ninths."""
    regularization: float = Field(default=0.0, ge=0, le=100)
    """L2 on the weights."""

    search_space: ClassVar[SearchSpace] = {
        "hidden": Ints(50, 600),
        "latent": Ints(8, 200),
        "dropout": Floats(0.1, 0.8, log=False),
        "beta": Floats(0.02, 1),
        "epochs": Ints(25, 200),
        "learning_rate": Floats(3e-4, 1e-2),
    }


class MultVAE(EpochModel):
    """Variational autoencoder with a multinomial likelihood."""

    name: ClassVar[str] = "multvae"
    config_class = MultVAEConfig
    config: MultVAEConfig

    def _fitting(self, train: Interactions, seed: int) -> MultVAEFitting:
        return MultVAEFitting(self.config, need_positives(train), seed)

    def _remedy(self) -> str:
        return f"lower learning_rate (now {self.config.learning_rate:g})"

    def _layout(self) -> Layout:
        return {
            "in_weight": Part(("items", "hidden")),
            "in_bias": Part(("hidden",)),
            "code_weight": Part(("2*latent", "hidden")),  # means and log variances
            "code_bias": Part(("2*latent",)),
            "decode_weight": Part(("hidden", "latent")),
            "decode_bias": Part(("hidden",)),
            "out_weight": Part(("items", "hidden")),
            "out_bias": Part(("items",)),
            "hidden": Part(("users", "hidden")),
        }

    # ------------------------------------------------------------------ scoring

    def factors(self) -> Factors | None:
        return Factors(self._params["hidden"], self._params["out_weight"], self._params["out_bias"])

    def _score(self, user_idx: I64) -> F32:
        n = self._params
        scores: F32 = n["hidden"][user_idx] @ n["out_weight"].T + n["out_bias"]
        return scores

    def _folding(self) -> Folding:
        return CodeFolding(self._params)


class CodeFolding:
    """A person's vector is the network's last hidden layer."""

    def __init__(self, weights: State) -> None:
        self._weights = weights

    def vector(self, history: I32) -> F32:
        return last_layer(self._weights, self._flowing_in(history).sum(0))

    def parts(self, history: I32, vector: F32) -> F32 | None:
        own, n = self._flowing_in(history), self._weights
        before_code = own.sum(0) + n["in_bias"]
        before_last = code_means(n, own.sum(0)) @ n["decode_weight"].T + n["decode_bias"]
        latent = n["decode_weight"].shape[1]
        of_code = (own * tanh_ratio(before_code)) @ n["code_weight"][:latent].T
        found: F32 = (of_code @ n["decode_weight"].T) * tanh_ratio(before_last)
        return found

    def _flowing_in(self, history: I32) -> F32:
        """(len(history), hidden) what each item adds to the first layer"""
        rows: F32 = self._weights["in_weight"][history]
        found: F32 = rows / np.float32(max(1, len(history)) ** 0.5)
        return found


def code_means(weights: State, sums: F32) -> F32:
    """m_u (..., latent), from the sums of the first layer over a person's items."""
    n, latent = weights, weights["decode_weight"].shape[1]
    found: F32 = np.tanh(sums + n["in_bias"]) @ n["code_weight"][:latent].T + n["code_bias"][:latent]
    return found


def last_layer(weights: State, sums: F32) -> F32:
    """The hidden layer before the scores (..., hidden)."""
    found: F32 = np.tanh(code_means(weights, sums) @ weights["decode_weight"].T + weights["decode_bias"])
    return found


class MultVAEFitting:
    """The network of one fit, as `training` expects it."""

    def __init__(self, config: MultVAEConfig, positives: Csr, seed: int) -> None:
        from purerec.engines.multvae import MultVAEEngine, MultVAESettings

        matrix = positives.to_scipy()
        settings = MultVAESettings(
            config.hidden,
            config.latent,
            config.dropout,
            config.sampled_columns,
            config.batch_size,
            config.regularization,
        )
        self.config, self.seed = config, seed
        self.engine = MultVAEEngine(matrix, settings, named_rng(seed, "init"))

    def epoch(self, number: int) -> Measures:
        c = self.config
        rising = c.anneal * c.epochs
        beta = c.beta * min(1.0, number / rising) if rising else c.beta
        rate = scheduled(c.schedule, c.learning_rate, number, c.epochs)
        loss = self.engine.epoch(named_rng(self.seed, f"multvae {number}"), learning_rate=rate, beta=beta)
        return {"phase": "autoencoder", "loss": loss, "beta": beta, "learning_rate": rate}

    def parameters(self) -> State:
        """The weights, and the last hidden layer of every person: all that scoring needs."""
        found: State = dict(self.engine.parameters())
        matrix = self.engine.matrix
        lengths = np.sqrt(np.maximum(np.diff(matrix.indptr), 1)).astype(np.float32)
        found["hidden"] = last_layer(found, np.asarray(matrix @ found["in_weight"]) / lengths[:, None])
        return found

    def state(self) -> State:
        return self.engine.state()

    def restore(self, state: State, number: int) -> None:
        self.engine.restore(state)
