"""The contract of every model: a validated config, `fit`, `score`, `recommend`, `save`.

A model sees internal indices only; external ids are translated at its door.
"""

from __future__ import annotations

import difflib
import os
import time
from abc import abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy.typing as npt
import polars as pl
from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator

from purerec import storage
from purerec.data.interactions import Csr, Interactions
from purerec.data.vocabulary import Vocabulary
from purerec.errors import ConfigError, DataError, NotFittedError, StoreError
from purerec.models.contract.answering import Usable
from purerec.models.contract.search_space import SearchSpace
from purerec.models.contract.updating import update
from purerec.training.run import Run

State = dict[str, npt.NDArray[Any]]


class Config(BaseModel):
    """Settings of a model: frozen, bounded, and closed to unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    search_space: ClassVar[SearchSpace] = {}
    """What `purerec tune` may change, and how far."""

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_value_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        # pydantic takes True for 1
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation is not bool:
            raise ValueError("is a truth value; give a number or a text")
        return value


class Recommender(Usable):
    """Base of all models: this file fits and stores them, `using` has what they are asked."""

    name: ClassVar[str]
    """Its name at the command line."""
    config_class: ClassVar[type[Config]] = Config
    personalised: ClassVar[bool] = True
    """Whether different people may get different lists."""
    continues: ClassVar[bool] = False
    """Whether more data can be learned from where the last fit ended; else an update fits anew."""

    def __init__(self, config: Config | None = None, **settings: Any) -> None:
        if config is not None and settings:
            raise ConfigError("give either a config or single settings, not both")
        self.config = config if config is not None else make_config(type(self), settings)
        if not isinstance(self.config, self.config_class):
            raise ConfigError(f"{self.name} takes a {self.config_class.__name__}, not a {type(config).__name__}")
        self._users: Vocabulary | None = None
        self._made = {}

    def __repr__(self) -> str:
        changed = {k: v for k, v in self.config if v != type(self.config).model_fields[k].default}
        settings = ", ".join(f"{k}={v!r}" for k, v in changed.items())
        return f"{type(self).__name__}({settings}){'' if self.is_fitted else ', not fitted'}"

    # ------------------------------------------------------------------ to be written by each model

    @abstractmethod
    def _fit(self, train: Interactions, valid: Interactions | None, seed: int, run: Run) -> None:
        """Learn from `train.positives` (or its ratings)."""

    @abstractmethod
    def _state(self) -> State:
        """What was learned, as arrays."""

    @abstractmethod
    def _set_state(self, state: State) -> None:
        """The inverse of `_state`."""

    @abstractmethod
    def _layout(self) -> storage.Layout:
        """What `_state` looks like: the type and shape of each array, in `users`, `items` and names of settings."""

    def _continue(self, train: Interactions, epochs: int | None, seed: int, run: Run) -> int:
        """Go on from what was learned, on a log that has grown; how many epochs that took. If `continues`."""
        raise NotImplementedError

    def _check_update(self) -> None:
        """An error if the model cannot learn from more data."""

    # ------------------------------------------------------------------ fitting

    def fit(
        self, train: Interactions, *, valid: Interactions | None = None, seed: int = 0, run: Run | None = None
    ) -> Self:
        """Fit on the positives of `train`; `valid`, if given, decides only when to stop."""
        if not len(train):
            raise DataError("there is nothing to fit on: the train part has no interactions")
        if valid is not None and (valid.users != train.users or valid.items != train.items):
            raise DataError("train and valid must share their vocabularies; make them with split()")
        start = time.perf_counter()
        self._fit(train, valid, seed, run or Run())
        self._remember(train, seed, time.perf_counter() - start)
        return self

    def update(self, new: Interactions, *, seed: int = 0, run: Run | None = None, epochs: int | None = None) -> Self:
        """Learn from new interactions on top of those fitted on; new users and items get rows of their own.

        Models in epochs go on from where they are, for `epochs` (None: a share of those of a fit); the others are
        fitted anew to all positives. See `purerec.models.contract.updating`.
        """
        return update(self, new, seed=seed, run=run, epochs=epochs)

    def _remember(self, train: Interactions, seed: int, seconds: float) -> None:
        self._users, self._items, self._labels = train.users, train.items, train.item_labels
        self._seen = train.positives
        self._made = {}
        self.fitted_on: dict[str, Any] = {
            "name": train.name,
            "fingerprint": train.fingerprint,
            "users": train.n_users,
            "items": train.n_items,
            "interactions": len(train),
            "positives": train.n_positives,
            "positive_rating": train.positive_rating,
            "seed": seed,
            "fitted_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "fit_seconds": round(seconds, 3),
        }

    @property
    def is_fitted(self) -> bool:
        return self._users is not None

    @property
    def users(self) -> Vocabulary:
        self._need_fit()
        assert self._users is not None
        return self._users

    @property
    def items(self) -> Vocabulary:
        self._need_fit()
        return self._items

    @property
    def labels(self) -> pl.Series | None:
        self._need_fit()
        return self._labels

    @property
    def seen(self) -> Csr:
        """The positives that the model was fitted on."""
        self._need_fit()
        return self._seen

    def _need_fit(self) -> None:
        if not self.is_fitted:
            raise NotFittedError(f"{self.name} is not fitted yet; call fit(train) first")

    # ------------------------------------------------------------------ storing

    def save(self, path: str | os.PathLike[str], *, files: Mapping[str, bytes] | None = None, **facts: Any) -> Path:
        """Write the fitted model to a folder; `facts` (such as metrics) go into its manifest."""
        self._need_fit()
        own = {"model": self.name, "config": self.config.model_dump(mode="json"), "fitted_on": self.fitted_on}
        if taken := (own | self._facts()).keys() & facts:
            raise ConfigError(f"{min(taken)!r} has a meaning of its own in a manifest; give that fact another name")
        tensors = {f"model.{name}": array for name, array in self._state().items()}
        tensors |= storage.pack_vocabulary(self.users) | storage.pack_vocabulary(self.items)
        tensors |= {"seen.indptr": self._seen.indptr, "seen.indices": self._seen.indices}
        if self._labels is not None:
            tensors |= storage.pack_strings("item.labels", self._labels)
        manifest = {**own, **self._facts(), **facts}
        return storage.write_folder(path, kind="model", manifest=manifest, tensors=tensors, files=files)

    def _facts(self) -> dict[str, Any]:
        """More for the manifest, such as how training went."""
        return {}

    @classmethod
    def _from_stored(cls, stored: storage.Stored, where: str) -> Self:
        try:
            model = cls(make_config(cls, stored.manifest["config"]))
            model.fitted_on = _checked_facts(stored.manifest["fitted_on"])
            model._take(stored.tensors)
        except (KeyError, TypeError, ValueError, AttributeError, StoreError) as error:
            raise StoreError(f"{where}: the folder does not fit this version of {cls.name} ({error})") from None
        return model

    def _take(self, tensors: Mapping[str, storage.Array]) -> None:
        """What `save` wrote, checked: nothing that makes no sense gets as far as the code that computes with it."""
        self._users, self._items = (storage.unpack_vocabulary(what, tensors) for what in ("user", "item"))
        labelled = "item.labels.ends" in tensors
        self._labels = storage.unpack_strings("item.labels", tensors) if labelled else None
        shape = (len(self._users), len(self._items))
        if self._labels is not None and len(self._labels) != shape[1]:
            raise StoreError(f"there are {len(self._labels):,} titles for {shape[1]:,} items")
        storage.check_csr("seen", tensors["seen.indptr"], tensors["seen.indices"], shape)
        self._seen = Csr(tensors["seen.indptr"], tensors["seen.indices"], shape)
        state = {n.removeprefix("model."): a for n, a in tensors.items() if n.startswith("model.")}
        settings = {name: value for name, value in self.config if type(value) is int}
        self._check_state(state, settings | {"users": shape[0], "items": shape[1]})
        self._set_state(state)

    def _check_state(self, state: State, sizes: Mapping[str, int]) -> None:
        storage.check_layout(state, self._layout(), sizes)


_FACTS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "fingerprint": (str,),
    "users": (int,),
    "items": (int,),
    "interactions": (int,),
    "positives": (int,),
    "positive_rating": (int, float, type(None)),
    "seed": (int,),
    "fitted_at": (str,),
    "fit_seconds": (int, float),
}


def _checked_facts(facts: Any) -> dict[str, Any]:
    """What a model was fitted on, as `_remember` writes it."""
    for name, kinds in _FACTS.items():
        if type(facts[name]) not in kinds:
            raise StoreError(f"fitted_on has {name} = {facts[name]!r}")
    if not isinstance(facts.get("updated", {}), dict):
        raise StoreError(f"fitted_on has updated = {facts['updated']!r}")
    return dict(facts)


def make_config(model: type[Recommender], settings: Mapping[str, Any]) -> Config:
    """The config of a model from single settings; text values (from a command line) are converted."""
    known = model.config_class.model_fields
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known) or 'none'}"
            raise ConfigError(f"{model.name} has no setting {name!r}; {hint}")
    try:
        return model.config_class(**settings)
    except ValidationError as error:
        first = error.errors()[0]
    spelled_none = {k for k, v in settings.items() if isinstance(v, str) and v.lower() in ("none", "null")}
    if first["loc"] and first["loc"][0] in spelled_none:
        return make_config(model, {**settings, str(first["loc"][0]): None})
    where = str(first["loc"][0]) if first["loc"] else "settings"
    given = f"={first['input']!r}" if first["loc"] else ""
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    raise ConfigError(f"{model.name}: {where}{given} {message[0].lower()}{message[1:]}")
