"""How a split was made, as stored in its folder."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from purerec.errors import StoreError, first_problem

Method = Literal["official", "given", "ratio", "leave_n_out", "temporal"]


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class SplitParameters(_Facts):
    """The arguments of `split`, or of `World.true_split`, that had an effect."""

    fold: int | None = None
    test: float | None = None
    n: int | None = None
    at: str | float | None = None
    on: Literal["positives"] | None = None
    users: int | None = None
    """For a synthetic world: the number of users whose truth is used."""

    def given(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True)


class Made(_Facts):
    """How a split was made. Parts assembled by hand have no method."""

    method: Literal[Method, "truth"] | None = None
    seed: int | None = None
    parameters: SplitParameters = SplitParameters()
    rows: NonNegativeInt | None = None
    duplicates_dropped: NonNegativeInt | None = None
    train: NonNegativeInt | None = None
    valid: NonNegativeInt | None = None
    test: NonNegativeInt | None = None
    of: Literal["train"] | None = None
    """Set for validation folds, which are splits of a train part."""

    def as_options(self) -> list[str]:
        """The options of a command that makes the same split."""
        method = f"u{self.parameters.fold}" if self.method == "official" else str(self.method)
        given = self.parameters.given() | ({"split-seed": self.seed} if self.seed else {})
        told = [(f"--{name}", given[name]) for name in ("test", "n", "at", "split-seed") if name in given]
        return [str(word) for option in [("--split", method), *told] for word in option]

    @classmethod
    def read(cls, facts: Any) -> Self:
        """Read from a manifest."""
        try:
            return cls.model_validate(facts)
        except ValidationError as error:
            raise StoreError(f"made: {first_problem(error)}") from None

    def to_dict(self) -> dict[str, Any]:
        """Convert for a manifest."""
        return self.model_dump(exclude_none=True)
