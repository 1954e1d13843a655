"""Shared by GMF, PU-GMF and PURE: a discriminator on embeddings, trained on positives and unlabeled pairs.

GMF is this with the PN risk. PU-GMF changes the risk, PURE adds generators and the person's history.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.engines.pure.registry import EngineChoice, chosen_engine
from purerec.engines.pure.spec import GameSettings, Params, ScorerName
from purerec.errors import ConfigError
from purerec.models.contract.config import Config
from purerec.models.contract.data_defaults import chance_penalty, default_dim, observed_share
from purerec.models.contract.fitted_on import need_positives
from purerec.models.contract.foldin import Folding
from purerec.models.contract.iterative import EpochConfig, EpochModel, Fitting, RateSchedule
from purerec.models.contract.search_space import Floats, Ints, SearchSpace
from purerec.models.contract.trained import Trained
from purerec.models.families.foldin import folding_of
from purerec.models.families.game import DiscriminatorGame
from purerec.models.families.held_out import Form, HeldOutPairs, hold_out
from purerec.models.families.scorers import SCORER_PARTS, dot_product, module_scores, narrowed, scores
from purerec.ranking.scorers import Factors
from purerec.rng import named_rng
from purerec.sampling.dynamic import Negatives
from purerec.storage import Layout, Part, check_layout
from purerec.storage.structure import check_finite
from purerec.types import F32, I32, I64, State


def default_regularization(positives: Csr) -> float:
    """The default L2."""
    return chance_penalty(0.95, positives)


_LARGE = 10_000
"""In catalogues of more items than this, a few draws for each positive miss what matters, so batches share draws"""
_FEWEST_SHARED, _SHARED_WIDTH = 64, 64
_BEFORE_CHOICE = 0.75
"""Share of the epochs before the width is chosen"""


class DiscriminatorConfig(EpochConfig):
    """Settings of a discriminator."""

    dim: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Width of the embeddings. None: trained with 16, or 32 for more than 2,000 users, or 64 if draws are shared;
    then narrowed to what best ranks pairs held out of the first epochs (scorers mf and fm; not with fewer
    than about 500 people or 2,000 positives). The paper: 5, 8 and 16 for its three data sets."""
    scorer: ScorerName = "fm"
    """phi(u, i). mf: e_u.e_i; gmf: (e_u * e_i).r; bilinear: e_u M e_i; fm: e_u.e_i and user and item biases;
    mlp: a network on both embeddings (engine torch). The paper: gmf; free embeddings absorb its r."""
    prior: Annotated[float, Field(gt=0, lt=1)] | Literal["per_user"] | None = None
    """What share of all pairs is relevant. None: the share that is observed."""
    unlabeled_ratio: Annotated[float, Field(gt=0, le=10_000)] | None = None
    """Unlabeled pairs drawn per positive: C of the sampling bound. None: 8, or 256 if they are shared."""
    unlabeled: Literal["auto", "per_user", "global", "popularity", "shared"] = "auto"
    """Where they come from. per_user: unobserved items of the positive's user; global: all unobserved pairs alike;
    popularity: unobserved items of the positive's user, in proportion to their popularity; shared: a batch draws
    `unlabeled_ratio` items, which are compared with the users of all of its positives. auto: shared in catalogues of
    more than 10,000 items (engine cpu; not with a ratio below 64), else per_user."""
    negatives: Negatives = "uniform"
    """uniform: unlabeled pairs as they are drawn, as the PU risk assumes; dns: the highest-scoring of `candidates`
    items for a user; drns: one of them at random, in proportion to exp(score)."""
    candidates: int = Field(default=10, ge=1, le=1000)
    """Items that dns and drns choose from."""
    epochs: int = Field(default=60, ge=0, le=100_000)
    """Passes over the positives."""
    batch_size: int = Field(default=256, ge=1, le=1_000_000)
    """Positives per step; at most an eighth of all positives, but no fewer than 32."""
    learning_rate: float = Field(default=1e-2, gt=0, le=10)
    """Initial learning rate of Adam."""
    schedule: RateSchedule = "cosine"
    """cosine: the rate falls to zero over the epochs; steps: to a fifth after two thirds of the epochs, to a
    twenty-fifth after eight ninths."""
    regularization: Annotated[float, Field(ge=0, le=1e6)] | None = None
    """L2 on the embeddings of sampled pairs, relative to the weight of a positive. None: a little below the
    level at which a random log as sparse as this one shows structure."""
    init_std: float = Field(default=0.1, gt=0, le=10)
    """Standard deviation of the initial embeddings."""
    epsilon: float = Field(default=1e-8, gt=0, le=1)
    """Epsilon of Adam. The objective is divided by the prior, so that this stays small relative to the gradients."""
    engine: EngineChoice = "auto"
    """cpu: compiled kernels; torch: autograd, any scorer, GPU. auto: cpu if it supports the scorer."""

    search_space: ClassVar[SearchSpace] = {
        "dim": Ints(4, 64, start=lambda positives: DiscriminatorConfig().width(positives)),
        "epochs": Ints(20, 200),
        "learning_rate": Floats(0.002, 0.05),
        "regularization": Floats(0.01, 0.6, start=default_regularization),
        "batch_size": Ints(64, 1024),
        "prior": Floats(0.0005, 0.5, start=observed_share),
    }

    @model_validator(mode="after")
    def _draws_fit(self) -> Self:
        if self.unlabeled == "shared" and self.negatives != "uniform":
            raise ValueError(f"negatives='{self.negatives}' chooses for each positive; use unlabeled='per_user'")
        return self

    default_ratio: ClassVar[float] = 8.0
    """The default of `unlabeled_ratio` if draws are not shared"""
    default_shared: ClassVar[float] = 256.0
    """Its default if they are"""

    def shares_draws(self, n_items: int) -> bool:
        """Whether batches share their draws in a catalogue of this size."""
        if self.unlabeled != "auto":
            return self.unlabeled == "shared"
        has_few = self.unlabeled_ratio is not None and self.unlabeled_ratio < _FEWEST_SHARED
        can_share = self.negatives == "uniform" and not isinstance(self.prior, str)
        is_fast = self.engine != "torch" and self.scorer != "mlp"
        return n_items > _LARGE and can_share and is_fast and not has_few

    def width(self, positives: Csr) -> int:
        """The width of the embeddings during training on this log."""
        if self.dim is not None:
            return self.dim
        n_users, n_items = positives.shape
        # 16 pays off even for a hundred users: the L2 leaves what they do not support near zero.
        return _SHARED_WIDTH if self.shares_draws(n_items) else max(16, default_dim(n_users))

    def draws_per_positive(self, n_items: int) -> float:
        """C, in a catalogue of this size."""
        default = self.default_shared if self.shares_draws(n_items) else self.default_ratio
        return default if self.unlabeled_ratio is None else self.unlabeled_ratio


class DiscriminatorModel(EpochModel):
    """Base of GMF, PUGMF and PURE."""

    game_class: ClassVar[type[DiscriminatorGame]] = DiscriminatorGame
    """How it is fitted"""
    config: DiscriminatorConfig

    def __init__(self, config: Config | None = None, *, scorer_module: Any = None, **settings: Any) -> None:
        """`scorer_module`: a torch module from (n, d) and (n, d) embeddings to (n,) logits, in place of `scorer`."""
        super().__init__(config, **settings)
        chosen_engine(self.config.engine, self.config.scorer, scorer_module)
        self.scorer_module = scorer_module

    # ------------------------------------------------------------------ fitting

    def _fitting(self, train: Interactions, seed: int, start: Params | None = None) -> DiscriminatorGame:
        """`start`: initial parameters in place of random ones."""
        positives = need_positives(train)
        settings = self._settings(positives)
        split = None
        if start is None and self._chooses() and 0 < self.choosing_epoch() < self.config.epochs:
            split = hold_out(positives, named_rng(seed, "held out"))
        return self.game_class(self, positives, settings, seed, start, split)

    def _extract(self, fitting: Fitting, positives: Csr) -> Trained:
        """The parameters, narrowed once a width is chosen."""
        assert isinstance(fitting, DiscriminatorGame)
        params = fitting.parameters()
        return Trained(params if fitting.chosen is None else narrowed(params, fitting.chosen.width))

    def _settings(self, positives: Csr) -> GameSettings:
        """The game of this config on this log, with data-dependent settings resolved."""
        config, n, l2 = self.config, len(positives), self.config.regularization
        n_items = positives.shape[1]
        is_shared = config.shares_draws(n_items)
        return GameSettings(
            dim=config.width(positives),
            scorer=config.scorer,
            risk="pn",
            prior=config.prior if isinstance(config.prior, float) else observed_share(positives),
            unlabeled="shared" if is_shared else "per_user" if config.unlabeled == "auto" else config.unlabeled,
            negatives=config.negatives,
            candidates=config.candidates,
            unlabeled_per_epoch=math.ceil(config.draws_per_positive(n_items) * n),
            # Smaller batches with few positives: otherwise an epoch is a step or two, and there are too few epochs.
            batch_size=min(config.batch_size, max(32, n // 8)),
            regularization=default_regularization(positives) if l2 is None else l2,
            epsilon=config.epsilon,
            init_std=config.init_std,
        )

    def resolved(self, positives: Csr) -> dict[str, int | float]:
        settings = self._settings(positives)
        found = {
            "dim": settings.dim,
            "prior": settings.prior,
            "unlabeled_ratio": self.config.draws_per_positive(positives.shape[1]),
            "regularization": settings.regularization,
        }
        return {name: value for name, value in found.items() if getattr(self.config, name) is None}

    # ------------------------------------------------------------------ choices on held-out pairs

    def choosing_epoch(self) -> int:
        """The epoch before which the form is chosen, and from which on all pairs are used."""
        return round(_BEFORE_CHOICE * self.config.epochs)

    def _chooses(self) -> bool:
        """Whether anything is chosen on held-out pairs."""
        return self._chooses_width()

    def _chooses_width(self) -> bool:
        """Only for a plain product of embeddings, which can be approximated well in fewer dimensions."""
        return self.config.dim is None and self.config.scorer in ("mf", "fm") and self.scorer_module is None

    def choose_form(self, game: DiscriminatorGame, held_out: HeldOutPairs) -> Form:
        """The form that best ranks the pairs that the parameters have not seen."""
        embeddings = dot_product(self.config.scorer, game.parameters())
        assert embeddings is not None, "only products choose"
        return held_out.best(embeddings, {}, narrow=self._chooses_width())

    # ------------------------------------------------------------------ storing

    def _layout(self) -> Layout:
        return {**super()._layout(), "bias": Part((1,)), **SCORER_PARTS[self.config.scorer]}

    def _check_state(self, state: State, sizes: Mapping[str, int]) -> None:
        own = {name: array for name, array in state.items() if name.startswith("scorer.")}
        if not own:
            super()._check_state(state, sizes)
            return
        for name, array in own.items():  # only a custom module knows what its arrays look like
            check_finite(name, array)
        unused = SCORER_PARTS[self.config.scorer]
        layout = {name: part for name, part in self._layout().items() if name not in unused}
        check_layout({name: array for name, array in state.items() if name not in own}, layout, sizes)

    # ------------------------------------------------------------------ scoring

    def factors(self) -> Factors | None:
        return self._embeddings()

    def _embeddings(self) -> Factors | None:
        """phi as a dot product, up to a constant for each user, if it is one."""
        return None if self._has_own_scorer() else dot_product(self.config.scorer, self._params)

    def _score(self, user_idx: I64) -> F32:
        if self._has_own_scorer():
            return module_scores(self.scorer_module, self._params, user_idx)
        return scores(self.config.scorer, self._params, user_idx)

    def _folding(self) -> Folding | None:
        parts = self._embeddings()
        return None if parts is None else folding_of(parts, self._params, self._settings(self.seen), self.seen)

    def _score_history(self, item_idx: I32) -> F32:
        raise ConfigError(f"{self.name} with a network as scorer cannot recommend for new people; use fm")

    def _has_own_scorer(self) -> bool:
        return any(name.startswith("scorer.") for name in self._params) or self.scorer_module is not None
