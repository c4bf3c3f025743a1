"""Pictures as requests name them: what each form means, and what is refused with which words."""

from __future__ import annotations

import base64

import pytest
from pydantic import TypeAdapter, ValidationError

from diptych.http.errors import RequestError, parameter
from diptych.http.references import Picture, Pictures, inline_bytes, listed, reference

DATA = bytes(range(251))
BARE = base64.b64encode(DATA).decode()
URI = f"data:image/png;base64,{BARE}"
PART = {"type": "image_url", "image_url": {"url": URI}}
ONE, MANY = TypeAdapter(Picture), TypeAdapter(Pictures)


@pytest.mark.parametrize(
    "form",
    [
        *(BARE, URI, f" \n{URI}\n", f"DATA:image/jpeg;charset=utf-8;BASE64,{BARE}", f"data:;base64,{BARE}"),
        *(PART, {"type": "image_url", "image_url": BARE}, PART | {"image_url": {"url": URI, "detail": "high"}}),
        *({"image": URI}, {"image": BARE}, {"content": [PART]}),
    ],
)
def test_every_form_of_a_sent_picture_means_the_same_bytes(form):
    _, found = reference(ONE.validate_python(form), "queries")
    assert found == DATA


def test_a_stored_picture_is_its_id_and_never_taken_for_base64():
    assert reference(ONE.validate_python({"id": "AAAA"}), "input[2]") == ("input[2]", "AAAA")


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("https://example.org/a.png", "remote_url_refused", "download the picture"),
        ("\t//example.org/a.png", "remote_url_refused", "download the picture"),
        ("ftp://example.org/a.png", "remote_url_refused", "download the picture"),
        ("FILE:a.png", "file_url_refused", "send the picture as a data URI"),
        ("../a.png", "invalid_picture", "neither a data URI nor base64"),
        ("AAA", "invalid_picture", "neither a data URI nor base64"),
        ("AA-_", "invalid_picture", "neither a data URI nor base64"),
        (" " * 70 + "https://example.org", "invalid_picture", "neither a data URI nor base64"),
        ("data:image/png;base64", "invalid_picture", 'must read "data:image/...;base64,..."'),
        (f"data:image/png,{BARE}", "invalid_picture", 'must read "data:image/...;base64,..."'),
        (f"data:image/png;base64,{BARE}!", "invalid_picture", "neither a data URI nor base64"),
    ],
)
def test_what_is_no_inline_picture_is_refused_with_its_place_and_the_reason(text, code, said):
    with pytest.raises(RequestError) as caught:
        inline_bytes(text, "documents[7]")
    assert (caught.value.status, caught.value.code, caught.value.param) == (422, code, "documents[7]")
    assert str(caught.value).startswith("documents[7]: ")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("value", "place", "said"),
    [
        (7, None, 'expected a picture: a data URI, base64, {"type": "image_url"'),
        (None, None, "expected a picture"),
        ({}, None, "expected a picture"),
        ({"url": URI}, None, "expected a picture"),
        ({"id": 7}, "id", "valid string"),
        ({"image": URI, "id": "AAAA"}, None, 'unknown key "id"'),
        (PART | {"type": "input_image"}, "type", "'image_url'"),
        ({"type": "image_url"}, "image_url", "Field required"),
        (PART | {"image_url": {"uri": URI}}, "image_url", 'unknown key "uri"; did you mean "url"?'),
        ({"content": []}, "content", "at least 1 item"),
        ({"content": [PART, {"type": "text", "text": "x"}]}, "content[1]", 'unknown key "text"'),
    ],
)
def test_what_has_no_known_form_is_refused_where_it_is_wrong(value, place, said):
    with pytest.raises(ValidationError) as caught:
        ONE.validate_python(value)
    first = caught.value.errors()[0]
    assert parameter(("body", *first["loc"])) == place
    assert said in first["msg"]


def test_lists_and_content_parts_are_counted_from_zero_and_one_picture_is_not_counted():
    assert [place for place, _ in listed(MANY.validate_python([BARE, PART, {"id": "x"}]), "documents", 3)] == [
        *("documents[0]", "documents[1]", "documents[2]")
    ]
    content = listed(MANY.validate_python({"content": [PART, PART]}), "documents", 2)
    assert [place for place, _ in content] == ["documents.content[0]", "documents.content[1]"]
    assert [place for place, _ in listed(MANY.validate_python(BARE), "query", 1)] == ["query"]


def test_one_more_than_the_limit_is_refused_with_both_numbers():
    pictures = MANY.validate_python([BARE] * 5)
    assert len(listed(pictures, "input", 5)) == 5
    with pytest.raises(RequestError, match="input has 5 pictures; at most 4 fit in one request") as caught:
        listed(pictures, "input", 4)
    assert (caught.value.code, caught.value.param) == ("too_many_pictures", "input")


def test_an_item_of_a_list_is_one_picture_also_in_content_form():
    (item,) = listed(MANY.validate_python([{"content": [PART, PART]}]), "documents", 9)
    with pytest.raises(RequestError, match=r"documents\[0\]\.content has 2 parts; each item is one picture"):
        reference(item[1], item[0])
