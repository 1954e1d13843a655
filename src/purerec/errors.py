"""Every error that purerec raises on purpose.

    PurerecError
    ├── DataError            the data given cannot be used
    │   ├── ReadError        a file or table cannot be read as interactions
    │   ├── FetchError       a catalog data set could not be downloaded
    │   ├── SplitError       a split cannot be made from this data
    │   └── UnknownIdError   a user or item that the model has never seen
    ├── ConfigError          a setting is unknown or out of bounds
    ├── NotFittedError       a model is used before `fit`
    ├── ScoreError           a model gave scores that cannot be ranked
    ├── DivergedError        training diverged
    ├── StoreError           a model folder is damaged, foreign or too new
    ├── WorkerError          another process that shares a fit was lost
    ├── SharedError          one of the processes that share a fit failed, and all of them know
    └── MissingExtraError    an optional dependency is not installed

A message gives the fact, the value and the remedy on one line. The command line prints it and exits with 2; where the
remedy there differs from the one in Python, an error has both: DataError(fact, "use f(x)", command="use --x").
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


class PurerecError(Exception):
    """Base of all deliberate errors."""

    at_command_line: str
    """The message as the command line shows it"""

    def __init__(self, fact: str, remedy: str = "", *, command: str = "") -> None:
        super().__init__(f"{fact}; {remedy}" if remedy else fact)
        self.at_command_line = f"{fact}; {command}" if command else str(self)


class DataError(PurerecError, ValueError):
    """The data given cannot be used."""


class ReadError(DataError):
    """A file or table cannot be read as interactions."""


class FetchError(DataError):
    """A catalog data set could not be downloaded from any of its sources."""


class SplitError(DataError):
    """A split cannot be made from this data."""


class ConfigError(PurerecError, ValueError):
    """A setting is unknown or out of bounds."""


class UnknownIdError(DataError, LookupError):
    """A user or item that was not in training."""


class NotFittedError(PurerecError, RuntimeError):
    """A model was used before it was fitted."""


class ScoreError(PurerecError, ArithmeticError):
    """A model gave scores that cannot be ranked (NaN or infinite)."""


class DivergedError(PurerecError, ArithmeticError):
    """Training diverged: the message names the epoch, the quantity and the setting to change."""


class StoreError(PurerecError):
    """A model folder is damaged, foreign, or of a newer format."""


class WorkerError(PurerecError, RuntimeError):
    """Another process that shares a fit was lost."""

    exit_code = 1
    """Differs from that of bad input: the processes may be restarted"""


class SharedError(PurerecError, RuntimeError):
    """One of the processes that share a fit failed: the message names it. All of them have been notified."""


class MissingExtraError(PurerecError, ImportError):
    """An optional dependency is not installed; the message names the extra."""

    def __init__(self, package: str, extra: str, *, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}; install it with: pip install 'purerec[{extra}]'")


def counted(n: int, one: str, several: str = "") -> str:
    """A number with its noun: '1 user', '1,000 users'."""
    return f"{n:,} {one if n == 1 else several or one + 's'}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The remedy for an unknown name: suggest the closest known one, or list them all."""
    names = list(known)
    return guess(name, names).strip() or f"choose from {', '.join(names) or 'none'}"


def guess(name: str, known: Iterable[str]) -> str:
    """The closest known name as a question, followed by a space; empty if none is close."""
    near = nearest(name, known)
    return "" if near is None else f"did you mean {near}? "


def nearest(name: str, known: Iterable[str], *, alike: float = 0.6) -> str | None:
    """The known name with the same letters in another order, else the most similar one, if it is similar enough."""
    import difflib  # not needed to import purerec

    names = list(known)
    letters = sorted(name)
    swapped = [other for other in names if sorted(other) == letters]
    return next(iter(swapped or difflib.get_close_matches(name, names, n=1, cutoff=alike)), None)


def first_problem(error: ValidationError) -> str:
    """The first problem that pydantic found, as part of a sentence: where, the value given, and the reason."""
    first = error.errors()[0]
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    message = message[0].lower() + message[1:]
    if not first["loc"]:
        return message
    where = ".".join(map(str, first["loc"]))
    return f"{where} is missing" if first["type"] == "missing" else f"{where}={first['input']!r} {message}"
