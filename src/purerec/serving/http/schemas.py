"""What requests and answers look like: checked on the way in, described in the OpenAPI on the way out."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    ValidationError,
    model_validator,
)

from purerec.serving.http.problems import Problem
from purerec.serving.process.settings import Limits

_LIMITS = Limits()
FEW = 50
"""Items of a list, or of a history, that are no more than usual."""

TextId = Annotated[str, Field(strict=True, max_length=_LIMITS.id_length, examples=["50"])]


def _whole(value: Any) -> Any:
    """JSON does not tell 3.0 from 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WholeId = Annotated[StrictInt, Field(ge=-(2**63), le=2**63 - 1), BeforeValidator(_whole)]
AnyId = Annotated[TextId | WholeId, Field(union_mode="left_to_right")]
"""Ids are strings; whole numbers are taken for ids that are such."""
K = Annotated[StrictInt, Field(ge=1, le=_LIMITS.k), BeforeValidator(_whole)]
_MANY = (
    f"How many items. For several people, up to {_LIMITS.cells:,} in all lists together; {_LIMITS.explained:,} with "
    "reasons."
)

_STAR_WARS: dict[str, Any] = {"item": "50", "label": "Star Wars (1977)"}
_RETURN: dict[str, Any] = {"item": "181", "label": "Return of the Jedi (1983)"}


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class RecommendRequest(Request):
    """Either `users` or `history`."""

    users: Annotated[list[AnyId], Field(min_length=1, max_length=_LIMITS.batch)] | None = None
    """People of the training data: a list for each."""
    history: Annotated[list[AnyId], Field(max_length=_LIMITS.history)] | None = None
    """Items that a new person liked; unknown ones are reported, none at all gives popular items."""
    k: Annotated[K, Field(description=_MANY)] = 10
    exclude_seen: StrictBool = True
    """Leave out what the person has already."""
    exclude: Annotated[list[AnyId], Field(max_length=_LIMITS.ids)] | None = None
    """Items that may not be in the list; unknown ones are no error."""
    items: Annotated[list[AnyId], Field(min_length=1, max_length=_LIMITS.ids)] | None = None
    """The only items that may be in the list."""
    explain: Annotated[StrictInt, Field(ge=0, le=_LIMITS.because), BeforeValidator(_whole)] = 0
    """How many reasons to give with each item."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": ["users"], "properties": {"users": {"type": "array"}}},
                {"required": ["history"], "properties": {"history": {"type": "array"}}},
            ],
            "examples": [
                {"users": ["196"], "k": 10},
                {"history": ["50", "181"], "k": 10, "explain": 3},
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
        """Places in all lists."""
        return self.k * (len(self.users) if self.users is not None else 1)

    @property
    def kind(self) -> str | None:
        """A name for requests that are as small as most, each of which takes about as long as another."""
        if self.cells > FEW or self.explain or self.items is not None or self.exclude is not None:
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


class Answer(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


class Item(Answer):
    item: str
    label: str | None
    """Its title, if there is one: plain text, never HTML."""


class Reason(Item):
    share: float
    """What this item of the person adds to the score; see `text` of /v1/explain."""


class Scored(Item):
    score: float
    rank: Annotated[int, Field(ge=1)]


class Listed(Scored):
    because: list[Reason] | None = None
    """Only if asked for."""


class Result(Answer):
    user: str | None
    """As it was asked for; null for a history."""
    items: list[Listed]
    unknown_items: list[str]
    """Items of the history that the model does not know."""


class RecommendAnswer(Answer):
    model: str
    """Version of the model that made the lists."""
    results: list[Result]

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "0c1f5f0f4f3a",
                    "results": [
                        {"user": "196", "items": [{**_STAR_WARS, "score": 1.23, "rank": 1}], "unknown_items": []}
                    ],
                }
            ]
        }
    )


class UserAnswer(Result):
    model: str
    history: list[Item]
    """What they had in training, up to 200 items."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "0c1f5f0f4f3a",
                    "user": "196",
                    "items": [{**_STAR_WARS, "score": 1.23, "rank": 1, "because": [{**_RETURN, "share": 0.41}]}],
                    "unknown_items": [],
                    "history": [_RETURN],
                }
            ]
        }
    )


class SimilarAnswer(Answer):
    model: str
    item: Item
    items: list[Scored]

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"model": "0c1f5f0f4f3a", "item": _STAR_WARS, "items": [{**_RETURN, "score": 0.98, "rank": 1}]}
            ]
        }
    )


class FoundItem(Item):
    popularity: int
    """How many people had it in training."""


class ItemsAnswer(Answer):
    items: list[FoundItem]
    total: int
    """How many there are, shown or not."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"items": [{**_STAR_WARS, "popularity": 583}], "total": 1}]}
    )


class UsersAnswer(Answer):
    users: list[str]

    model_config = ConfigDict(json_schema_extra={"examples": [{"users": ["19", "190", "191"]}]})


class ExplainAnswer(Item):
    model: str
    score: float
    method: Literal["exact", "similarity"]
    text: str
    """One sentence that says what the shares mean."""
    because: list[Reason]
    unknown_items: list[str]

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "0c1f5f0f4f3a",
                    "item": "172",
                    "label": "Empire Strikes Back, The (1980)",
                    "score": 1.1,
                    "method": "exact",
                    "text": "Of the score of 1.1, ...",
                    "unknown_items": [],
                    "because": [{**_STAR_WARS, "share": 0.6}],
                }
            ]
        }
    )


class ModelAnswer(Answer):
    name: str
    version: str
    fitted_on: dict[str, Any]
    config: dict[str, Any]
    metrics: dict[str, Any] | None
    history: list[dict[str, Any]] | None
    """One record per epoch of training, if they were kept."""
    personalised: bool
    """Whether different people may get different lists."""
    purerec: str
    """Version of the package."""
    limits: dict[str, int]
    """What one request may ask for."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "pure",
                    "version": "0c1f5f0f4f3a",
                    "fitted_on": {"name": "ml-100k", "users": 943, "items": 1682},
                    "config": {"dim": 5},
                    "metrics": {"P@5": 0.39},
                    "history": [{"epoch": 1, "loss": 0.69}],
                    "personalised": True,
                    "purerec": "0.1.0",
                    "limits": {"k": 500, "batch": 256, "history": 1000, "body_bytes": 1048576},
                }
            ]
        }
    )


class ReloadAnswer(Answer):
    model: str
    """The version that is served now."""
    previous: str
    changed: bool

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"model": "9dc689fe2606", "previous": "0c1f5f0f4f3a", "changed": True}]}
    )


class StatusAnswer(Answer):
    status: Literal["ok"]

    model_config = ConfigDict(json_schema_extra={"examples": [{"status": "ok"}]})


class FieldError(Answer):
    where: str
    detail: str


class ProblemAnswer(Answer):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: list[FieldError] | None = None


R = TypeVar("R", bound=Request)


def parse(kind: type[R], body: bytes) -> R:
    """A request from its body: JSON without NaN, infinities, lone surrogates, unknown fields or loose types."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise invalid([(("body", *e["loc"]), e["msg"]) for e in error.errors(include_url=False)]) from None


def invalid(found: list[tuple[tuple[Any, ...], str]]) -> Problem:
    """A request that does not fit its description; values of the request are not repeated."""
    told: dict[str, str] = {}
    for parts, message in found[:20]:
        # Pydantic names the kinds of id that it tried, which means nothing to a client.
        where = ".".join(str(part) for part in parts if not str(part).startswith(("constrained-", "function-")))
        told.setdefault(where[:200], message.removeprefix("Value error, ")[:300])
    errors = [{"where": where, "detail": detail} for where, detail in told.items()]
    first = errors[0]
    return Problem(422, "invalid-request", f"{first['where']}: {first['detail']}", errors=errors)
