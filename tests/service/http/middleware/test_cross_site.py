import socket

import pytest
from starlette.datastructures import Headers

from diptych.http.middleware.outer import foreign_name, foreign_page


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize(
    ("sent", "foreign"),
    [
        ({}, False),
        ({"sec-fetch-site": "same-origin"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"sec-fetch-site": "cross-site"}, True),
        ({"sec-fetch-site": "same-site"}, True),  # another port of this machine, another name of this domain
        ({"sec-fetch-site": "same-origin", "origin": "http://other.example"}, False),  # a proxy renamed the host
        ({"origin": "http://pictures.example:8000"}, False),
        ({"origin": "http://PICTURES.example:8000"}, False),
        ({"origin": "http://pictures.example"}, True),  # another service of this machine
        ({"origin": "http://pictures.example:3000"}, True),
        ({"origin": "http://pictures.example:port"}, True),
        ({"origin": "http://pictures.example", "x-forwarded-host": "pictures.example"}, False),
        ({"origin": "https://photos.lan", "x-forwarded-host": "photos.lan:443"}, False),
        ({"origin": "https://photos.lan:8443", "x-forwarded-host": "photos.lan"}, True),
        ({"origin": "http://photos.lan", "x-forwarded-host": "photos.lan"}, False),
        ({"origin": "http://photos.lan", "x-forwarded-host": "other.lan"}, True),
        ({"origin": "http://ours.example"}, False),
        ({"origin": "http://ours.example:3000"}, False),
        ({"origin": "https://ours.example", "sec-fetch-site": "same-site"}, False),
        ({"origin": "http://pictures.example:8000", "sec-fetch-site": "same-site"}, True),
        ({"origin": "http://ours.example.evil.org", "sec-fetch-site": "cross-site"}, True),
        ({"origin": "http://evil.example:8000"}, True),
        ({"origin": "null"}, True),
        ({"origin": "http://[bad"}, True),
        ({"origin": ""}, True),
    ],
)
def test_a_change_comes_from_the_services_own_page_or_from_no_page(method, sent, foreign):
    headers = Headers({"host": "pictures.example:8000", **sent})
    assert foreign_page(method, headers, ("ours.example",)) is foreign
    for look in ("GET", "HEAD", "OPTIONS"):
        assert not foreign_page(look, headers, ())


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "localhost:8000", "127.0.0.1:8000", "10.1.2.3", "[::1]:8000", "[::ffff:10.0.0.1]"),
        *("diptych:8000", "pictures.localhost", "OURS.example:443", "ours.example.", socket.gethostname()),
    ],
)
def test_names_that_nobody_else_can_own_are_ours(host):
    assert not foreign_name(Headers({"host": host}), ("ours.example",))


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "ours.example.evil.org"]
)
def test_any_other_name_is_foreign(host):
    assert foreign_name(Headers({"host": host}), ("ours.example",))


def test_a_request_without_a_host_comes_from_no_browser():
    assert not foreign_name(Headers({}), ())
