"""Bodies as JSON or as a form, read from real requests without a server."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from fastapi import Request
from fastapi.exceptions import RequestValidationError

from diptych.http.bodies import Upload, body_schema, read_body, require_json
from diptych.http.errors import RequestError
from diptych.http.requests import AddForm, AddRequest, SearchForm, SearchRequest


def request(body: bytes, kind: str | None) -> Request:
    headers = [(b"content-type", kind.encode())] if kind is not None else []
    chunks = [body[start : start + 1000] for start in range(0, len(body), 1000)] or [b""]
    messages = iter(
        {"type": "http.request", "body": chunk, "more_body": place + 1 < len(chunks)}
        for place, chunk in enumerate(chunks)
    )

    async def receive():
        return next(messages)

    return Request(
        {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers, "app": None}, receive
    )


def read(body: bytes, kind: str | None = "application/json", files: int = 3):
    return asyncio.run(read_body(request(body, kind), SearchRequest, SearchForm, files))


def form(fields: dict[str, str], files: list) -> tuple[SearchForm, list[Upload]]:
    sent = httpx.Request("POST", "http://x", data=fields, files=files)
    found = read(sent.read(), sent.headers["content-type"])
    assert isinstance(found, tuple)
    return found


def image(data: bytes, name: str = "a.jpg") -> tuple:
    return ("image", (name, data, "image/jpeg"))


def test_json_and_form_say_the_same_of_a_search():
    data = bytes(range(256)) * 300
    asked = read(b'{"image": "AAAA", "top": 7, "candidates": 0}', 'Application/JSON; charset="utf-8"')
    options, uploads = form({"top": "7", "candidates": "0"}, [image(data)])
    assert isinstance(asked, SearchRequest)
    assert (asked.top, asked.candidates) == (options.top, options.candidates) == (7, 0)
    assert uploads == [Upload("a.jpg", data)]


def test_files_come_in_their_order_with_their_names():
    _, uploads = form({}, [image(b"2", "zwölf.jpg"), image(b"1", "b.jpg"), image(b"", "a.jpg")])
    assert uploads == [("zwölf.jpg", b"2"), ("b.jpg", b"1"), ("a.jpg", b"")]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe\xfa", b"'image'", b"[" * 100_000, b'{"top": ' + b"9" * 5000 + b"}"],
    ids=["empty", "open", "bytes", "quotes", "deep", "digits"],
)
def test_whatever_python_cannot_read_as_json_is_the_callers_fault_and_not_ours(body):
    with pytest.raises(RequestError, match=r"^The body is not JSON: ") as caught:
        read(body)
    assert (caught.value.status, caught.value.code) == (400, "invalid_json")


@pytest.mark.parametrize(
    ("fields", "files", "came"),
    [
        ({}, [("file", b"1")], 'a file is called "file"'),
        ({"top": "3"}, [("top", b"1")], 'a file is called "top"'),
        ({"x": "1"}, [image(b"1"), ("mask", b"2")], 'a file is called "mask"'),
    ],
)
def test_a_form_brings_its_pictures_as_files_called_image(fields, files, came):
    with pytest.raises(RequestError, match=came) as caught:
        form(fields, files)
    assert caught.value.param == "image"


def test_a_picture_as_a_text_field_is_no_file():
    boundary = b'--x\r\nContent-Disposition: form-data; name="image"\r\n\r\nAAAA\r\n--x--\r\n'
    with pytest.raises(RequestError, match="file fields called image; there is none"):
        read(boundary, "multipart/form-data; boundary=x")


def test_a_misspelt_field_of_a_form_is_refused_like_a_misspelt_key():
    for ask in (lambda: form({"tops": "3"}, [image(b"1")]), lambda: read(b'{"image": "AAAA", "tops": 3}')):
        with pytest.raises(RequestValidationError) as caught:
            ask()
        (fault,) = caught.value.errors()
        assert fault["loc"] == ("body",)
        assert 'unknown key "tops"; did you mean "top"?' in fault["msg"]


@pytest.mark.parametrize("kind", [None, "", "text/plain", "application/jsonx", "application/x-www-form-urlencoded"])
def test_any_other_content_type_is_415_with_what_came_and_what_was_expected(kind):
    came = f'got "{kind}"' if kind else "got no Content-Type"
    with pytest.raises(RequestError, match=f"Expected application/json or multipart/form-data, {came}") as caught:
        read(b"{}", kind)
    assert (caught.value.status, caught.value.code) == (415, "unsupported_media_type")
    with pytest.raises(RequestError, match=f"Expected application/json, {came}"):
        asyncio.run(require_json(request(b"{}", kind)))


def test_the_documents_form_has_exactly_the_fields_that_are_taken():
    for from_json, from_form, several in ((SearchRequest, SearchForm, False), (AddRequest, AddForm, True)):
        content = body_schema(from_json, from_form, several=several)["requestBody"]["content"]  # type: ignore[index]
        schema = content["multipart/form-data"]["schema"]
        assert set(schema["properties"]) == {"image", *from_form.model_fields}
        assert (schema["properties"]["image"]["type"] == "array") is several
        assert content["application/json"]["schema"]["$ref"].endswith(f"/{from_json.__name__}")
