import json
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from diptych.http.schemas.requests import Metadata, MetadataText


def refusal(kind: Any, value: object) -> str:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(value)
    (fault,) = caught.value.errors()
    assert fault["loc"] == ()
    return fault["msg"]


@pytest.mark.parametrize(
    ("text", "got"),
    [("[1]", "a list"), ('"x"', "a text"), ("null", "null"), ("7", "a number"), ("true", "true or false")],
)
def test_metadata_is_one_object_for_all_pictures_of_a_request_and_the_error_says_so(text, got):
    said = (
        'expected one JSON object for all pictures of the request, like {"label": "shoe"}, got %s; '
        "send pictures with metadata of their own in requests of their own"
    )
    assert refusal(MetadataText, text) == refusal(Metadata, json.loads(text)) == said % got
    assert refusal(MetadataText, text[:-1] + "[{") == said % "no JSON"


def test_metadata_that_is_an_object_and_breaks_another_rule_keeps_its_own_error():
    assert "metadata may have 65,536 bytes" in refusal(MetadataText, '{"a": "%s"}' % ("a" * 70_000))
