"""Your own class as a model: `fit` and `score` are enough; no base class is needed.

    fit(train)                train: Interactions; parameters named `seed` or `valid` are passed if present
    score(user_idx)           (len(user_idx), n_items) scores by internal index
    score_history(item_idx)   (n_items,) optional: scores for a person who was not in training

Its settings are the parameters of `__init__`, each with a default. What it has learned is what `fit` puts into
attributes whose names end in an underscore, as in scikit-learn: numbers and arrays of numbers, and this is what is
stored. `name` (default: the class name in lower case) and `search_space` for `purerec tune` are optional.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import PydanticUserError, create_model

from purerec.data.interactions import Interactions
from purerec.errors import ConfigError, ScoreError, StoreError
from purerec.models.contract.config import Config
from purerec.models.contract.fitted_on import Known
from purerec.models.contract.recommender import Recommender
from purerec.models.contract.search_space import Choices, Floats, Ints, SearchSpace, Space
from purerec.ranking.scorers import precision_of
from purerec.storage import Layout
from purerec.training.run import Run
from purerec.types import F32, I32, I64, State

_HELP = "docs/extending.md has an example"


class OwnModel(Recommender):
    """A model that wraps an object of a user-defined class."""

    own_class: ClassVar[type]
    learned: Any
    """The fitted object"""

    def __init__(self, config: Config | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        self._new()  # reports settings that the class refuses

    def _new(self) -> Any:
        return self.own_class(**dict(self.config))

    def _fit(self, train: Interactions, valid: Interactions | None, seed: int, run: Run) -> Any:
        own = self._new()  # nothing is left of an earlier fit
        known = inspect.signature(own.fit).parameters
        with self._calling("fit"):
            own.fit(train, **{n: v for n, v in (("valid", valid), ("seed", seed)) if n in known})
        return own

    def _score(self, user_idx: I64) -> F32:
        with self._calling("score"):
            found = self.learned.score(user_idx)
        return self._checked(found, (len(user_idx), len(self.items)), "score")

    def _score_history(self, item_idx: I32) -> F32:
        if not callable(getattr(self.learned, "score_history", None)):
            return super()._score_history(item_idx)
        with self._calling("score_history"):
            found = self.learned.score_history(item_idx)
        return self._checked(found, (len(self.items),), "score_history")

    @contextmanager
    def _calling(self, method: str) -> Iterator[None]:
        """Mark errors that come from the user's code."""
        try:
            yield
        except Exception as error:
            error.add_note(f"{self.name} failed in {method}")
            raise

    def _checked(self, scores: Any, shape: tuple[int, ...], method: str) -> F32:
        found = np.asarray(scores)
        if found.shape != shape or found.dtype.kind not in "fiub":
            raise ScoreError(
                f"{self.name}: {method} returned {_kind(found)}; an array of numbers of the shape {shape} is needed"
            )
        return np.ascontiguousarray(found, dtype=precision_of(found))

    # ------------------------------------------------------------------ storing

    def save(self, path: str | os.PathLike[str], *, files: Mapping[str, bytes] | None = None, **facts: Any) -> Path:
        self._check_restored()
        return super().save(path, files=files, **facts)

    def _check_restored(self) -> None:
        """Check that an object restored from what is stored gives the same scores."""
        again, first = self._new(), np.zeros(1, dtype=np.int64)
        _set_learned(again, self._state())
        try:
            same = np.array_equal(again.score(first), self.learned.score(first))
        except Exception as error:
            raise StoreError(f"{self.name} would not work after loading ({error}); {_WHAT_IS_STORED}") from error
        if not same:
            raise StoreError(f"{self.name} would give other scores after loading; {_WHAT_IS_STORED}")

    def _state(self) -> State:
        found = {name: value for name, value in vars(self.learned).items() if name.endswith("_") and name[0] != "_"}
        if not found:
            raise StoreError(f"{self.name} has learned nothing that can be stored; {_WHAT_IS_STORED}")
        arrays = {name: np.asarray(value) for name, value in found.items()}
        for name, array in arrays.items():
            if array.dtype.kind not in "fiub":
                raise StoreError(f"{self.name} cannot be stored: {name} is {_kind(found[name])}; {_WHAT_IS_STORED}")
        return arrays

    def _from_state(self, state: State, known: Known) -> Any:
        own = self._new()
        _set_learned(own, state)
        return own

    def _layout(self) -> Layout:
        return {}

    def _check_state(self, state: State, sizes: Mapping[str, int]) -> None:
        """Only the author knows what the state must look like; the scores are checked instead."""


_WHAT_IS_STORED = "keep what score needs in attributes whose names end in '_', as numbers or numpy arrays of numbers"


def _set_learned(own: Any, state: State) -> None:
    for name, array in state.items():
        setattr(own, name, array.item() if array.ndim == 0 else array)


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of the shape {value.shape}"
    return f"a {type(value).__name__}"


# ---------------------------------------------------------------------- from a class to a model


def as_model(own: Any) -> type[Recommender]:
    """A class as a model, wrapped if necessary; an error that says why if that is impossible."""
    if not isinstance(own, type):
        what = f"an object of {type(own).__name__}" if hasattr(own, "fit") else f"a {type(own).__name__}"
        raise ConfigError(f"a model is a class, and this is {what}; {_HELP}")
    if issubclass(own, Recommender):
        if missing := sorted(own.__abstractmethods__):
            raise ConfigError(f"{own.__name__} does not define {', '.join(missing)}; {_HELP}")
        _check_name(own.__name__, getattr(own, "name", None))
        return own
    for method, call in (("fit", "fit(train)"), ("score", "score(user_idx)")):
        if not callable(getattr(own, method, None)):
            raise ConfigError(f"{own.__name__} cannot be a model: it has no method {call}; {_HELP}")
    name = _check_name(own.__name__, getattr(own, "name", own.__name__.lower()))
    made = {
        "name": name,
        "own_class": own,
        "config_class": _config_class(own),
        "__doc__": own.__doc__,
        "__module__": own.__module__,
        "__qualname__": own.__qualname__,
    }
    return type(own.__name__, (OwnModel,), made)


def _check_name(class_name: str, name: Any) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise ConfigError(
            f'{class_name} needs a name of small letters, digits, - and _, not {name!r}; set it as `name = "..."`'
        )
    return name


def _config_class(own: type) -> type[Config]:
    fields: dict[str, Any] = {}
    try:
        for parameter in inspect.signature(own, eval_str=True).parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            if parameter.default is parameter.empty:
                raise ValueError(f"{parameter.name} has no default")
            guessed = Any if parameter.default is None else type(parameter.default)
            kind = guessed if parameter.annotation is parameter.empty else parameter.annotation
            fields[parameter.name] = (kind, parameter.default)
        made = create_model(f"{own.__name__}Config", __base__=Config, __module__=own.__module__, **fields)
    except (PydanticUserError, NameError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{own.__name__}: its settings cannot be used ({str(error).splitlines()[0]}); settings are parameters of "
            "__init__ with a default that is a number, a text or a truth value"
        ) from None
    made.search_space = _search_space(own, made)
    return made


def _search_space(own: type, config: type[Config]) -> SearchSpace:
    given = getattr(own, "search_space", {})
    for name in given:
        if name not in config.model_fields:
            raise ConfigError(f"{own.__name__}: search_space has {name!r}, which is not a setting")
    return {name: _space(own.__name__, name, value) for name, value in given.items()}


def _space(class_name: str, name: str, given: Any) -> Space:
    if isinstance(given, Floats | Ints | Choices):
        return given
    if isinstance(given, list) and given:
        return Choices(tuple(given))
    if isinstance(given, tuple) and len(given) == 2 and given[0] < given[1]:
        low, high = given
        return Ints(low, high, log=low > 0) if all(type(v) is int for v in given) else Floats(low, high, log=low > 0)
    raise ConfigError(
        f"{class_name}: search_space has {given!r} for {name}; give (lowest, highest), or a list of values"
    )
