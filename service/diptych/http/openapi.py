"""The OpenAPI document, completed by the models that FastAPI does not see in a signature."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from diptych.http.requests import AddRequest, SearchRequest


def complete_openapi(app: FastAPI) -> None:
    """Let `app.openapi()` also define the bodies that come as JSON or as a form."""
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
        return document

    app.openapi = openapi  # type: ignore[method-assign]
