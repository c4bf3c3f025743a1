"""The document describes what is taken, also where FastAPI cannot see it in a signature."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.routing import Route

from diptych.http.app import create_app
from diptych.http.schemas.requests import AddRequest, SearchRequest
from diptych.http.settings import Settings

ROUTES = {
    "post": {
        *("/v1/score", "/v1/rerank", "/score", "/rerank", "/v2/rerank", "/v1/embeddings", "/v1/explain", "/v1/search"),
        *("/v1/duplicates", "/v1/pairs/next", "/v1/pairs/labels", "/v1/images", "/v1/collections"),
    },
    "get": {
        *("/v1/pairs/labels", "/v1/pairs/labels/export", "/v1/images", "/v1/images/export", "/v1/images/{id}"),
        *("/v1/images/{id}/content", "/v1/images/{id}/thumbnail", "/v1/collections", "/v1/collections/{name}"),
        *("/v1/models", "/info", "/metrics", "/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"),
    },
    "delete": {"/v1/pairs/labels", "/v1/images/{id}", "/v1/collections/{name}"},
}
FORM = "multipart/form-data"
QUESTIONS = ["copy", "thing", "match"]


@pytest.fixture(scope="module")
def app(scorer):
    return create_app(None, scorer, settings=Settings(top=7, candidates=70))


@pytest.fixture(scope="module")
def document(app) -> dict[str, Any]:
    return app.openapi()


@pytest.fixture(scope="module")
def forms(document) -> dict[str, dict[str, Any]]:
    """The schema of every form, by its path."""
    paths = document["paths"]
    posts = {path: paths[path]["post"]["requestBody"]["content"] for path in ROUTES["post"]}
    return {path: kinds[FORM]["schema"] for path, kinds in posts.items() if FORM in kinds}


def test_a_body_that_no_signature_shows_is_described_key_by_key_with_every_way_to_name_a_picture(document):
    schemas = document["components"]["schemas"]
    for model, picture in ((SearchRequest, "image"), (AddRequest, "images")):
        described = schemas[model.__name__]
        assert set(described["properties"]) == set(model.model_fields)
        assert (described["required"], described["additionalProperties"]) == ([picture], False)
    ways = schemas["SearchRequest"]["properties"]["image"]["oneOf"]
    named = {way["$ref"].rpartition("/")[2] for way in ways if "$ref" in way}
    assert named == {"ImagePart", "InlineImage", "StoredImage", "Content"}
    assert [way["type"] for way in ways if "$ref" not in way] == ["string"]
    assert named < set(find_references(document)) <= set(schemas)


def test_the_document_lists_every_route_with_words_and_its_errors(document, app):
    routes = {(method, path) for path, operations in document["paths"].items() for method in operations}
    assert routes == {(method, path) for method, paths in ROUTES.items() for path in paths}
    groups = set()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], (method, path)
            assert operation["description"], (method, path)
            groups |= set(operation["tags"])
            for status, answer in operation["responses"].items():
                schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
                assert int(status) < 400 or schema == {"$ref": "#/components/schemas/ErrorEnvelope"}, (path, status)
    assert groups == {tag["name"] for tag in document["tags"]}
    served = {
        (method.lower(), route.path_format)
        for route in app.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert served == routes | {("get", path) for path in ("/", "/docs", "/openapi.json")}
    assert "HTTPValidationError" not in document["components"]["schemas"]


def find_references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"].removeprefix("#/components/schemas/")
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from find_references(inner)


def test_the_questions_are_those_of_the_model_the_limits_those_of_the_settings_and_no_field_of_a_form_is_null(
    document, forms
):
    bodies = [document["components"]["schemas"][name] for name in ("SearchRequest", "ScoreRequest", "RerankRequest")]
    for body in (*bodies, *(forms[path] for path in ("/v1/search", "/v1/score", "/v1/rerank"))):
        field = body["properties"]["question"]
        assert field.get("anyOf", [field])[0]["enum"] == QUESTIONS
    labels = document["paths"]["/v1/pairs/labels"]
    for operation in (labels["get"], labels["delete"], document["paths"]["/v1/pairs/labels/export"]["get"]):
        (asked,) = [one["schema"] for one in operation["parameters"] if one["name"] == "question"]
        assert (asked["type"], asked["enum"]) == ("string", QUESTIONS)
    for body in (forms["/v1/search"], document["components"]["schemas"]["SearchRequest"]):
        assert [body["properties"][name]["maximum"] for name in ("top", "candidates")] == [7, 70]
    assert len(forms) == 9
    assert forms["/v1/search"]["properties"]["early_stop"]["type"] == "number"
    assert not any("'null'" in str(form) for form in forms.values())
