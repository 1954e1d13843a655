"""Custom metrics: functions of one user, averaged over users.

    def first_place(ranks):          ranks of the user's held-out positives, from 1, ascending
    def hits(ranks, k):              with a `k`, to be used as hits@10
    def share_of_new(items, k):      items: ids of the first k items of the user's list

If such a metric decides, larger is better.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from purerec.data.plugins.named import import_first, import_path, installed_names, installed_object
from purerec.errors import ConfigError
from purerec.types import F64

GROUP = "purerec.metrics"
"""Group of entry points in installed packages"""

TAKEN = (
    *("P", "NDCG", "Recall", "HitRate", "MAP", "MRR", "AUC"),
    *("Coverage", "Novelty", "Gini", "Popularity", "ILD", "Serendipity"),
)
"""The names of purerec's own metrics, in `metrics`: nobody could tell which of two is in a table"""

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


@dataclass(frozen=True)
class OwnMetric:
    """A function of one user, and the arguments it takes."""

    name: str
    function: Callable[..., Any]
    of_lists: bool
    at_k: bool

    @property
    def written(self) -> str:
        return f"{self.name}@10" if self.at_k else self.name

    def values(self, per_user: Iterable[Any], k: int | None) -> F64:
        """(n_users,) the value of each user, given their ranks or items."""
        options = {} if k is None else {"k": k}
        return np.array([self._value(given, options) for given in per_user], dtype=np.float64)

    def _value(self, given: Any, options: dict[str, int]) -> float:
        try:
            value = self.function(given, **options)
        except Exception as error:
            error.add_note(f"the metric {self.name} failed")
            raise
        if not isinstance(value, int | float | np.number | np.bool_) or not math.isfinite(value):
            raise ConfigError(f"the metric {self.name} returned {value!r}, which is not a finite number")
        return float(value)


_OWN: dict[str, OwnMetric] = {}


def register_metric(function: AnyFunction) -> AnyFunction:
    """Register a function of one user as a metric under its own name; also a decorator."""
    add(function)
    return function


def add(function: Any) -> OwnMetric:
    """See `register_metric`."""
    name = getattr(function, "__name__", "")
    if not callable(function) or isinstance(function, type) or not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise ConfigError(f"a metric is a function with a name, not {function!r}")
    parameters = inspect.signature(function).parameters
    needed = {p.name for p in parameters.values() if p.default is p.empty}
    first = next(iter(parameters), None)
    if first not in ("ranks", "items") or needed - {first, "k"}:
        raise ConfigError(
            f"the metric {name} has the parameters ({', '.join(parameters)}); give it (ranks) or (items), and k if "
            "it is measured at some k"
        )
    if name in TAKEN:
        raise ConfigError(f"{name} is a metric of purerec; rename your function, for example to my_{name.lower()}")
    known = _OWN.get(name)
    if known is not None and import_path(known.function) != import_path(function):
        raise ConfigError(f"the name {name!r} is taken by the metric {import_path(known.function)}; choose another")
    made = OwnMetric(name, function, of_lists=first == "items", at_k="k" in parameters)
    _OWN[name] = made
    return made


def own_metric(name: str) -> OwnMetric | None:
    """The custom metric of this name, if it is registered or installed."""
    if name not in _OWN:
        import_first()
    if name not in _OWN:
        offered = installed_object(GROUP, name)
        if offered is not None and add(offered).name != name:
            raise ConfigError(f"an installed package offers a metric as {name!r}; it has to have the function's name")
    return _OWN.get(name)


def own_names() -> list[str]:
    """The names of custom metrics, as users write them."""
    known = {name: metric.at_k for name, metric in _OWN.items()}
    return [f"{name}@k" if known.get(name) else name for name in dict.fromkeys([*known, *installed_names(GROUP)])]
