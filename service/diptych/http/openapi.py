"""The OpenAPI document, completed by the models that FastAPI does not see in a signature."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from diptych.http.edge import OPEN
from diptych.http.requests import AddRequest, SearchRequest

_WAYS = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic", "description": "Any user; the key is the password."},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}


def complete_openapi(app: FastAPI, *, closed: bool = False) -> None:
    """Let `app.openapi()` also define the bodies that come as JSON or as a form and, if it is `closed`, the key."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        document = plain()
        schemas = document["components"]["schemas"]
        if SearchRequest.__name__ not in schemas:
            _, extra = models_json_schema(
                [(SearchRequest, "validation"), (AddRequest, "validation")],
                ref_template="#/components/schemas/{model}",
            )
            for name, schema in extra["$defs"].items():
                schemas.setdefault(name, schema)
            if closed:
                document["components"]["securitySchemes"] = _WAYS
                document["security"] = [{way: []} for way in _WAYS]
                for path in OPEN & set(document["paths"]):
                    for operation in document["paths"][path].values():
                        operation["security"] = []
        return document

    app.openapi = openapi  # type: ignore[method-assign]
