"""CFGAN: a generator turns what a user bought into what the user would buy; a discriminator compares the two.

Chae, Kang, Kim, Lee (2018), CFGAN: A Generic Collaborative Filtering Framework based on Generative Adversarial
Networks.

    min_D  mean_u  softplus(-d(r_u | r_u)) + softplus(d(G(r_u) * (r_u + k_u) | r_u))
    min_G  mean_u  softplus(-d(G(r_u) * (r_u + k_u) | r_u)) + alpha * sum_{j in z_u} G(r_u)_j^2

r_u is a user's 0/1 vector over items, G(r_u) a vector of probabilities from a network with one hidden layer. If
only purchases were compared, answering 1 everywhere would be perfect, so some unobserved items, redrawn at each step,
are pulled to zero by a penalty (ZR: z_u, zero reconstruction), shown to the discriminator, whose real vectors have
zeros there (PM: k_u, partial masking), or both (ZP). The item-based form does the same on columns: an item's vector
over users. Adapted: the non-saturating loss for G (the paper has log(1 - D)); tanh units; G starts at the popularity
of items, without which it often collapses to zero at once; and the score is the network's output before the sigmoid,
which ranks the same and is a dot product of its last layer.

A pass of the generator costs 6 n_vectors c hidden operations, one of the discriminator a third of that; c is the
number of columns used by a step: those of its vectors, and `sampled_columns` others, which stand for all the rest.
Use it on dense data, where it is the strongest of the adversarial rivals; with a dozen items per user it memorises
them unless `hidden` is small. Needs torch (extra `torch`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.models.contract.fitted_on import need_positives
from purerec.models.contract.foldin import Folding, PairwiseFolding, tanh_ratio
from purerec.models.contract.iterative import EpochConfig, EpochModel, RateSchedule, scheduled
from purerec.models.contract.search_space import Choices, Floats, Ints, SearchSpace
from purerec.ranking.scorers import Factors
from purerec.rng import named_rng
from purerec.storage import Layout, Part
from purerec.training.history import Measures
from purerec.types import F32, I32, I64, State

if TYPE_CHECKING:
    from purerec.engines.cfgan import CFGANSettings

_FOLD_REGULARIZATION = 0.02


class CFGANConfig(EpochConfig):
    """Settings of CFGAN."""

    variant: Literal["zr", "pm", "zp"] = "zr"
    """How unobserved items are used. zr: pulled to zero; pm: shown to the discriminator; zp: both."""
    based: Literal["item", "user"] = "user"
    """Whose vectors are generated: items' vectors over users, or users' vectors over items."""
    hidden: int = Field(default=256, ge=1, le=4096)
    """Units of the generator's hidden layer."""
    discriminator_hidden: int = Field(default=64, ge=1, le=4096)
    """Units of the discriminator's hidden layer."""
    zero_reconstruction: float = Field(default=0.3, gt=0, le=1)
    """For zr and zp: share of the unobserved items that a step pulls to zero."""
    zero_weight: float = Field(default=0.07, ge=0, le=1e4)
    """For zr and zp: alpha, the weight of that pull relative to fooling the discriminator."""
    partial_masking: float = Field(default=0.1, gt=0, le=1)
    """For pm and zp: share of the unobserved items that a step shows to the discriminator."""
    epochs: int = Field(default=50, ge=0, le=100_000)
    """Rounds of discriminator and generator passes."""
    discriminator_passes: int = Field(default=1, ge=0, le=100)
    """Passes of the discriminator over all vectors in an epoch."""
    generator_passes: int = Field(default=1, ge=0, le=100)
    """Passes of the generator in an epoch."""
    sampled_columns: int = Field(default=2048, ge=1, le=1_000_000)
    """The most columns used in a step that are zero in all of its vectors; if there are more, each
    stands for several, so that the cost of a step does not grow with the catalogue."""
    batch_size: int = Field(default=128, ge=1, le=100_000)
    """Vectors per step; at most a fifth of all, so that an epoch on small data has several steps."""
    learning_rate: float = Field(default=1e-3, gt=0, le=1)
    """Initial learning rate of the generator's Adam."""
    discriminator_rate: float = Field(default=6e-4, gt=0, le=1)
    """Initial learning rate of the discriminator's Adam."""
    schedule: RateSchedule = "cosine"
    """cosine: both rates fall to zero over the epochs; steps: to a fifth after two thirds of the epochs, to a
    twenty-fifth after eight ninths."""
    regularization: float = Field(default=3e-5, ge=0, le=100)
    """L2 on the weights of both networks."""

    search_space: ClassVar[SearchSpace] = {
        "variant": Choices(("zr", "pm", "zp")),
        "based": Choices(("item", "user")),
        "hidden": Ints(64, 512),
        "zero_reconstruction": Floats(0.1, 0.9),
        "zero_weight": Floats(0.01, 1),
        "partial_masking": Floats(0.02, 0.5),
        "epochs": Ints(15, 100),
        "learning_rate": Floats(3e-4, 5e-3),
        "discriminator_rate": Floats(1e-4, 3e-3),
        "regularization": Floats(1e-6, 1e-3),
    }


class CFGAN(EpochModel):
    """Adversarial autoencoder of purchase vectors."""

    name: ClassVar[str] = "cfgan"
    config_class = CFGANConfig
    config: CFGANConfig

    # ------------------------------------------------------------------ fitting

    def _fitting(self, train: Interactions, seed: int) -> CFGANGame:
        return CFGANGame(self, need_positives(train), seed)

    def _remedy(self) -> str:
        return f"lower learning_rate (now {self.config.learning_rate:g}) or discriminator_rate"

    def _settings(self) -> CFGANSettings:
        from purerec.engines.cfgan import CFGANSettings

        c = self.config
        return CFGANSettings(
            hidden=c.hidden,
            discriminator_hidden=c.discriminator_hidden,
            zero_reconstruction=c.zero_reconstruction if c.variant != "pm" else 0.0,
            partial_masking=c.partial_masking if c.variant != "zr" else 0.0,
            zero_weight=c.zero_weight,
            sampled_columns=c.sampled_columns,
            batch_size=c.batch_size,
            discriminator_passes=c.discriminator_passes,
            generator_passes=c.generator_passes,
            learning_rate=c.learning_rate,
            discriminator_rate=c.discriminator_rate,
            regularization=c.regularization,
        )

    def _layout(self) -> Layout:
        # In the user-based form a vector is a user's, with an entry for each item; in the item-based, the reverse.
        rows, columns = ("users", "items") if self.config.based == "user" else ("items", "users")
        return {
            "in_weight": Part((columns, "hidden")),
            "in_bias": Part(("hidden",)),
            "out_weight": Part((columns, "hidden")),
            "out_bias": Part((columns,)),
            "hidden": Part((rows, "hidden")),
        }

    # ------------------------------------------------------------------ scoring

    def factors(self) -> Factors | None:
        n = self._params
        if self.config.based == "user":
            return Factors(n["hidden"], n["out_weight"], n["out_bias"])
        return Factors(n["out_weight"], n["hidden"])  # the bias is the user's and does not affect the ranking

    def _score(self, user_idx: I64) -> F32:
        n = self._params
        if self.config.based == "user":
            scores: F32 = n["hidden"][user_idx] @ n["out_weight"].T + n["out_bias"]
        else:
            scores = n["out_weight"][user_idx] @ n["hidden"].T + n["out_bias"][user_idx, None]
        return scores

    def _folding(self) -> Folding:
        """User-based: run the generator on the history. Item-based, where a new person has no output unit: fit the
        weights of such a unit to the history, over the items' hidden layer."""
        n = self._params
        if self.config.based == "user":
            return NetworkFolding(n["in_weight"], n["in_bias"])
        return PairwiseFolding(n["hidden"], None, _FOLD_REGULARIZATION, named_rng(0, "folding"))


class NetworkFolding:
    """A person's vector is the generator's hidden layer, tanh of a sum over their items."""

    def __init__(self, weight: F32, bias: F32) -> None:
        self._weight, self._bias = weight, bias

    def vector(self, history: I32) -> F32:
        found: F32 = np.tanh(self._weight[history].sum(0) + self._bias)
        return found

    def parts(self, history: I32, vector: F32) -> F32 | None:
        own = self._weight[history]
        found: F32 = own * tanh_ratio(own.sum(0) + self._bias)
        return found


class CFGANGame:
    """The two networks of one fit, as `training` expects them."""

    def __init__(self, model: CFGAN, positives: Csr, seed: int) -> None:
        from purerec.engines.cfgan import CFGANEngine

        matrix = positives.to_scipy()
        if model.config.based == "item":
            matrix = matrix.T.tocsr()
        self.config = model.config
        self.seed = seed
        self.engine = CFGANEngine(matrix, model._settings(), named_rng(seed, "init"))

    def epoch(self, number: int) -> Measures:
        factor = scheduled(self.config.schedule, 1.0, number, self.config.epochs)
        d_loss, g_loss = self.engine.epoch(named_rng(self.seed, f"cfgan {number}"), factor)
        return {
            "phase": "game",
            "loss": g_loss,
            "discriminator_loss": d_loss,
            "learning_rate": factor * self.config.learning_rate,
        }

    def parameters(self) -> State:
        """The generator's weights, and its hidden layer for every vector: all that scoring needs."""
        return dict(self.engine.network())

    def state(self) -> State:
        return self.engine.state()

    def restore(self, state: State, number: int) -> None:
        self.engine.restore(state)
