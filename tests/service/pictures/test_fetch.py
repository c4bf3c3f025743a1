import logging
import shutil
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from answering import PICTURE, PUBLIC, PUBLIC6, moved, remote_to, target, whole

from diptych.errors import RemoteError, RemoteRefusedError
from diptych.pictures import fetch
from diptych.pictures.fetch import Fetcher, FetchLimits


def test_a_picture_comes_as_it_was_sent_and_little_is_said_in_asking(serve, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9/")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9/")
    server = serve(whole(PICTURE, "200 OK", "Set-Cookie: a=b; Path=/"))
    with remote_to(server, names={"pictures.example": ["127.0.0.1"]}) as fetching:
        for _ in range(2):
            assert fetching.fetch(f"http://pictures.example:{server.port}/a%20b/ä.jpg?q=1&r=%zz#part") == PICTURE
    assert server.heads[0] == server.heads[1]
    lines = server.heads[0].strip().split("\r\n")
    assert lines[0] == "GET /a%20b/%C3%A4.jpg?q=1&r=%zz HTTP/1.1"
    assert {line.lower() for line in lines[1:]} == {
        f"host: pictures.example:{server.port}",
        "accept: image/*",
        "accept-encoding: identity",
        "connection: close",
        "user-agent: diptych",
    }


def test_a_name_is_resolved_once_and_the_connection_goes_to_what_was_checked(serve, routed, monkeypatch):
    routed[PUBLIC], routed["127.0.0.1"] = server, inside = serve(whole()), serve(whole(b"secret"))
    answers, resolve = iter([PUBLIC, "127.0.0.1"]), socket.getaddrinfo

    def rebinding(host: Any, *args: Any, **options: Any) -> Any:
        return resolve(next(answers) if host in ("rebind.example", b"rebind.example") else host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    fetching = Fetcher()
    assert fetching.fetch("http://rebind.example/a.jpg") == PICTURE
    assert routed.tried == [(PUBLIC, 80)]
    assert "\r\nHost: rebind.example\r\n" in server.heads[0]
    with pytest.raises(RemoteRefusedError, match=r"rebind\.example is not, or not only, on the public internet"):
        fetching.fetch("http://rebind.example/a.jpg")
    assert inside.heads == []


@pytest.mark.parametrize("status", ["301 Moved", "308 Permanent"])
def test_redirects_are_followed_relative_ones_and_those_to_other_hosts_too(serve, status):
    def answer(head: bytes, line: socket.socket) -> None:
        path = target(head)
        steps = {"/a/start": "../b", "/b": "?c", "/b?c": f"http://other.example:{server.port}/end"}
        line.sendall(moved(steps[path], status) if path in steps else whole())

    server = serve(answer)
    names = {"pictures.example": ["127.0.0.1"], "other.example": ["127.0.0.1"]}
    with remote_to(server, names=names) as fetching:
        assert fetching.fetch(f"http://pictures.example:{server.port}/a/start") == PICTURE
    asked = [(head.split()[1], head.split("ost: ")[1].split(":")[0]) for head in server.heads]
    assert asked == [(path, "pictures.example") for path in ("/a/start", "/b", "/b?c")] + [("/end", "other.example")]


@pytest.mark.parametrize(
    "to",
    [
        *("http://127.0.0.1/secret", "http://[::1]/secret", "http://169.254.169.254/latest", "http://127.1/secret"),
        *("http://inside.example/secret", "//inside.example/secret", "http://user@pictures.example/", "http://a b/"),
        *("file:///etc/passwd", "ftp://pictures.example/", "http://pictures.example:22/", "http://①②⑦.0.0.1/"),
    ],
)
def test_every_hop_goes_through_all_checks(serve, routed, to):
    def answer(head: bytes, line: socket.socket) -> None:
        line.sendall(b"HTTP/1.1 302 Found\r\nLocation: " + to.encode() + b"\r\n\r\n")

    routed[PUBLIC] = serve(answer)
    routed["127.0.0.1"] = routed["::1"] = routed["169.254.169.254"] = routed["10.0.0.7"] = serve(whole(b"secret"))
    names = {"pictures.example": [PUBLIC], "inside.example": ["10.0.0.7"]}
    with remote_to(names=names, private=False, ports=frozenset({80})) as fetching, pytest.raises(RemoteRefusedError):
        fetching.fetch("http://pictures.example/")
    assert routed.tried == [(PUBLIC, 80)]


def test_a_redirect_may_leave_neither_the_listed_hosts_nor_the_rebinding_guard(serve, routed):
    routed[PUBLIC] = serve(lambda head, line: line.sendall(moved("/again" if target(head) == "/" else "//b.example/")))
    answers = iter([[PUBLIC], ["127.0.0.1"]])
    with pytest.raises(RemoteRefusedError, match=r"a\.example is not, or not only, on the public internet"):
        Fetcher(resolve=lambda host: next(answers)).fetch("http://a.example/")
    with pytest.raises(RemoteRefusedError, match=r"b\.example is not among the hosts"):
        Fetcher(FetchLimits(hosts=("a.example",)), resolve=lambda host: [PUBLIC]).fetch("http://a.example/away")


@pytest.mark.parametrize("allowed", [0, 3])
def test_one_redirect_more_than_allowed_is_refused(serve, allowed):
    def answer(head: bytes, line: socket.socket) -> None:
        step = int(target(head)[1:])
        line.sendall(moved(f"/{step - 1}") if step else whole())

    server = serve(answer)
    with remote_to(server, redirects=allowed) as fetching:
        assert fetching.fetch(f"http://127.0.0.1:{server.port}/{allowed}") == PICTURE
        with pytest.raises(RemoteRefusedError, match=f"at most {allowed} redirects, and then came one to 127.0.0.1"):
            fetching.fetch(f"http://127.0.0.1:{server.port}/{allowed + 1}")
    assert len(server.heads) == 2 * (allowed + 1)


@pytest.mark.parametrize("status", ["404 Not Found", "204 No Content", "206 Partial", "500 Oops"])
def test_any_other_status_is_an_error_that_names_it_and_tells_nothing_of_the_body(serve, status):
    server = serve(whole(b"" if status[:3] in ("204", "304") else b"password", status))
    with (
        remote_to(server) as fetching,
        pytest.raises(RemoteError, match=f"expected status 200 .*got {status[:3]};") as caught,
    ):
        fetching.fetch(f"http://127.0.0.1:{server.port}/")
    assert caught.value.code == "remote_failed"
    assert "password" not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", "127.0.0.1 gave no whole answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nshort", "gave no whole answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nshort", "gave no whole answer"),
        (b"HTTP/1.1 200 OK\r\nX: " + bytes(200_000), "gave no whole answer"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "gave no whole answer"),
        (whole(PICTURE, "200 OK", "Content-Encoding: gzip"), "encoded as 'gzip', which was not asked for"),
    ],
)
def test_a_broken_or_encoded_answer_is_an_error_that_tells_nothing_of_it(serve, answer, reason):
    server = serve(answer)
    with remote_to(server) as fetching, pytest.raises(RemoteError, match=reason) as caught:
        fetching.fetch(f"http://127.0.0.1:{server.port}/")
    assert caught.value.code == "remote_failed"
    assert not any(word in str(caught.value) for word in ("short", "OpenSSH"))


def test_what_the_network_says_is_for_the_log_only(routed, caplog):
    caplog.set_level(logging.INFO, "diptych.pictures.fetch")
    reason = r"^pictures\.example gave no whole answer \(ConnectError\); try whether a browser can open the address$"
    with pytest.raises(RemoteError, match=reason):
        Fetcher(resolve=lambda host: [PUBLIC]).fetch("http://pictures.example/a.jpg?key=secret")
    assert caplog.messages == [f"pictures.example at {PUBLIC}: ConnectError('[Errno 111] Connection refused')"]


def test_the_next_address_is_tried_when_one_takes_no_connection(serve, routed):
    names = {"pictures.example": [PUBLIC6, "1.1.1.1", PUBLIC], "far.example": [PUBLIC6, "1.1.1.1", "1.0.0.1", PUBLIC]}
    routed[PUBLIC] = server = serve(whole())
    with remote_to(names=names, private=False, ports=frozenset({80})) as fetching:
        assert fetching.fetch("http://pictures.example/") == PICTURE
        assert routed.tried == [(PUBLIC6, 80), ("1.1.1.1", 80), (PUBLIC, 80)]
        with pytest.raises(RemoteError, match="ConnectError"):
            fetching.fetch("http://far.example/")
    assert routed.tried[3:] == [(PUBLIC6, 80), ("1.1.1.1", 80), ("1.0.0.1", 80)]
    assert len(server.heads) == 1


def test_an_ipv6_address_is_asked_by_name_and_in_brackets(serve):
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    try:
        server = serve(whole(), "::1")
    except OSError as error:
        pytest.skip(f"this machine has no IPv6 loopback: {error}")
    with remote_to(server, names={"six.example": ["::1"]}) as fetching:
        assert fetching.fetch(f"http://[::1]:{server.port}/") == PICTURE
        assert fetching.fetch(f"http://six.example:{server.port}/") == PICTURE
    hosts = [head.split("ost: ")[1].split("\r\n")[0] for head in server.heads]
    assert hosts == [f"[::1]:{server.port}", f"six.example:{server.port}"]


def test_a_client_whose_connections_cannot_be_cut_is_not_used(serve, monkeypatch):
    server = serve(whole())
    monkeypatch.setattr(fetch._Fetch, "_trace_connection", lambda self, event, info: None)
    with remote_to(server) as fetching, pytest.raises(RuntimeError, match="does not show its connection"):
        fetching.fetch(f"http://127.0.0.1:{server.port}/")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> Path:
    """A self-signed certificate for pictures.example and 127.0.0.1, with its key."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl here to make a certificate")
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test "
        "-addext subjectAltName=DNS:pictures.example,IP:127.0.0.1 -keyout key.pem -out certificate.pem"
    )
    subprocess.run(command.split(), cwd=file.parent, check=True, capture_output=True, timeout=30)
    file.write_text((file.parent / "key.pem").read_text() + (file.parent / "certificate.pem").read_text())
    return file


def test_the_certificate_must_be_for_the_name_and_from_someone_trusted(serve, certificate):
    names: list[str | None] = []
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(certificate)
    server_side.sni_callback = lambda line, name, context: names.append(name)
    server = serve(whole(), tls=server_side)
    trusting = ssl.create_default_context(cafile=certificate)
    known = {name: ["127.0.0.1"] for name in ("pictures.example", "other.example")}
    with remote_to(server, names=known, tls=trusting) as fetching:
        assert fetching.fetch(f"https://pictures.example:{server.port}/a.jpg") == PICTURE
        assert fetching.fetch(f"https://127.0.0.1:{server.port}/a.jpg") == PICTURE
        with pytest.raises(RemoteError, match=r"other\.example gave no whole answer \(ConnectError\)"):
            fetching.fetch(f"https://other.example:{server.port}/a.jpg")
    with remote_to(server, names=known) as fetching, pytest.raises(RemoteError, match="ConnectError"):
        fetching.fetch(f"https://pictures.example:{server.port}/a.jpg")
    assert names == ["pictures.example", None, "other.example", "pictures.example"]
    assert [head.split("ost: ")[1].split(":")[0] for head in server.heads] == ["pictures.example", "127.0.0.1"]


def test_a_redirect_leads_from_http_to_https_and_never_back(serve, certificate):
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(certificate)
    plain = serve(lambda head, line: line.sendall(moved(f"https://127.0.0.1:{safe.port}{target(head)}")))
    to = {"/back": lambda: moved(f"http://127.0.0.1:{plain.port}/"), "/stay": lambda: moved("/picture")}
    safe = serve(lambda head, line: line.sendall(to.get(target(head), whole)()), tls=server_side)
    with remote_to(plain, safe, tls=ssl.create_default_context(cafile=certificate)) as fetching:
        assert fetching.fetch(f"http://127.0.0.1:{plain.port}/stay") == PICTURE
        with pytest.raises(RemoteRefusedError, match=r"127\.0\.0\.1 redirects from https to http"):
            fetching.fetch(f"https://127.0.0.1:{safe.port}/back")
    assert len(plain.heads) == 1
