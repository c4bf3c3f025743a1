"""The document describes what is taken, also where FastAPI cannot see it in a signature."""

from __future__ import annotations

import pytest
from starlette.routing import Mount, Route

from diptych.http.app import create_app
from diptych.http.schemas.requests import AddRequest, SearchRequest
from diptych.http.settings import Settings

ROUTES = {
    "/v1/score": {"post"},
    "/v1/rerank": {"post"},
    "/score": {"post"},
    "/rerank": {"post"},
    "/v2/rerank": {"post"},
    "/v1/embeddings": {"post"},
    "/v1/explain": {"post"},
    "/v1/search": {"post"},
    "/v1/duplicates": {"post"},
    "/v1/pairs/next": {"post"},
    "/v1/pairs/labels": {"get", "post", "delete"},
    "/v1/pairs/labels/export": {"get"},
    "/v1/images": {"get", "post"},
    "/v1/images/export": {"get"},
    "/v1/images/{id}": {"get", "delete"},
    "/v1/images/{id}/content": {"get"},
    "/v1/images/{id}/thumbnail": {"get"},
    "/v1/collections": {"get", "post"},
    "/v1/collections/{name}": {"get", "delete"},
    "/v1/models": {"get"},
    "/info": {"get"},
    "/metrics": {"get"},
    "/healthz": {"get"},
    "/readyz": {"get"},
    "/v2/health/live": {"get"},
    "/v2/health/ready": {"get"},
}


@pytest.fixture(scope="module")
def schemas(scorer) -> dict:
    return create_app(None, scorer).openapi()["components"]["schemas"]


@pytest.mark.parametrize(("model", "picture"), [(SearchRequest, "image"), (AddRequest, "images")])
def test_a_body_that_no_signature_shows_is_described_key_by_key(schemas, model, picture):
    described = schemas[model.__name__]
    assert set(described["properties"]) == set(model.model_fields)
    assert described["required"] == [picture]
    assert described["additionalProperties"] is False
    assert all(
        "description" in part or part.get("oneOf") or name in "image" for name, part in described["properties"].items()
    )


def test_every_way_to_name_a_picture_is_described(schemas):
    ways = schemas["SearchRequest"]["properties"]["image"]["oneOf"]
    named = {way["$ref"].rpartition("/")[2] for way in ways if "$ref" in way}
    assert named == {"ImagePart", "InlineImage", "StoredImage", "Content"}
    assert [way["type"] for way in ways if "$ref" not in way] == ["string"]
    assert named < set(schemas)


def test_the_document_lists_every_route_with_words_and_its_errors(reader, shelf, scorer):
    document = reader.get("/openapi.json").json()
    assert {path: set(operations) for path, operations in document["paths"].items()} == ROUTES
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], (method, path)
            assert operation["description"], (method, path)
            for status, answer in operation["responses"].items():
                schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
                assert int(status) < 400 or schema == {"$ref": "#/components/schemas/ErrorEnvelope"}, (path, status)
    groups = {tag for operations in document["paths"].values() for one in operations.values() for tag in one["tags"]}
    assert groups == {tag["name"] for tag in document["tags"]}
    assert document["tags"][0]["name"] == "pictures in the request"
    served: dict[str, set[str]] = {}
    for route in _routes(create_app(shelf, scorer).routes):
        served.setdefault(route.path_format, set()).update(
            method.lower() for method in (route.methods or set()) - {"HEAD"}
        )
    assert served == ROUTES | {"/": {"get"}, "/docs": {"get"}, "/openapi.json": {"get"}}
    assert "HTTPValidationError" not in document["components"]["schemas"]


def _routes(routes):
    """The routes, also those of routers that were included, but for what is mounted."""
    for route in routes:
        if isinstance(route, Route):
            yield route
        elif not isinstance(route, Mount):
            yield from _routes(route.original_router.routes)


def test_every_reference_of_the_document_can_be_followed(reader):
    document = reader.get("/openapi.json").json()
    found = []

    def follow(value) -> None:
        if isinstance(value, dict):
            if "$ref" in value:
                found.append(value["$ref"])
                assert value["$ref"].removeprefix("#/components/schemas/") in document["components"]["schemas"]
            for inner in value.values():
                follow(inner)
        elif isinstance(value, list):
            for inner in value:
                follow(inner)

    follow(document)
    assert "#/components/schemas/SearchRequest" in found
    assert "#/components/schemas/AddRequest" in found


def test_the_questions_that_may_be_asked_are_those_of_the_model_in_every_request(scorer):
    document = create_app(None, scorer).openapi()
    bodies = [document["components"]["schemas"][name] for name in ("SearchRequest", "ScoreRequest", "RerankRequest")]
    for path in ("/v1/search", "/v1/score", "/v1/rerank"):
        bodies.append(document["paths"][path]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"])
    for body in bodies:
        field = body["properties"]["question"]
        assert field.get("anyOf", [field])[0]["enum"] == ["copy", "thing", "match"]
    labels = document["paths"]["/v1/pairs/labels"]
    for operation in (labels["get"], labels["delete"], document["paths"]["/v1/pairs/labels/export"]["get"]):
        (asked,) = [one["schema"] for one in operation["parameters"] if one["name"] == "question"]
        assert (asked["type"], asked["enum"]) == ("string", ["copy", "thing", "match"])


def test_the_limits_of_a_search_are_those_of_the_settings(scorer):
    document = create_app(None, scorer, settings=Settings(top=7, candidates=70)).openapi()
    form = document["paths"]["/v1/search"]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
    for body in (form, document["components"]["schemas"]["SearchRequest"]):
        assert [body["properties"][name]["maximum"] for name in ("top", "candidates")] == [7, 70]


def test_no_field_of_a_form_is_said_to_be_null(scorer):
    paths = create_app(None, scorer).openapi()["paths"]
    forms = [
        operation["requestBody"]["content"]["multipart/form-data"]["schema"]
        for methods in paths.values()
        for operation in methods.values()
        if "multipart/form-data" in operation.get("requestBody", {}).get("content", {})
    ]
    assert len(forms) == 9
    assert "number" in [form["properties"].get("early_stop", {}).get("type") for form in forms]
    assert not any("'null'" in str(form) for form in forms)
