"""Additions to FastAPI's OpenAPI document: problem documents, limits, the token."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import FastAPI

from purerec.serving.http import problems, requests, schemas
from purerec.serving.process.settings import Limits

_LIMITS = Limits()
PROBLEM = {"content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemAnswer"}}}}
ABOUT = f"""Recommendations of one fitted model. Ids are strings everywhere; numeric ids may also be sent as numbers.
Errors are problem documents (RFC 9457). If the service has a token, everything under /v1 and /metrics needs the
header `Authorization: Bearer ...`.

`x-limits` has the limits of a request. Whatever it asks for, its head may have up to {_LIMITS.head_bytes:,} bytes and
{_LIMITS.fields} fields (431 otherwise), its body up to {_LIMITS.body_bytes:,} bytes (413), and both have to come in
time (408)."""


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    names = {
        403: "Refused",
        404: "Unknown id",
        409: "The folder cannot be used; the old model stays",
        413: f"Body of more than {_LIMITS.body_bytes:,} bytes",
    }
    names |= {401: "Token missing or wrong", 422: "Wrong request", 503: "Not ready, overloaded or too slow"}
    return {status: {"description": names[status], **PROBLEM} for status in (401, *statuses, 503)}


def body_of(kind: type[requests.Request]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def describe(app: FastAPI) -> dict[str, Any]:
    description = app.openapi()
    description["info"]["x-limits"] = asdict(_LIMITS)
    parts = description["components"]["schemas"]
    for kind in (requests.RecommendRequest, requests.ExplainRequest, schemas.ProblemAnswer):
        schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
        parts |= schema.pop("$defs", {}) | {kind.__name__: schema}
    description["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in description["paths"].items():
        for operation in operations.values():
            if path.startswith("/v1/") or path == "/metrics":
                operation["security"] = [{"token": []}, {}]
            # Every 422 is a problem document; FastAPI would describe its own format.
            if (
                "422" in operation["responses"]
                and problems.MEDIA_TYPE not in operation["responses"]["422"]["content"]
            ):
                operation["responses"]["422"] = {"description": "Wrong request", **PROBLEM}
    for unused in ("HTTPValidationError", "ValidationError"):
        parts.pop(unused, None)
    return description
