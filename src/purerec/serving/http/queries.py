"""Path and query parameters, with their bounds."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Request
from fastapi.routing import APIRoute

from purerec.errors import did_you_mean
from purerec.serving.http.requests import Cap, RuleText, invalid
from purerec.serving.process.settings import Limits

_LIMITS = Limits()
UserId = Annotated[str, Path(max_length=_LIMITS.id_length, examples=["196"], description="A user id.")]
ItemId = Annotated[str, Path(max_length=_LIMITS.id_length, examples=["50"], description="An item id.")]
KQuery = Annotated[int, Query(ge=1, le=_LIMITS.k, description="How many items.", examples=[10])]
Reasons = Annotated[int, Query(ge=0, le=_LIMITS.because, description="Reasons for each item.", examples=[3])]
TextQuery = Annotated[str, Query(max_length=_LIMITS.query, description="What to search for; nothing: popular ones.")]
FoundQuery = Annotated[int, Query(ge=1, le=_LIMITS.found, description="How many results.", examples=[20])]
WhereQuery = Annotated[
    list[RuleText],
    Query(max_length=_LIMITS.conditions, default_factory=list, description="Conditions on the item table, one each."),
]
AtMostQuery = Annotated[
    list[Cap],
    Query(max_length=_LIMITS.conditions, default_factory=list, description="Caps per value of a column, one each."),
]
DiversityQuery = Annotated[float, Query(ge=0, le=1, description="How much an item loses by being like one above it.")]
DiscountQuery = Annotated[float, Query(ge=0, le=1, description="How much popular items lose.")]
ColdQuery = Annotated[int, Query(ge=0, le=_LIMITS.cold, description="Places for items that nobody had in training.")]


async def check_names(request: Request) -> None:
    """Raise an error for unknown parameters: a misspelled condition would otherwise be ignored."""
    route = request.scope["route"]
    known = [found.alias for found in route.dependant.query_params] if isinstance(route, APIRoute) else []
    unknown = [name for name in request.query_params if known and name not in known]
    if unknown:
        raise invalid(
            [(("query", name), f"there is no such parameter; {did_you_mean(name, known)}") for name in unknown]
        )
