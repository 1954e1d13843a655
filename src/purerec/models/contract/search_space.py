"""Where `purerec tune` looks: the values that a setting may take in a search, declared alongside the config.

A config class lists its spaces in `search_space`. Deliberate choices (schedules, engines, limits) are not searched,
nor is anything whose default already depends on the data and hardly matters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from purerec.data.pairs import Csr

Start = float | Callable[[Csr], float] | None
"""The value of a default of None, as a number or computed from the positives; not needed for other defaults."""


@dataclass(frozen=True)
class Floats:
    """Numbers from `low` to `high`, uniform in the logarithm unless `log` is false."""

    low: float
    high: float
    log: bool = True
    start: Start = None

    def suggest(self, name: str, trial: Any) -> float:
        # Three digits: what a person would write, and far finer than a search can resolve.
        return float(f"{trial.suggest_float(name, self.low, self.high, log=self.log):.3g}")

    def nearest(self, value: float) -> float:
        return min(max(float(value), self.low), self.high)

    def describe(self) -> str:
        return f"{self.low:g} to {self.high:g}{', log' if self.log else ''}"


@dataclass(frozen=True)
class Ints:
    """Whole numbers from `low` to `high`, uniform in the logarithm unless `log` is false."""

    low: int
    high: int
    log: bool = True
    start: Start = None

    def suggest(self, name: str, trial: Any) -> int:
        return int(trial.suggest_int(name, self.low, self.high, log=self.log))

    def nearest(self, value: float) -> int:
        return min(max(round(value), self.low), self.high)

    def describe(self) -> str:
        return f"{self.low} to {self.high}, whole{', log' if self.log else ''}"


@dataclass(frozen=True)
class Choices:
    """One of a few values."""

    values: tuple[str | bool, ...]
    start: None = None

    def suggest(self, name: str, trial: Any) -> str | bool:
        chosen: str | bool = trial.suggest_categorical(name, self.values)
        return chosen

    def nearest(self, value: str | bool) -> str | bool:
        return value if value in self.values else self.values[0]

    def describe(self) -> str:
        return " | ".join(map(str, self.values))


Space = Floats | Ints | Choices
SearchSpace = Mapping[str, Space]
