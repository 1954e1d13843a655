"""The schemas of requests, which are validated on arrival."""

from __future__ import annotations

from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    ValidationError,
    model_validator,
)

from purerec.serving.http.problems import Problem
from purerec.serving.process.settings import Limits

_LIMITS = Limits()
FEW = 50
"""Up to this many items, a list or a history has the usual size."""

TextId = Annotated[str, Field(strict=True, max_length=_LIMITS.id_length, examples=["50"])]


def _whole(value: Any) -> Any:
    """JSON does not distinguish 3.0 from 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WholeId = Annotated[StrictInt, Field(ge=-(2**63), le=2**63 - 1), BeforeValidator(_whole)]
AnyId = Annotated[TextId | WholeId, Field(union_mode="left_to_right")]
"""Ids are strings; whole numbers are accepted for numeric ids."""
RuleText = Annotated[str, Field(strict=True, min_length=1, max_length=_LIMITS.condition, examples=["year>=1990"])]
ColumnName = Annotated[str, Field(strict=True, min_length=1, max_length=_LIMITS.condition, examples=["genre"])]
Cap = Annotated[str, Field(pattern=r"^[^=]+=[1-9][0-9]?$", max_length=_LIMITS.condition, examples=["genre=3"])]
"""In a query string: a column, and the number of items in a list that may have the same value in it"""
K = Annotated[StrictInt, Field(ge=1, le=_LIMITS.k), BeforeValidator(_whole)]
_MANY = (
    f"How many items. For several people, up to {_LIMITS.cells:,} in all lists together; {_LIMITS.explained:,} with "
    "reasons."
)


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class RecommendRequest(Request):
    """Either `users` or `history`."""

    users: Annotated[list[AnyId], Field(min_length=1, max_length=_LIMITS.batch)] | None = None
    """People of the training data: a list for each."""
    history: Annotated[list[AnyId], Field(max_length=_LIMITS.history)] | None = None
    """Items that a new person liked; unknown ones are reported, and an empty list gives popular items."""
    k: Annotated[K, Field(description=_MANY)] = 10
    exclude_seen: StrictBool = True
    """Leave out what the person already has."""
    exclude: Annotated[list[AnyId], Field(max_length=_LIMITS.ids)] | None = None
    """Items that may not be in the list; unknown ones are ignored."""
    items: Annotated[list[AnyId], Field(min_length=1, max_length=_LIMITS.ids)] | None = None
    """The only items that may be in the list."""
    explain: Annotated[StrictInt, Field(ge=0, le=_LIMITS.because), BeforeValidator(_whole)] = 0
    """How many reasons to give with each item."""
    where: Annotated[list[RuleText], Field(max_length=_LIMITS.conditions)] = []
    """Conditions on the item table that all items satisfy."""
    at_most: Annotated[dict[ColumnName, K], Field(max_length=_LIMITS.conditions)] = {}
    """For columns of the item table: no more items than this with the same value."""
    diversity: Annotated[StrictFloat, Field(ge=0, le=1)] = 0.0
    """How much an item loses for being similar to one already in the list."""
    popularity_discount: Annotated[StrictFloat, Field(ge=0, le=1)] = 0.0
    """How much popular items lose."""
    cold_items: Annotated[StrictInt, Field(ge=0, le=_LIMITS.cold), BeforeValidator(_whole)] = 0
    """Places at the end for items that nobody had in training, chosen by their columns alone; they have no score."""
    attributes: Annotated[list[ColumnName], Field(max_length=_LIMITS.conditions)] = []
    """Columns of the item table to show with each item."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": ["users"], "properties": {"users": {"type": "array"}}},
                {"required": ["history"], "properties": {"history": {"type": "array"}}},
            ],
            "examples": [
                {"users": ["196"], "k": 10},
                {"history": ["50", "181"], "k": 10, "explain": 3},
                {"history": ["50"], "diversity": 0.3, "popularity_discount": 0.2},
            ],
        }
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.users is None) == (self.history is None):
            raise ValueError("give either users or history")
        return self

    @property
    def cells(self) -> int:
        """The number of places in all lists."""
        return self.k * (len(self.users) if self.users is not None else 1)

    @property
    def arranges(self) -> bool:
        """True if rules process each person's best items one by one."""
        return bool(self.at_most or self.diversity or self.popularity_discount or self.cold_items)

    @property
    def kind(self) -> str | None:
        """A name for requests of the usual small size, which all take about the same time."""
        if self.cells > FEW or self.explain or self.items is not None or self.exclude is not None:
            return None
        if self.where or self.arranges or self.attributes:
            return None
        if self.users is not None:
            return "users"
        return "history" if len(self.history or ()) <= FEW else None


class ExplainRequest(Request):
    """Why an item is in the list of a new person."""

    history: Annotated[list[AnyId], Field(max_length=_LIMITS.history)]
    """Items that the person liked."""
    item: AnyId
    """The item to explain."""
    k: Annotated[StrictInt, Field(ge=1, le=_LIMITS.because), BeforeValidator(_whole)] = 5
    """How many reasons."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"history": ["50", "181"], "item": "172", "k": 3}]})


def caps(texts: list[str]) -> dict[str, int]:
    """`at_most` of a request, from a query string."""
    return {name: int(most) for name, _, most in (text.partition("=") for text in texts)}


R = TypeVar("R", bound=Request)


def parse(kind: type[R], body: bytes) -> R:
    """A request from its body: JSON without NaN, infinities, lone surrogates, unknown fields or loose types."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise invalid([(("body", *e["loc"]), e["msg"]) for e in error.errors(include_url=False)]) from None


def invalid(found: list[tuple[tuple[Any, ...], str]]) -> Problem:
    """The problem of a request that does not match its schema; its values are not repeated."""
    told: dict[str, str] = {}
    for parts, message in found[:20]:
        # Pydantic names the id types that it tried, which mean nothing to a client.
        where = ".".join(str(part) for part in parts if not str(part).startswith(("constrained-", "function-")))
        told.setdefault(where[:200], message.removeprefix("Value error, ")[:300])
    errors = [{"where": where, "detail": detail} for where, detail in told.items()]
    first = errors[0]
    return Problem(422, "invalid-request", f"{first['where']}: {first['detail']}", errors=errors)
