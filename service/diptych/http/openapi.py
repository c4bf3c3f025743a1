"""The OpenAPI document, completed by the models that FastAPI does not see in a signature."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from diptych.http.middleware.errors import ErrorEnvelope
from diptych.http.middleware.outer import OPEN
from diptych.http.schemas.requests import (
    AddRequest,
    AnyRerankRequest,
    DuplicatesRequest,
    EmbeddingRequest,
    ExplainRequest,
    LabelRequest,
    NewCollection,
    PairsRequest,
    RerankRequest,
    ScoreRequest,
    SearchRequest,
    TextsRequest,
)
from diptych.http.settings import Settings
from diptych.store.filters import SCHEMA as FILTER

_BODIES = (
    AddRequest,
    AnyRerankRequest,
    DuplicatesRequest,
    EmbeddingRequest,
    ExplainRequest,
    LabelRequest,
    NewCollection,
    PairsRequest,
    RerankRequest,
    ScoreRequest,
    SearchRequest,
    TextsRequest,
)
_WAYS = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic", "description": "Any user; the key is the password."},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}


def complete_openapi(app: FastAPI, settings: Settings, questions: Sequence[str]) -> None:
    """Let `app.openapi()` also define the bodies that come as JSON or as a form, the body of errors, the limits of a
    search, the questions of the model and, if there are any, the keys.
    """
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        document = plain()
        schemas = document["components"]["schemas"]
        if SearchRequest.__name__ not in schemas:
            _, extra = models_json_schema(
                [*((body, "validation") for body in _BODIES), (ErrorEnvelope, "serialization")],
                ref_template="#/components/schemas/{model}",
            )
            for name, schema in extra["$defs"].items():
                schemas.setdefault(name, schema)
            schemas["Filter"] = FILTER
            form = document["paths"]["/v1/search"]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
            for body in (form, schemas[SearchRequest.__name__]):
                for name, limit in (("top", settings.top), ("candidates", settings.candidates)):
                    body["properties"][name]["maximum"] = limit
            for body in _bodies(document):
                asked = body.get("properties", {}).get("question", {})
                for kind in asked.get("anyOf", [asked]):  # a form leaves out what is null
                    if kind.get("type") == "string":
                        kind["enum"] = list(questions)
            for schema in _parameters(document, "question"):  # which leaves out what is null, too
                (kind,) = [kind for kind in schema.pop("anyOf", [schema]) if kind["type"] == "string"]
                schema.update(kind, enum=list(questions))
            if settings.keys:
                document["components"]["securitySchemes"] = _WAYS
                document["security"] = [{way: []} for way in _WAYS]
                for path in OPEN & set(document["paths"]):
                    for operation in document["paths"][path].values():
                        operation["security"] = []
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _bodies(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The schemas of the parts of requests, as JSON and as a form."""
    for body in _BODIES:
        yield document["components"]["schemas"][body.__name__]
    for operations in document["paths"].values():
        for operation in operations.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                yield content["schema"]


def _parameters(document: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """The schemas of the parameters of this name."""
    for operations in document["paths"].values():
        for operation in operations.values():
            yield from (one["schema"] for one in operation.get("parameters", []) if one["name"] == name)
