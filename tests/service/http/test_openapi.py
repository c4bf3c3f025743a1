"""The document describes what is taken, also where FastAPI cannot see it in a signature."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from pydantic import BaseModel

from diptych.http.app import create_app
from diptych.http.openapi import complete_openapi
from diptych.http.schemas.bodies import body_schema
from diptych.http.schemas.requests import AddRequest, SearchForm, SearchRequest
from diptych.http.settings import Settings


class StoredImage(BaseModel):
    """Another model than the service's, of the same name."""

    theirs: int


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


def test_asking_twice_gives_the_same_document_and_what_was_there_is_left_as_it_was():
    app = FastAPI()

    @app.post("/v1/search", openapi_extra=body_schema(SearchRequest, SearchForm))
    def take(body: StoredImage) -> None:
        """Take it."""

    complete_openapi(app, Settings(), ["copy"])
    first = app.openapi()
    assert set(first["components"]["schemas"]["StoredImage"]["properties"]) == {"theirs"}
    assert {"SearchRequest", "AddRequest", "ImagePart"} < set(first["components"]["schemas"])
    assert app.openapi() == first


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
