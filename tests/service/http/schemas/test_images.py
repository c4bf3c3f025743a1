"""Pictures as requests name them: what each form means, and what is refused with which words."""

from __future__ import annotations

import base64
from typing import ClassVar

import pytest
from pydantic import TypeAdapter, ValidationError

from diptych.errors import RemoteRefusedError
from diptych.http import app
from diptych.http.middleware.errors import RequestError, parameter
from diptych.http.schemas.images import Picture, Pictures, inline_bytes, listed, reference
from diptych.http.settings import Settings
from diptych.pictures.url_guard import FetchLimits

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
        ("https://example.org/a.png", "remote_url_refused", "DIPTYCH_URLS=1"),
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
        ({"content": [PART, PART]}, "content", "at most 1 item"),
        ({"content": [{"type": "text", "text": "x"}]}, "content[0]", 'unknown key "text"'),
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
    assert len(listed(MANY.validate_python([{"content": [PART]}] * 2), "documents", 9)) == 2
    with pytest.raises(ValidationError) as caught:
        MANY.validate_python([{"content": [PART]}, {"content": [PART, PART]}])
    (fault,) = caught.value.errors()
    assert parameter(("body", *fault["loc"])) == "[1].content"
    assert "at most 1 item" in fault["msg"]


class Web:
    """In place of `Fetcher`: a web of few pictures."""

    pictures: ClassVar[dict[str, bytes]] = {}
    made: ClassVar[Web]

    def __init__(self, limits: FetchLimits) -> None:
        self.limits, self.closed = limits, False
        self.asked: list[str] = []
        Web.made = self

    def fetch(self, url: str) -> bytes:
        self.asked.append(url)
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
        itself = client.post("/v1/score", json={"queries": uri, "documents": uri}).json()["data"][0]["raw_score"]
        assert [item["raw_score"] for item in answer["data"]] == [itself] * 3
        assert client.post("/v1/search", json={"image": url}).status_code == 200
        assert client.post("/v1/images", json={"image": url}).status_code == 201
        assert Web.made.asked == [url] * 5
        refused = client.post("/v1/score", json={"queries": uri, "documents": [uri, "http://10.0.0.1/"]})
        error = refused.json()["error"]
        assert (refused.status_code, error["code"], error["param"]) == (422, "remote_url_refused", "documents[1]")
        assert (Web.made.limits.bytes, Web.made.limits.hosts) == (1000, (".example.org",))
    assert Web.made.closed


def test_no_web_address_is_fetched_where_nothing_is_set(serve, data_uri, photo_bytes, monkeypatch):
    monkeypatch.setattr(app, "Fetcher", None)  # it is not even made
    with serve() as client:
        asked = {"queries": data_uri(photo_bytes(1)), "documents": "https://example.org/a.jpg"}
        answer = client.post("/v1/score", json=asked)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "remote_url_refused")
