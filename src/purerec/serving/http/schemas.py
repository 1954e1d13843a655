"""The schemas of responses, for the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

ShownValue = int | float | bool | str | list[str]

_STAR_WARS: dict[str, Any] = {"item": "50", "label": "Star Wars (1977)"}
_RETURN: dict[str, Any] = {"item": "181", "label": "Return of the Jedi (1983)"}
_WHY: dict[str, Any] = {"kind": "liked", "because": [{**_RETURN, "share": 0.41, "lift": 0.38}]}


class Answer(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


class Item(Answer):
    item: str
    label: str | None
    """Its title, if there is one: plain text, never HTML."""


ShownReason = Literal["liked", "like_you", "popular", "new"]


class Reason(Item):
    share: float
    """What this item adds to the score."""
    lift: float
    """The same, minus what it adds to the scores of equally popular items; always positive."""


class Scored(Item):
    score: float | None
    """Ranks the items of one person; null for a cold item."""
    rank: Annotated[int, Field(ge=1)]


class Listed(Scored):
    kind: ShownReason | None = None
    """Why: `liked`, because of the items in `because`; `like_you`, popular with similar people; `popular`, with
    everybody; `new`, a cold item. Only if reasons were requested."""
    because: list[Reason] | None = None
    """The person's own items that are the reason if `kind` is `liked`; else empty."""
    attributes: dict[str, ShownValue] | None = None
    """Columns of the item table, without those that are empty for this item; only if requested."""


class Result(Answer):
    user: str | None
    """The id as requested; null for a history."""
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
    """The person's items in training, up to 200."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "0c1f5f0f4f3a",
                    "user": "196",
                    "items": [{**_STAR_WARS, "score": 1.23, "rank": 1, **_WHY}],
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
    kind: ShownReason
    lift: float
    """How much the score exceeds what popularity explains."""
    text: str
    """The same in a sentence."""
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
                    "kind": "liked",
                    "lift": 0.8,
                    "text": "The score is 0.8 above what popularity explains; ...",
                    "unknown_items": [],
                    "because": [{**_STAR_WARS, "share": 0.6, "lift": 0.5}],
                }
            ]
        }
    )


class ColumnInfo(Answer):
    name: str
    kind: Literal["number", "flag", "text", "tags"]
    is_image: bool
    """True if its values are images: data: URLs, or paths on this server."""
    values: list[str] | None = None
    """The most frequent values of text and tags, up to 100; null if most items have a unique value."""
    least: float | None = None
    """For numbers: the smallest value; `most` is the largest."""
    most: float | None = None


class ModelAnswer(Answer):
    name: str
    version: str
    fitted_on: dict[str, Any]
    config: dict[str, Any]
    metrics: dict[str, Any] | None
    history: list[dict[str, Any]] | None
    """One record per epoch of training, if they were kept."""
    personalised: bool
    """True if different people may get different lists."""
    purerec: str
    """Version of the package."""
    has_titles: bool
    columns: list[ColumnInfo]
    """Columns of the item table, for conditions."""
    cold_items: int
    """The number of items of the table that nobody had in training."""
    limits: dict[str, int]
    """Limits of one request."""

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
                    "has_titles": True,
                    "columns": [{"name": "year", "kind": "number", "least": 1922, "most": 1998, "is_image": False}],
                    "cold_items": 0,
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
