"""What requests may bring, as JSON and as a form, and what each mistake in it is told."""

from __future__ import annotations

import base64
import contextlib
import json
import tempfile
from io import BytesIO
from typing import ClassVar

import pytest
from pydantic import TypeAdapter, ValidationError
from refusals import check_refusal

from diptych.errors import RemoteRefusedError
from diptych.http import app
from diptych.http.schemas import requests
from diptych.http.schemas.pictures import Picture, Strict, names_of, resolve_picture
from diptych.http.settings import Settings
from diptych.pictures.url_guard import FetchLimits

DATA = bytes(range(251))
BARE = base64.b64encode(DATA).decode()
URI = f"data:image/png;base64,{BARE}"
PART = {"type": "image_url", "image_url": {"url": URI}}
MODELS = [value for value in vars(requests).values() if isinstance(value, type) and issubclass(value, Strict)]
JSON = {"Content-Type": "application/json"}
FILE = {"files": {"image": b"A"}}


@pytest.mark.parametrize(
    "form",
    [
        *(BARE, URI, f" \n{URI}\n", f"DATA:image/jpeg;charset=utf-8;BASE64,{BARE}", f"data:;base64,{BARE}"),
        *(PART, {"type": "image_url", "image_url": BARE}, PART | {"image_url": {"url": URI, "detail": "high"}}),
        *({"image": URI}, {"image": BARE}, {"content": [PART]}),
    ],
)
def test_every_form_of_a_sent_picture_means_the_same_bytes(form):
    assert resolve_picture(TypeAdapter(Picture).validate_python(form), "queries")[1] == DATA


@pytest.mark.parametrize(
    ("text", "code"),
    [
        *((url, "remote_url_refused") for url in ("https://example.org/a.png", " HTTP://127.0.0.1/x.jpg")),
        *((url, "remote_url_refused") for url in ("\t//example.org/a.png", "ftp://example.org/a.png")),
        ("file:///etc/passwd", "file_url_refused"),
        *((text, "invalid_picture") for text in ("/etc/passwd", "\u00e9", "AA-_", " " * 70 + "https://example.org")),
        *((text, "invalid_picture") for text in ("data:image/png;base64", f"data:image/png,{BARE}", f"{BARE},{BARE}")),
    ],
)
def test_nothing_is_fetched_or_opened_because_a_request_says_so(reader, text, code):
    for named in (text, {"type": "image_url", "image_url": {"url": text}}, {"image": text}):
        answer = reader.post("/v1/embeddings", json={"input": [named]})
        check_refusal(answer, 422, code, "input[0]", "data URI" if code.endswith("url_refused") else "base64")


@pytest.mark.parametrize(
    ("value", "place", "said"),
    [
        *((wrong, "", "expected a picture: a data URI, base64") for wrong in (7, None, {"url": URI})),
        ({"id": 7}, ".id", "valid string"),
        ({"image": URI, "id": "AAAA"}, "", 'unknown key "id"'),
        (PART | {"image_url": {"uri": URI}}, ".image_url", 'unknown key "uri"; did you mean "url"?'),
        ({"content": []}, ".content", "at least 1 item"),
        ({"content": [PART, PART]}, ".content", "at most 1 item"),
        ({"content": [{"type": "text", "text": "x"}]}, ".content[0]", 'unknown key "text"'),
    ],
)
def test_what_has_no_known_form_is_refused_where_it_is_wrong(reader, value, place, said):
    answer = reader.post("/v1/embeddings", json={"input": [BARE, value]})
    check_refusal(answer, 422, "invalid_request", f"input[1]{place}", said)


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("score", {"text1": BARE}, 'did you mean "text_1"?'),
        ("rerank", {"top_k": 1}, 'did you mean "top_n"?'),
        ("search", {"query": 1}, "known are candidates, collection, early_stop, filter, image, model, question, top"),
        ("search", {"{x}\ud800": 1}, 'unknown key "{x}?"'),
        ("search", {"image": BARE, "user": "a\ud800"}, "user has half of a surrogate pair, which is no text"),
        ("images", {"image": {"id": "\udfff"}}, "id has half of a surrogate pair"),
        ("embeddings", {"images": BARE, "input": BARE}, ""),
    ],
)
def test_a_misspelt_key_is_answered_with_the_one_that_was_meant(reader, path, body, said):
    answer = reader.post(f"/v1/{path}", content=json.dumps(body), headers=JSON)
    assert answer.status_code == 422
    assert said in answer.json()["error"]["message"]
    assert len(answer.content) < 500


def test_no_model_takes_a_key_it_does_not_know_and_any_value_of_one_it_knows_is_taken_or_refused():
    assert len(MODELS) >= 9
    values = (None, True, 0, -1.5, 1e300, float("inf"), "", "true", "\0", [], [[]], [None], [{}], {}, {"content": {}})
    for model in MODELS:
        assert model.model_config.get("extra") == "forbid"
        for key in {key for name, field in model.model_fields.items() for key in names_of(name, field)} | {"zzz"}:
            for value in values:
                with contextlib.suppress(ValidationError):
                    model.model_validate({key: value})


UNREAD = ["[1]", '"x"', "7", "{", '{"a": NaN}', '{"a": "\\ud800"}', '{"a": "%s"}' % ("a" * 70_000)]


@pytest.mark.parametrize("text", UNREAD)
def test_metadata_are_one_object_that_can_be_read_back(reader, text):
    form = reader.post("/v1/images", **FILE, data={"metadata": text})
    check_refusal(form, 422, "invalid_request", "metadata")
    if text != "{":
        body = f'{{"image": "{BARE}", "metadata": {text}}}'
        check_refusal(reader.post("/v1/images", content=body, headers=JSON), 422, "invalid_request", "metadata")


@pytest.mark.parametrize(
    ("path", "given", "param"),
    [
        ("rerank", {"files": [("query", b"1"), ("query", b"2"), ("documents", b"3")]}, "query"),
        ("search", {"data": {"tops": "3"}, **FILE}, None),
        ("images", {"files": [("image", b"1"), ("images", b"2")]}, "image"),
        ("explain", {"files": {"images": b"1"}}, "images"),
        ("explain", {"files": [("images", b"1")] * 2, "data": {"links": "2.5"}}, "links"),
    ],
)
def test_what_is_wrong_with_a_form_is_said_at_its_field(reader, path, given, param):
    check_refusal(reader.post(f"/v1/{path}", **given), 422, "invalid_request", param)


@pytest.mark.parametrize("fields", [{f"x{n}": "1" for n in range(17)}, {"user": "x" * (1024 * 1024 + 1)}])
def test_more_fields_or_longer_ones_than_any_form_has_are_refused(reader, fields):
    assert reader.post("/v1/search", data=fields, **FILE).status_code == 400


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe\xfa", b"[" * 50_000, b'{"top": ' + b"9" * 5000 + b"}"])
def test_whatever_python_cannot_read_as_json_is_the_callers_fault_and_not_ours(reader, body):
    answer = reader.post("/v1/search", content=body, headers=JSON)
    check_refusal(answer, 400, "invalid_json", None, "The body is not JSON: ")


def test_more_values_than_any_right_request_has_are_refused_and_as_many_as_metadata_may_have_are_read(reader):
    for value in ("0", "{}", '"' + 3 * r"\n" + '"'):
        condition = f'{{"a": [{",".join([value] * 70_000)}]}}'
        body = f'{{"image": "A", "filter": {condition}}}'
        for given in ({"content": body, "headers": JSON}, {"data": {"filter": condition}, **FILE}):
            check_refusal(reader.post("/v1/search", **given), 422, "too_many_values", None, "at most 65,552")
    metadata = "[" + ",".join(["0"] * 21_840) + "]"
    data = base64.b64encode(bytes(range(256)) * 8000).decode().replace("/", "\\/")  # as PHP escapes it
    body = f'{{"image": "{data}", "metadata": {{"a": {metadata}}}}}'
    check_refusal(reader.post("/v1/images", content=body, headers=JSON), 422, "invalid_picture", "image")


def test_an_upload_that_the_folder_for_temporary_files_does_not_take_is_503_and_said_in_the_log(
    reader, monkeypatch, caplog, tmp_path
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    answer = reader.post("/v1/search", files={"image": BytesIO(bytes(2**20 + 1))})
    check_refusal(answer, 503, "no_room", None, "send JSON")
    assert answer.headers["retry-after"] == "30"
    assert "TMPDIR" in caplog.text


class Web:
    """In place of `Fetcher`: a web of few pictures."""

    pictures: ClassVar[dict[str, bytes]] = {}
    made: ClassVar[Web]

    def __init__(self, limits: FetchLimits) -> None:
        self.limits, self.closed = limits, False
        Web.made = self

    def fetch(self, url: str) -> bytes:
        if url not in Web.pictures:
            raise RemoteRefusedError(f"{url} is refused: there is no such thing")
        return Web.pictures[url]

    def close(self) -> None:
        self.closed = True


def test_web_addresses_are_fetched_in_every_form_where_that_is_set(serve, photo_bytes, data_uri, monkeypatch):
    monkeypatch.setattr(Web, "pictures", {"https://example.org/a.jpg": photo_bytes(50)})
    monkeypatch.setattr(app, "Fetcher", Web)
    url, uri = "https://example.org/a.jpg", data_uri(photo_bytes(50))
    with serve(Settings(urls=True, url_bytes=1000, url_hosts=(".example.org",))) as client:
        forms = [url, {"image": url}, {"type": "image_url", "image_url": {"url": url}}]
        answer = client.post("/v1/score", json={"queries": uri, "documents": forms}).json()
        assert [item["score"] for item in answer["data"]] == [1.0] * 3, "the same bytes"
        assert client.post("/v1/search", json={"image": url}).status_code == 200
        assert client.post("/v1/images", json={"image": url}).status_code == 201
        refused = client.post("/v1/score", json={"queries": uri, "documents": [uri, "http://10.0.0.1/"]})
        check_refusal(refused, 422, "remote_url_refused", "documents[1]")
        assert (Web.made.limits.bytes, Web.made.limits.hosts) == (1000, (".example.org",))
    assert Web.made.closed
