"""The endpoints. Each takes the current model, computes the response in a thread and sends it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Concatenate, ParamSpec

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from purerec import __version__
from purerec.serving.http import problems, queries, requests, schemas
from purerec.serving.http.describing import ABOUT, PROBLEM, body_of, describe, errors
from purerec.serving.http.middleware import Gate
from purerec.serving.http.page_files import add_page
from purerec.serving.http.problems import Problem
from purerec.serving.model import answers
from purerec.serving.model.loaded_model import Holder, Loaded
from purerec.serving.process.logs import Log
from purerec.serving.process.metrics import Metrics
from purerec.serving.process.pool import Pool
from purerec.serving.process.settings import Limits, Settings

P = ParamSpec("P")

_LIMITS = Limits()


@dataclass
class Service:
    """State shared by the endpoints."""

    settings: Settings
    metrics: Metrics
    log: Log
    reload: Callable[[], Awaitable[dict[str, Any]]]
    """Swaps the model in all workers; raises a Problem if the folder cannot be used."""
    holder: Holder = field(default_factory=Holder)

    def __post_init__(self) -> None:
        self.pool = Pool(self.settings.threads)

    async def answer(
        self,
        kind: str | None,
        make: Callable[Concatenate[Loaded, P], dict[str, Any]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> bytes:
        """The result of `make` for the current model, with the model's version added; `kind` as in `Pool.run`."""
        loaded = self.holder.current
        if loaded is None:
            raise problems.not_ready()
        work = partial(_worked_out, make, loaded, *args, **kwargs)
        return await self.pool.run(kind, work)


def _worked_out(make: Callable[..., dict[str, Any]], loaded: Loaded, *args: Any, **kwargs: Any) -> bytes:
    return to_json({"model": loaded.version, **make(loaded, *args, **kwargs)}, inf_nan_mode="null")


def json_response(body: bytes) -> Response:
    return Response(body, media_type="application/json")


def make_app(service: Service) -> Gate:
    """The application with all its layers."""
    app = FastAPI(
        title="purerec",
        version=__version__,
        description=ABOUT,
        docs_url=None,  # its page would load external scripts; ours is docs.html
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        dependencies=[Depends(queries.check_names)],
    )
    _add_errors(app)
    _add_recommending(app, service)
    _add_looking_up(app, service)
    _add_operating(app, service)
    add_page(app)
    # Bypasses FastAPI's routing and request objects, which take time in the thread that all requests share. The route
    # is declared for /openapi.json and for other methods at its address.
    direct = {("POST", "/v1/recommend"): partial(_recommend, service)}
    return Gate(app, service.settings, service.metrics, service.log, direct, partial(_route_of, app))


# ---------------------------------------------------------------------- errors


def _add_errors(app: FastAPI) -> None:
    def document(request: Request, problem: Problem) -> Response:
        raw: bytes = request.scope.get("raw_path", b"")
        body = problem.body(raw.decode("ascii", "replace"))
        return Response(body, problem.status, problem.headers, problems.MEDIA_TYPE)

    @app.exception_handler(Problem)
    async def expected(request: Request, problem: Problem) -> Response:
        return document(request, problem)

    @app.exception_handler(RequestValidationError)
    async def wrong(request: Request, error: RequestValidationError) -> Response:
        return document(request, requests.invalid([(e["loc"], e["msg"]) for e in error.errors()]))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        headers = {} if error.status_code != 405 else {"allow": ", ".join(sorted(_methods(app, request.scope)))}
        kind, detail = {
            404: ("not-found", "there is nothing at this address; /docs lists all addresses"),
            405: ("method-not-allowed", f"{request.method} is not possible here"),
        }.get(error.status_code, ("refused", "the request was refused"))
        return document(request, Problem(error.status_code, kind, detail, headers=headers))

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        return document(request, problems.internal())  # logged by the middleware


def _route_of(app: FastAPI, scope: Any) -> str:
    """The route of a request, even if it was rejected before reaching it."""
    for route in app.routes:
        if isinstance(route, Route) and route.matches(scope)[0] is not Match.NONE:
            return route.path_format
    return "other"


def _methods(app: FastAPI, scope: Any) -> set[str]:
    """The methods allowed at an address, over all routes that match it."""
    found: set[str] = set()
    for route in app.routes:
        if isinstance(route, Route) and route.matches(scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return found


# ---------------------------------------------------------------------- lists


async def _recommend(service: Service, body: bytes) -> bytes:
    asked = requests.parse(requests.RecommendRequest, body)
    _check_amount(asked.cells, asked.explain or len(asked.attributes), arranges=asked.arranges)
    return await service.answer(asked.kind, _recommended, asked)


def _recommended(loaded: Loaded, asked: requests.RecommendRequest) -> dict[str, Any]:
    options: dict[str, Any] = {
        "exclude_seen": asked.exclude_seen,
        "items": asked.items,
        "exclude": asked.exclude,
        "explain": asked.explain,
        "rules": answers.rules_of(asked),
        "attributes": asked.attributes,
    }
    if asked.users is not None:
        return {"results": answers.recommend_users(loaded, asked.users, asked.k, **options)}
    assert asked.history is not None
    return {"results": [answers.recommend_history(loaded, asked.history, asked.k, **options)]}


def _add_recommending(app: FastAPI, service: Service) -> None:
    @app.post(
        "/v1/recommend",
        response_model=schemas.RecommendAnswer,
        responses=errors(404, 413, 422),
        openapi_extra=body_of(requests.RecommendRequest),
        tags=["lists"],
        summary="Lists for people of the training data, or for a new person with a history",
    )
    async def recommend() -> None: ...  # `_recommend` answers, without FastAPI: see `make_app`

    @app.get(
        "/v1/users/{id:path}/recommendations",
        response_model=schemas.UserAnswer,
        responses=errors(404, 422),
        tags=["lists"],
        summary="A list for one person of the training data, and what the person had",
    )
    async def for_user(
        id: queries.UserId,
        where: queries.WhereQuery,
        at_most: queries.AtMostQuery,
        k: queries.KQuery = 10,
        exclude_seen: bool = True,
        explain: queries.Reasons = 0,
        diversity: queries.DiversityQuery = 0.0,
        popularity_discount: queries.DiscountQuery = 0.0,
        cold_items: queries.ColdQuery = 0,
    ) -> Response:
        asked = requests.RecommendRequest(
            users=[id],
            k=k,
            exclude_seen=exclude_seen,
            explain=explain,
            where=where,
            at_most=requests.caps(at_most),
            diversity=diversity,
            popularity_discount=popularity_discount,
            cold_items=cold_items,
        )
        _check_amount(k, explain, arranges=asked.arranges)
        return json_response(await service.answer(asked.kind and "user", answers.one_user, asked))

    @app.get(
        "/v1/items/{id:path}/similar",
        response_model=schemas.SimilarAnswer,
        responses=errors(404, 422),
        tags=["lists"],
        summary="The items most similar to one",
    )
    async def similar(id: queries.ItemId, k: queries.KQuery = 10) -> Response:
        return json_response(await service.answer("similar" if k <= requests.FEW else None, answers.similar, id, k))

    @app.get(
        "/v1/explain",
        response_model=schemas.ExplainAnswer,
        responses=errors(404, 422),
        tags=["lists"],
        summary="Why an item is in a person's list",
    )
    async def explain(
        user: Annotated[str, Query(max_length=_LIMITS.id_length, examples=["196"])],
        item: Annotated[str, Query(max_length=_LIMITS.id_length, examples=["50"])],
        k: Annotated[int, Query(ge=1, le=_LIMITS.because)] = 5,
    ) -> Response:
        return json_response(await service.answer(None, answers.explain_user, user, item, k))

    @app.post(
        "/v1/explain",
        response_model=schemas.ExplainAnswer,
        responses=errors(404, 413, 422),
        openapi_extra=body_of(requests.ExplainRequest),
        tags=["lists"],
        summary="Why an item is in the list of a new person",
    )
    async def explain_new(request: Request) -> Response:
        asked = requests.parse(requests.ExplainRequest, await request.body())
        return json_response(await service.answer(None, answers.explain_history, asked.history, asked.item, asked.k))


def _check_amount(cells: int, explain: int, *, arranges: bool = False) -> None:
    limit = _LIMITS.explained if explain else _LIMITS.arranged if arranges else _LIMITS.cells
    if cells > limit:
        what = "lists with reasons or attributes" if explain else "lists with rules" if arranges else "lists"
        raise Problem(
            422, "too-much", f"{cells:,} places in {what} of one request are more than {limit:,}; ask in parts"
        )


# ---------------------------------------------------------------------- looking up


def _add_looking_up(app: FastAPI, service: Service) -> None:
    @app.get(
        "/v1/items",
        response_model=schemas.ItemsAnswer,
        responses=errors(422),
        tags=["look up"],
        summary="Items by the words of their title or the start of their id; without a query, the most popular",
    )
    async def items(query: queries.TextQuery = "", limit: queries.FoundQuery = 20) -> Response:
        return json_response(await service.answer(None, answers.find_items, query, limit))

    @app.get(
        "/v1/users",
        response_model=schemas.UsersAnswer,
        responses=errors(422),
        tags=["look up"],
        summary="People of the training data by the start of their id",
    )
    async def users(query: queries.TextQuery = "", limit: queries.FoundQuery = 20) -> Response:
        return json_response(await service.answer(None, answers.find_users, query, limit))

    @app.get(
        "/v1/model",
        response_model=schemas.ModelAnswer,
        responses=errors(),
        tags=["look up"],
        summary="What the model is, and what it was fitted on",
    )
    async def model() -> Response:
        return json_response(await service.answer("model", answers.about, service.settings.limits))


# ---------------------------------------------------------------------- operating


def _add_operating(app: FastAPI, service: Service) -> None:
    @app.post(
        "/v1/reload",
        response_model=schemas.ReloadAnswer,
        responses=errors(403, 409),
        tags=["operating"],
        summary="Serve what is in the model folder now; needs a token",
    )
    async def reload() -> Response:
        if service.settings.token is None:
            raise Problem(403, "no-token", "reloading over HTTP needs a service with a token; or send SIGHUP")
        return json_response(to_json(await service.reload()))

    @app.get("/healthz", response_model=schemas.StatusAnswer, tags=["operating"], summary="Whether it is alive")
    async def healthz() -> Response:
        return json_response(b'{"status":"ok"}')

    @app.get(
        "/readyz",
        response_model=schemas.StatusAnswer,
        responses={503: {"description": "Not ready", **PROBLEM}},
        tags=["operating"],
        summary="Whether it can answer",
    )
    async def readyz() -> Response:
        if service.holder.current is None:
            raise problems.not_ready()
        return json_response(b'{"status":"ok"}')

    @app.get(
        "/metrics",
        response_class=PlainTextResponse,
        responses={401: errors()[401]},
        tags=["operating"],
        summary="Counters for Prometheus, of all workers together",
    )
    async def metrics() -> Response:
        text = service.metrics.text(service.holder.current, service.holder.since)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    described: list[bytes] = []

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        if not described:
            described.append(to_json(describe(app)))
        return json_response(described[0])
