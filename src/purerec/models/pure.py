"""PURE: a discriminator with PU risk against generators of fake users and items.

Zhou, Xu, Wu, Taghavi Nasrabadi, Korpeoglu, Achan, He (2021), GAN-based Recommendation with Positive-Unlabeled
Sampling.

    min_G max_D  sum_P [prior log D(u, i) - prior log(1 - D(u, i))]
               + sum_U log(1 - D(u, i)) + log(1 - D(u, G_i(z))) + log(1 - D(G_u(z), i))      Eq. (final objective)

The first `pretrain_epochs` are those of PU-GMF, the paper's pre-training; the generators join for the rest.
An epoch costs what PU-GMF's costs, plus k d^2 per fake.

By default a person is described twice: by an embedding of their own, as in the paper, and by what they touched,

    score(u, i) = phi(u, i) + sum of S[j, i] over the items j of u

with item-to-item weights S in closed form: the PU risk with squared loss, all pairs as unlabeled, and a user
represented by the sum of their items (docs/theory.md). Each part captures what the other misses, and a new person
needs no training.

`PURE.paper(...)` is the paper's own form. By default, fakes have a small weight, are generated for a given item and
are no longer than real users are on average: a form that costs neither accuracy nor time. At full weight they hurt
accuracy in every form tried: at the game's equilibrium, D is constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.engines.pure.spec import GameSettings
from purerec.errors import ConfigError
from purerec.models.contract.fitted_on import Stopwatch, check_data
from purerec.models.contract.search_space import Choices, Floats, SearchSpace
from purerec.models.families.discriminator import DiscriminatorModel
from purerec.models.families.game import DiscriminatorGame
from purerec.models.families.history import HistoryConfig, WithHistory
from purerec.models.pugmf import PUGMF, PUGMFConfig
from purerec.paper.printed import printed_settings
from purerec.storage import Layout, Part
from purerec.training.history import Measures
from purerec.training.run import Run


class PUREConfig(HistoryConfig, PUGMFConfig):
    """Settings of PURE."""

    unlabeled_ratio: Annotated[float, Field(gt=0, le=10_000)] | None = None
    """Unlabeled pairs drawn per positive: C of the sampling bound. None: 16, or 128 if they are shared. The paper:
    1."""
    epochs: int = Field(default=30, ge=0, le=100_000)
    """Passes over the positives."""
    pretrain_epochs: int = Field(default=22, ge=0, le=100_000)
    """Epochs without generators before the game, out of `epochs`."""
    generators: Literal["item", "user", "both"] = "user"
    """Which side the fakes are of."""
    fake_weight: float = Field(default=0.001, ge=0, le=10)
    """Weight of the fakes relative to the sampled unlabeled pairs. The paper: 1."""
    fake_ratio: float = Field(default=0.05, gt=0, le=1)
    """Fakes per sampled unlabeled pair; with shared draws, per positive or item of a batch, whichever are fewer. The
    paper: 1."""
    generator_epochs: float = Field(default=0.1, ge=0, le=1000)
    """Passes of the generators per pass of the discriminator, each over as many unlabeled pairs as there are
    positives (n_p), however many the discriminator draws. The paper: 10, over n_u pairs, which at its C = 1 and its
    priors equals n_p to within 4 in 10,000."""
    generator_learning_rate: float = Field(default=1e-2, gt=0, le=10)
    """Learning rate of the generators' Adam."""
    hidden: int = Field(default=32, ge=1, le=4096)
    """Hidden units of a generator."""
    noise: float = Field(default=0.1, ge=0, le=100)
    """Standard deviation of the generators' Gaussian input: delta, written N(0, delta I) in the paper, where it is
    0.01."""
    conditional: bool = True
    """Whether the item generator sees the user that its fake item is for, and vice versa."""
    output: Literal["relu", "linear"] = "linear"
    """Last activation of the generators. The paper: relu."""
    constraint: Literal["none", "norm", "recolour"] = "norm"
    """What keeps the fakes close to real embeddings. recolour: the real mean and covariance; norm: at most the real
    mean norm; none: nothing, as in the paper."""
    generator_loss: Literal["nonsaturating", "saturating"] = "nonsaturating"
    """nonsaturating: -log D, as in Algorithm 1; saturating: log(1 - D), as in the final objective."""

    search_space: ClassVar[SearchSpace] = {
        **PUGMFConfig.search_space,
        **HistoryConfig.search_space,
        "generators": Choices(("item", "user", "both")),
        "fake_weight": Floats(1e-4, 0.3),
        "generator_learning_rate": Floats(0.001, 0.1),
        "noise": Floats(0.01, 1),
    }
    default_ratio: ClassVar[float] = 16.0
    default_shared: ClassVar[float] = 128.0


class PUREGame(DiscriminatorGame):
    """A fit of PURE."""

    model: PURE

    def play(self, number: int, learning_rate: float) -> Measures:
        """One round of Algorithm 1; before that, pre-training epochs without generators."""
        config = self.model.config
        if not self.is_pretrained and number < config.pretrain_epochs:
            return super().play(number, learning_rate) | {"phase": "pre-training"}
        stats = self.engine.train_discriminator(learning_rate=learning_rate, use_fakes=True)
        record: Measures = {
            "phase": "the game",
            "loss": stats.loss,
            "D(positive)": stats.d_positive,
            "D(unlabeled)": stats.d_unlabeled,
            "D(fake)": stats.d_fake,
            "fake_norm": stats.fake_norm,
        }
        if config.generator_epochs > 0:
            steps = max(1, round(config.generator_epochs * len(self.positives) / self.settings.batch_size))
            made = self.engine.train_generators(learning_rate=config.generator_learning_rate, steps=steps)
            record["generator_loss"] = made.loss
        return record


class PURE(WithHistory, PUGMF):
    """Embeddings trained with positive-unlabeled risk and generated fakes, and weights between a person's items.

    The defaults are more accurate than the paper's form, which is `PURE.paper(...)`: see docs/paper.md.
    """

    name: ClassVar[str] = "pure"
    game_class = PUREGame
    config_class = PUREConfig
    config: PUREConfig

    @classmethod
    def paper(cls, data: str = "ml-100k", **changes: Any) -> Self:
        """The paper's own form, exactly as in its table 'Reproducible parameter setting'.

        Algorithm 1 with n_u from the bound, unconditional two-layer ReLU generators on both sides, fakes as heavy
        as sampled pairs, local epochs 1 and 10, Adam at a constant rate, pre-training of the same length.
        """
        tables = printed_settings()
        if not isinstance(data, str) or data not in tables:
            raise ConfigError(f"the paper has settings for {', '.join(tables)}, not for {data!r}")
        printed = dict(tables[data])
        rounds = printed.pop("epochs")
        if "epochs" in changes:  # half of any other number is pre-training, too
            changes = {"pretrain_epochs": cls(epochs=changes["epochs"]).config.epochs // 2, **changes}
        form: dict[str, Any] = {
            "epochs": 2 * rounds,
            "pretrain_epochs": rounds,
            "unlabeled_ratio": 1.0,
            "unlabeled": "global",
            "scorer": "gmf",
            "schedule": "constant",
            "regularization": 0.0,
            "stratified": False,
            "users": "free",
            "generators": "both",
            "fake_weight": 1.0,
            "fake_ratio": 1.0,
            "generator_epochs": 10.0,
            "generator_learning_rate": printed["learning_rate"],
            "conditional": False,
            "output": "relu",
            "constraint": "none",
        }
        return cls(**{**form, **printed, **changes})

    def fit(
        self,
        train: Interactions,
        *,
        valid: Interactions | None = None,
        seed: int = 0,
        run: Run | None = None,
        pretrained: PUGMF | None = None,
    ) -> Self:
        """Like every model's `fit`. From the parameters of a fitted PUGMF, there is no pre-training: all `epochs` are
        rounds of the game. In the paper's form: `PURE.paper(epochs=100).fit(train, pretrained=...)`, 200 on Yelp."""
        if pretrained is None:
            return super().fit(train, valid=valid, seed=seed, run=run)
        check_data(train, valid, self.item_table)
        if not isinstance(pretrained, DiscriminatorModel):
            raise ConfigError(f"pretrained takes a fitted PUGMF, not {pretrained!r}")
        if pretrained.users != train.users or pretrained.items != train.items:
            raise ConfigError("the pre-trained model was fitted on other data; fit it on the same train part")
        others = len(pretrained.seen) - pretrained.seen.overlap(train.positives)
        if others:  # perhaps of the test part, which no later check would find
            raise ConfigError(
                f"the pre-trained model was fitted on {others:,} positives that are not in this train part; fit it "
                "on the same train part"
            )
        if pretrained.config.scorer != self.config.scorer:
            raise ConfigError(f"the pre-trained model scores by {pretrained.config.scorer}, not {self.config.scorer}")
        start, watch = pretrained.learned, Stopwatch()
        dim = start.params["user"].shape[1]
        if self.config.dim not in (None, dim):
            raise ConfigError(f"the pre-trained model has dim={dim}, this one {self.config.dim}; set dim={dim}")
        as_wide = self._with_settings({"dim": dim})
        game = as_wide._fitting(train, seed, dict(start.params))
        learned = as_wide._train(game, train, valid, seed, run or Run(), start)
        self._finish_fit(learned, train, seed, watch.seconds)
        return self

    @classmethod
    def _upgraded(cls, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        return super()._upgraded({"users": "free", **settings})

    # ------------------------------------------------------------------ the game

    def choosing_epoch(self) -> int:
        return self.config.pretrain_epochs

    def _chooses_width(self) -> bool:
        """Not with relu outputs: narrowing rotates the embeddings, and relu fakes cannot be rotated with them."""
        return super()._chooses_width() and self.config.output == "linear"

    def _settings_to_continue(self, epochs: int | None) -> dict[str, Any]:
        """The generators are already trained, and the weight of the history is kept."""
        kept: dict[str, Any] = {"history_weight": self.learned.weight, "pretrain_epochs": 0}
        if "history_regularization" in self.fitted_on.resolved:
            kept["history_regularization"] = self.fitted_on.resolved["history_regularization"]
        return super()._settings_to_continue(epochs) | kept

    def _settings(self, positives: Csr) -> GameSettings:
        """The settings of PU-GMF plus generators."""
        config = self.config
        return replace(
            super()._settings(positives),
            generators=config.generators,
            fake_weight=config.fake_weight,
            fake_ratio=config.fake_ratio,
            hidden=config.hidden,
            noise=config.noise,
            conditional=config.conditional,
            output=config.output,
            constraint=config.constraint,
            generator_loss=config.generator_loss,
        )

    def _layout(self) -> Layout:
        sides = ("item", "user") if self.config.generators == "both" else (self.config.generators,)
        wide = "2*dim" if self.config.conditional else "dim"
        found = dict(super()._layout())
        for side in sides:
            found |= {
                f"{side}_gen.w1": Part(("hidden", wide)),
                f"{side}_gen.b1": Part(("hidden",)),
                f"{side}_gen.w2": Part(("dim", "hidden")),
                f"{side}_gen.b2": Part(("dim",)),
            }
        return found
