"""Bodies as JSON or as a form, read from real requests without a server."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
import threading
from typing import Any

import httpx
import pytest
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from diptych.http.middleware.errors import RequestError
from diptych.http.request_pool import RequestPool
from diptych.http.schemas import bodies
from diptych.http.schemas.bodies import body_schema, read_body, require_json
from diptych.http.schemas.images import Upload
from diptych.http.schemas.requests import AddForm, AddRequest, RerankForm, RerankRequest, SearchForm, SearchRequest


def request(body: bytes, kind: str | None) -> Request:
    headers = [(b"content-type", kind.encode())] if kind is not None else []
    chunks = [body[start : start + 1000] for start in range(0, len(body), 1000)] or [b""]
    messages = iter(
        {"type": "http.request", "body": chunk, "more_body": place + 1 < len(chunks)}
        for place, chunk in enumerate(chunks)
    )

    async def receive() -> dict[str, Any]:
        if (message := next(messages, None)) is None:
            await asyncio.Event().wait()  # the caller stays
            raise AssertionError
        return message

    return Request(
        {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers, "app": None}, receive
    )


def read(body: bytes, kind: str | None = "application/json", files: int = 3, model: type = SearchRequest) -> Any:
    return asyncio.run(read_body(request(body, kind), model, SearchForm, files, RequestPool(1, 1)))


def form(fields: dict[str, str], files: list, model: type = SearchForm, most: int = 3) -> Any:
    sent = httpx.Request("POST", "http://x", data=fields, files=files)
    asked = request(sent.read(), sent.headers["content-type"])
    return asyncio.run(read_body(asked, SearchRequest, model, most, RequestPool(1, 1)))


def image(data: bytes, name: str = "a.jpg") -> tuple:
    return ("image", (name, data, "image/jpeg"))


def test_json_and_form_say_the_same_of_a_search():
    data = bytes(range(256)) * 300
    asked = read(b'{"image": "AAAA", "top": 7, "candidates": 0}', 'Application/JSON; charset="utf-8"')
    sent = form({"top": "7", "candidates": "0"}, [image(data)])
    assert (asked.top, asked.candidates) == (sent.top, sent.candidates) == (7, 0)
    assert isinstance(asked, SearchRequest)
    assert sent.image == Upload("a.jpg", data)


def test_files_come_in_their_order_with_their_names():
    sent = form({}, [image(b"2", "zwölf.jpg"), image(b"1", "b.jpg"), image(b"", "a.jpg")], AddForm)
    assert sent.images == [("zwölf.jpg", b"2"), ("b.jpg", b"1"), ("a.jpg", b"")]


def test_files_come_under_the_names_of_the_fields_they_are_for():
    files = [("documents", b"1"), ("query", b"2"), ("documents", b"3")]
    sent = form({"top_n": "1"}, [(field, ("a", data)) for field, data in files], RerankForm)
    assert (sent.query.data, [one.data for one in sent.documents], sent.top_n) == (b"2", [b"1", b"3"], 1)


def test_more_files_than_a_request_may_bring_are_refused_with_their_number():
    assert len(form({}, [image(b"1")] * 3, AddForm, most=3).images) == 3
    with pytest.raises(RequestError, match="at most 3 fit in this form") as caught:
        form({}, [image(b"1")] * 4, AddForm, most=3)
    assert (caught.value.status, caught.value.code) == (422, "too_many_pictures")


@pytest.mark.parametrize("part", ["field", "value"])
def test_more_fields_or_longer_ones_than_any_form_has_are_refused(part):
    fields = {f"x{n}": "1" for n in range(17)} if part == "field" else {"user": "x" * (1024 * 1024 + 1)}
    with pytest.raises(HTTPException, match=r"Too many fields|exceeded maximum size") as caught:
        form(fields, [image(b"1")])
    assert caught.value.status_code == 400


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe\xfa", b"'image'", b"[" * 50_000, b'{"top": ' + b"9" * 5000 + b"}"],
    ids=["empty", "open", "bytes", "quotes", "deep", "digits"],
)
def test_whatever_python_cannot_read_as_json_is_the_callers_fault_and_not_ours(body):
    with pytest.raises(RequestError, match=r"^The body is not JSON: ") as caught:
        read(body)
    assert (caught.value.status, caught.value.code) == (400, "invalid_json")


@pytest.mark.parametrize("value", ["0", "[]", "{}", '"a"', '"' + 3 * r"\n" + '"'])
def test_more_values_than_any_right_request_has_are_refused_before_they_are_read(value):
    body = f'{{"image": "A", "filter": {{"a": [{",".join([value] * 70_000)}]}}}}'.encode()
    with pytest.raises(RequestError, match="at most 65,584 are allowed") as caught:
        read(body)
    assert (caught.value.status, caught.value.code) == (422, "too_many_values")
    with pytest.raises(RequestError, match="at most 65,584 are allowed"):
        form({"filter": body.decode()}, [image(b"1")])


def test_as_many_values_as_metadata_may_have_and_the_slashes_that_php_escapes_are_read():
    metadata = "[" + ",".join(["0"] * 21_840) + "]"
    data = base64.b64encode(bytes(range(256)) * 8000).decode().replace("/", "\\/")
    body = f'{{"image": "data:image/jpeg;base64,{data}", "metadata": {{"a": {metadata}}}}}'.encode()
    added = asyncio.run(read_body(request(body, "application/json"), AddRequest, AddForm, 1, RequestPool(1, 1)))
    assert added.metadata is not None
    assert len(added.metadata["a"]) == 21_840


def test_more_pictures_than_a_request_may_bring_are_refused_before_any_is_looked_at():
    for value in (["A"] * 4, [0] * 4, {"content": [0] * 4}):
        body = json.dumps({"query": "A", "documents": value}).encode()
        with pytest.raises(RequestError, match=r"^documents has 4 pictures; at most 3 fit") as caught:
            asyncio.run(read_body(request(body, "application/json"), RerankRequest, RerankForm, 3, RequestPool(1, 1)))
        assert (caught.value.code, caught.value.param) == ("too_many_pictures", "documents")


def test_the_first_wrong_picture_of_a_list_is_said_and_no_other_is_looked_at():
    for wrong in ([0] * 100, {"content": [0] * 100}):
        body = json.dumps({"query": "A", "documents": wrong}).encode()
        with pytest.raises(RequestValidationError) as caught:
            asyncio.run(read_body(request(body, "application/json"), RerankRequest, RerankForm, 100, RequestPool(1, 1)))
        assert len(caught.value.errors()) == 1


@pytest.mark.parametrize("many", [10, 2000])
@pytest.mark.parametrize("as_form", [False, True])
def test_a_body_that_takes_long_to_check_is_read_beside_the_event_loop(as_form, many, monkeypatch):
    checked = list[bool]()
    monkeypatch.setattr(bodies, "_checked", lambda *_: checked.append(threading.current_thread().name == "MainThread"))
    condition = json.dumps({"a": {"$in": list(range(many))}})
    if as_form:
        form({"filter": condition}, [image(b"1")])
    else:
        read(f'{{"image": "A", "filter": {condition}}}'.encode())
    assert checked == [many < 1000]


def test_an_upload_that_the_folder_for_temporary_files_does_not_take_is_503_and_said_in_the_log(
    monkeypatch, caplog, tmp_path
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(
        RequestError, match=r"no room for this upload: No such file or directory\. Try again"
    ) as refused:
        form({}, [image(bytes(2**20 + 1))], AddForm)
    assert (refused.value.status, refused.value.code) == (503, "no_room")
    assert "cannot be kept in the folder for temporary files (TMPDIR)" in caplog.text


@pytest.mark.parametrize(
    ("fields", "files", "came"),
    [
        ({}, [("file", b"1")], 'one is called "file"'),
        ({"top": "3"}, [("top", b"1"), image(b"1")], 'one is called "top"'),
        ({"x": "1"}, [image(b"1"), ("mask", b"2")], 'one is called "mask"'),
        ({"top": "3"}, [], 'none is called "image"'),
    ],
)
def test_a_form_brings_its_pictures_under_their_names(fields, files, came):
    with pytest.raises(RequestError, match=f"pictures as files called image; {came}") as caught:
        form(fields, files or [("user", (None, "me"))])
    assert (caught.value.status, caught.value.param) == (422, "image")


@pytest.mark.parametrize(
    ("fields", "files", "said"),
    [
        ({}, [image(b"1"), image(b"2")], "expected one file, got 2"),
        (
            {"image": "AAAA"},
            [("user", (None, "me"))],
            "expected a file, and not text (curl sends one as -F name=@file)",
        ),
        ({"image": "AAAA"}, [image(b"1")], "expected a file, and not text (curl sends one as -F name=@file)"),
    ],
)
def test_what_is_no_file_is_refused_at_its_field(fields, files, said):
    with pytest.raises(RequestValidationError) as caught:
        form(fields, files)
    (fault,) = caught.value.errors()
    assert (fault["loc"], fault["msg"]) == (("body", "image"), said)


def test_a_picture_is_called_in_errors_what_the_request_called_it():
    for key in ("image", "images"):
        assert read(f'{{"{key}": ["AAAA"]}}'.encode(), model=AddRequest).key_of("images") == key
        assert form({}, [(key, b"1")], AddForm).key_of("images") == key
    assert form({}, [image(b"1")]).key_of("image") == "image"
    with pytest.raises(RequestValidationError):
        form({}, [("image", b"1"), ("images", b"2")], AddForm)


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
    for from_json, from_form, files in (
        (SearchRequest, SearchForm, {"image": "string"}),
        (AddRequest, AddForm, {"images": "array"}),
        (RerankRequest, RerankForm, {"query": "string", "documents": "array"}),
    ):
        content = body_schema(from_json, from_form)["requestBody"]["content"]  # type: ignore[index]
        schema = content["multipart/form-data"]["schema"]
        assert set(schema["properties"]) == set(from_form.model_fields)
        assert {name: schema["properties"][name]["type"] for name in files} == files
        assert set(schema["required"]) == set(files)
        assert content["application/json"]["schema"]["$ref"].endswith(f"/{from_json.__name__}")
