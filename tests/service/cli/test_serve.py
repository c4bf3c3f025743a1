import base64
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import pytest
from folders import put
from started import until_ready
from waiting import until

from diptych.collection.registry import Collections
from diptych.errors import SettingsError
from diptych.http import server
from diptych.http.middleware.auth import key_line, new_key, parse_key
from diptych.http.server import bind_sockets
from diptych.scoring.decode_pool import DecodePool
from diptych.store.sqlite.schema import DATABASE

PROGRAM = "import sys; from diptych.cli.main import main; sys.exit(main())"
# One in which scoring four pairs waits for WAIT.
HELD = """
import sys, threading, time
from diptych.cli.main import main
from diptych_runtime.runtime import Runtime
gate = threading.Event()
real = Runtime.logits_on_this_thread
def logits_on_this_thread(self, a, b):
    if len(b) == 4:
        print("begun", flush=True)
        gate.wait(WAIT)
    return real(self, a, b)
Runtime.logits_on_this_thread = logits_on_this_thread
sys.exit(main())
"""


@pytest.fixture
def service(artifact, port, environment):
    """`with service("--create", DIPTYCH_LOG="json") as (process, client)`: `diptych serve` once it is ready."""

    @contextmanager
    def start(*words, program: str = PROGRAM, **variables: str) -> Iterator[tuple[Any, httpx.Client]]:
        command = [sys.executable, "-c", program, "serve", "--port", port, "--model", artifact, "--threads", 1, *words]
        address = f"http://127.0.0.1:{port}"
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen([*map(str, command)], env=environment | variables, **pipes) as process:
            try:
                until_ready(address, process)
                with httpx.Client(base_url=address, timeout=30) as client:
                    yield process, client
            finally:
                process.kill()

    return start


def end(process: Any) -> str:
    """Tell a service to end; returns what it said on standard error."""
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=30)[1]
    assert process.returncode == 0, said
    return said


def four_pairs(photo: bytes) -> dict:
    uri = base64.b64encode(photo).decode()
    return {"queries": uri, "documents": [uri] * 4}


def test_serve_answers_over_a_collection_it_is_to_make_logs_every_answer_and_ends_when_told(service, tmp_path, diptych):
    store, (secret, key) = tmp_path / "store", new_key("alice", "read")
    own = {"DIPTYCH_LOG": "json", "DIPTYCH_KEYS": key_line(key)}
    with service("--create", "--store", store, **own) as (process, client):
        info = client.get("/info", headers={"X-API-Key": secret, "X-Request-ID": "one"}).json()
        assert info["collection"]["pictures"] == 0
        assert client.get("/info", headers={"X-Request-ID": "two"}).status_code == 401
        assert diptych("index", "stats", "--store", store).code == 0
        said = end(process)
    assert diptych("index", "verify", "--store", store).code == 0
    assert secret not in said
    assert "keys: alice (read)" in said
    lines = [json.loads(line) for line in said.splitlines()]  # all of them, from the first
    assert f"{client.base_url}/" in [line["message"] for line in lines]
    known = {line["request_id"]: line for line in lines if line["logger"] == "diptych.access"}
    assert known.keys() == {"one", "two"}
    one = {"method": "GET", "path": "/info", "status": 200, "key": "alice", "error": None}
    assert known["one"] | one == known["one"]
    assert (known["two"]["status"], known["two"]["key"], known["two"]["error"]) == (401, None, "unauthorized")


@pytest.mark.parametrize("times", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_ctrl_c_ends_a_service_quietly_and_twice_too(service, times):
    with service("--quiet") as (process, _):
        for _ in range(times):
            process.send_signal(signal.SIGINT)
            time.sleep(0.03)  # one of the same kind that has not been taken yet would be the same one
        assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 0


@pytest.fixture
def served(monkeypatch) -> list[Collections]:
    """What `serve` would serve, once it would."""
    apps: list[Collections] = []
    monkeypatch.setattr(server, "run", lambda app, *_: apps.append(app.state.context.collections))
    monkeypatch.setattr(server, "configure_log", lambda *_, **__: None)
    return apps


def test_what_is_misspelt_taken_or_does_not_go_together_is_refused_before_anything_is_made(
    diptych, artifact, tmp_path, served, monkeypatch
):
    settings, typo = tmp_path / "settings.toml", tmp_path / "typo"
    settings.write_text("worker = 3\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for words, code, said in (
            (("--store", typo), 1, f"{typo} holds no collection; make one with `diptych index add --store"),
            (("--collections", typo), 1, "typo is none; --create makes it"),
            (("--collections", typo, "--sync", tmp_path), 2, "and --collections do not go together"),
            (("--create", "--store", typo, "--config", settings), 1, "did you mean workers?"),
            (("--create", "--store", typo, "--port", port), 1, f"at 127.0.0.1, port {port}: Address already in use"),
        ):
            refused = diptych("serve", "--port", 0, "--model", artifact, "--threads", 1, *words)
            assert (refused.code, said in refused.err) == (code, True), refused.err
    monkeypatch.setenv("DIPTYCH_STORE", str(typo))
    assert diptych("serve", "--port", 0, "--model", artifact).code == 1
    assert not typo.exists()
    assert served == []


def test_only_keys_or_open_let_serve_listen_where_other_machines_may_reach_it(diptych, monkeypatch, artifact, served):
    words = ("serve", "--port", 0, "--model", artifact, "--threads", 1)
    for host, keys in (("0.0.0.0", ""), ("::", " , \t")):
        monkeypatch.setenv("DIPTYCH_KEYS", keys)
        refused = diptych(*words, "--host", host)
        assert refused.code == 2
        assert "Make a key with `diptych key NAME` and put its line in DIPTYCH_KEYS" in refused.err
    assert served == []
    assert diptych(*words, "--host", "localhost").code == 0
    assert diptych(*words, "--host", "0.0.0.0", "--open").code == 0
    monkeypatch.setenv("DIPTYCH_OPEN", "1")
    assert diptych(*words, "--host", "0.0.0.0").code == 0
    monkeypatch.delenv("DIPTYCH_OPEN")
    monkeypatch.setenv("DIPTYCH_KEYS", f"{key_line(new_key('one', 'read')[1])},{key_line(new_key('two', 'admin')[1])}")
    answer = diptych(*words, "--host", "0.0.0.0")
    assert (answer.code, "keys: one (read), two (admin)" in answer.err) == (0, True)
    assert re.search(r"http://0\.0\.0\.0:[1-9]\d+/\n", answer.err), "port 0 is one that is free, and is said"
    assert len(served) == 4


def test_no_request_writes_more_than_a_short_line_to_the_log(service, port):
    head = f"Host: 127.0.0.1:{port}\r\n".encode()
    chunked = b" HTTP/1.1\r\n" + head + b"Transfer-Encoding: chunked\r\n\r\n"
    requests = [
        *(
            way + chunked + b"ZZ\r\n"
            for way in (b"POST /v1/score", b"POST /healthz", b"POST /", b"GET /", b"GET /docs")
        ),
        b"\0\r\n\r\n",
        b"GET /" + b"%0a%22" * 9000 + b" HTTP/1.1\r\n" + head + b"Connection: close\r\n\r\n",
    ]

    def send(request: bytes, later: bytes = b"") -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as line, suppress(ConnectionError):
            line.sendall(request)
            if later:  # what is no HTTP comes when the answer has begun
                line.recv(1)
                line.sendall(later)
            while line.recv(2**16):
                pass

    with service() as (process, _):
        for request in 4 * requests:
            send(request)
        for way in (b"POST /nothing", b"GET /"):
            send(way + chunked + b"5\r\n", b"helloZZ\r\n")
        said = end(process)
    assert "Traceback" not in said
    assert max(map(len, said.splitlines())) < 600
    assert len(said.splitlines()) < 4 * len(requests) + 25


def test_serve_serves_the_default_collection_if_there_is_one_or_it_is_to_make_it(
    diptych, artifact, gallery, data_home, served
):
    words = ("--model", artifact, "--threads", 1)
    without = diptych("serve", "--port", 0, *words)
    assert (without.code, served[-1].names(), data_home.exists()) == (0, [], False)
    assert "no collection; `diptych index add PICTURES` makes one" in without.err
    assert diptych("serve", "--create", "--port", 0, *words).code == 0
    assert (data_home / "diptych" / DATABASE).is_file()
    added = diptych("index", "add", gallery, *words)
    assert added.out.endswith(f"12 pictures in {data_home / 'diptych'}\n")
    over = diptych("serve", "--port", 0, *words)
    assert f"default: 12 pictures in {data_home / 'diptych'}" in over.err
    assert diptych("doctor", *words, "--json").json["store"]["pictures"] == 12


def test_serve_follows_folders_and_says_who_writes_to_those_who_would(
    service, artifact, tmp_path, diptych, photo_bytes
):
    folder, store = tmp_path / "photos", tmp_path / "store"
    put(folder / "1.jpg", photo_bytes(1))
    with service("--store", store, "--sync", folder, "--sync-every", 0.1) as (process, client):
        until(lambda: client.get("/info").json()["collection"]["pictures"] == 1, 30)
        put(folder / "2.jpg", photo_bytes(2))
        until(lambda: client.get("/info").json()["collection"]["pictures"] == 2, 30)
        refused = diptych("index", "sync", folder, "--store", store, "--model", artifact, "--threads", 1)
        said = end(process)
    assert refused.code == 1
    assert f"is being written by process {process.pid} (" in refused.err
    assert "diptych serve --sync FOLDER" in refused.err
    assert f"following {folder} every 0.1 s" in said
    assert "sync: 1 new" in said


def test_serve_keeps_several_collections_in_the_folders_of_one(
    service, artifact, tmp_path, photo_bytes, diptych, served
):
    root = tmp_path / "root"
    words = ("serve", "--collections", root, "--port", 0, "--model", artifact, "--threads", 1)
    with service("--create", "--collections", root) as (process, client):
        for name in ("shoes", "bags"):
            client.post("/v1/collections", json={"name": name})
        client.post("/v1/images", files={"image": photo_bytes(1)}, data={"collection": "shoes"})
        beside = diptych(*words)
        assert (beside.code, "is being written by process" in beside.err) == (1, True)
        end(process)
    again = diptych(*words)
    assert (again.code, sorted(served[-1].names())) == (0, ["bags", "shoes"])
    assert "shoes: 1 picture in" in again.err
    assert "bags: 0 pictures in" in again.err


def test_a_computation_that_hangs_makes_it_unready_and_then_ends_the_process(service, photo_bytes):
    # The request itself is given up long before.
    limits = {"DIPTYCH_STUCK_SECONDS": "2", "DIPTYCH_SECONDS": "1", "DIPTYCH_LOG": "json"}
    with service(program=HELD.replace("WAIT", ""), **limits) as (process, client):
        assert client.post("/v1/score", json=four_pairs(photo_bytes(1))).status_code == 504
        said = process.communicate(timeout=30)[1]
    assert process.returncode == 70
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    (last,) = [line for line in lines if line["level"] == "CRITICAL"]
    assert re.search(r"has been running for [2-9] s; ending with code 70", last["message"])


def test_a_stop_of_the_process_is_no_hanging_and_what_is_being_scored_at_the_end_is_answered(service, photo_bytes):
    held = service(program=HELD.replace("WAIT", "1"), DIPTYCH_STUCK_SECONDS="2")
    with held as (process, client), ThreadPoolExecutor(1) as pool:
        answer = pool.submit(client.post, "/v1/score", json=four_pairs(photo_bytes(1)))
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGSTOP)
        time.sleep(3)
        process.send_signal(signal.SIGCONT)
        end(process)
        assert [item["index"] for item in answer.result().json()["data"]] == [0, 1, 2, 3]


def test_after_sigterm_it_says_that_it_will_end_and_answers_until_then_and_a_slow_body_keeps_nobody(service, port):
    head = "POST /v1/score HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    with (
        service(DIPTYCH_DRAIN_SECONDS="2.5") as (process, client),
        socket.create_connection(("127.0.0.1", port), timeout=30) as line,
    ):
        line.sendall(head.encode() + b"{")
        time.sleep(0.5)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        until(lambda: client.get("/readyz").status_code == 503)
        assert client.get("/readyz").json()["error"]["code"] == "draining"
        assert client.get("/v1/models").status_code == 200
        answer = b""
        while data := line.recv(65536):
            answer += data
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b'"code":"draining"' in answer
        assert b"1 bytes of the body had come" in answer
        said = process.communicate(timeout=30)[1]
    assert process.returncode == 0
    assert 2.5 <= time.monotonic() - began < 12
    assert "SIGTERM: ending in 2.5 s" in said


def test_diptych_key_prints_a_secret_and_the_line_that_lets_it_in(diptych):
    made = diptych("key", "alice", "--read-only", "--json").json
    key = parse_key(made["setting"])
    assert (key.name, key.role) == ("alice", "read")
    assert key.digest == hashlib.sha256(made["key"].encode()).hexdigest()
    assert made["setting"] not in diptych("key", "alice").out
    wrong = diptych("key", "no name")
    assert (wrong.code, wrong.out) == (1, "")


def test_a_host_that_is_no_address_of_this_machine_is_said_and_answers_on_others_leave_at_once():
    for host, reason in (("nowhere.invalid", "known|resolution"), ("203.0.113.5", "Cannot assign")):
        with pytest.raises(SettingsError, match=f"at {host}, port 8000: .*({reason})"):
            bind_sockets(host, 8000)
    (listening,) = bind_sockets("127.0.0.1", 0)
    with listening:
        assert listening.proto == socket.IPPROTO_TCP, "asyncio sets TCP_NODELAY for no other"


@pytest.mark.parametrize(("threads", "processes"), [(1, 2), (3, 3)])
def test_serve_decodes_in_processes_of_its_own_as_many_as_threads_and_two_at_least(
    artifact, diptych, monkeypatch, threads, processes
):
    pools = []

    def run(app, *_: object) -> None:
        pools.append(app.state.context.scorer.decoder)
        assert pools[0].run(os.getpid) != os.getpid()

    monkeypatch.setenv("DIPTYCH_DECODE_SECONDS", "7.5")
    monkeypatch.setenv("DIPTYCH_DECODE_MEMORY", str(2**29))
    monkeypatch.setattr(server, "run", run)
    monkeypatch.setattr(server, "configure_log", lambda *_, **__: None)
    assert diptych("serve", "--model", artifact, "--threads", threads).code == 0
    (pool,) = pools
    assert isinstance(pool, DecodePool)
    assert (pool.processes, pool.seconds, pool.memory) == (processes, 7.5, 2**29)
    with pytest.raises(RuntimeError, match="closed"):
        pool.run(os.getpid)
