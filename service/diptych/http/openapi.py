"""The OpenAPI document, completed by the models that FastAPI does not see in a signature."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from diptych.http.bodies import REFERENCE, omit_null
from diptych.http.middleware.errors import ErrorEnvelope
from diptych.http.middleware.outer import OPEN
from diptych.http.schemas import requests
from diptych.http.settings import Settings
from diptych.store.filters import SCHEMA as FILTER

_BODIES = (
    requests.AddRequest,
    requests.AnyRerankRequest,
    requests.DuplicatesRequest,
    requests.EmbeddingRequest,
    requests.ExplainRequest,
    requests.LabelRequest,
    requests.NewCollection,
    requests.PairsRequest,
    requests.RerankRequest,
    requests.ScoreRequest,
    requests.SearchRequest,
    requests.TextsRequest,
)
_WAYS = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic", "description": "Any user; the key is the password."},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}


def complete_document(app: FastAPI, settings: Settings, questions: Sequence[str]) -> None:
    """Let `app.openapi()` also define the bodies that come as JSON or as a form, the body of errors, the limits of a
    search, the questions of the model and, if there are any, the keys.
    """
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        document = plain()
        schemas = document["components"]["schemas"]
        _, extra = models_json_schema(
            [*((body, "validation") for body in _BODIES), (ErrorEnvelope, "serialization")], ref_template=REFERENCE
        )
        for name, schema in extra["$defs"].items():
            schemas.setdefault(name, schema)
        schemas["Filter"] = FILTER
        for schema in _find_fields(document, "question"):
            for kind in schema.get("anyOf", [schema]):
                if kind["type"] == "string":
                    kind["enum"] = [*questions]
        for name, limit in (("top", settings.top), ("candidates", settings.candidates)):
            for schema in _find_fields(document, name):
                schema["maximum"] = limit
        if settings.keys:
            document["components"]["securitySchemes"] = _WAYS
            document["security"] = [{way: []} for way in _WAYS]
            for path in OPEN & set(document["paths"]):
                for operation in document["paths"][path].values():
                    operation["security"] = []
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _find_fields(document: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """The schemas of what requests bring under a name: in JSON, in a form or in the address."""
    bodies = [document["components"]["schemas"][body.__name__] for body in _BODIES]
    for operations in document["paths"].values():
        for operation in operations.values():
            bodies += [one["schema"] for one in operation.get("requestBody", {}).get("content", {}).values()]
            for one in operation.get("parameters", []):
                if one["name"] == name:
                    one["schema"] = omit_null(one["schema"])
                    yield one["schema"]
    yield from (body["properties"][name] for body in bodies if name in body.get("properties", {}))
