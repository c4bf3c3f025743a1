"""Bodies made to cost much: they are refused at once, in little memory, and others are answered meanwhile."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from started import free_port, until_ready

MIB = 2**20
LARGE = 16 * MIB


class Service(NamedTuple):
    process: subprocess.Popen[str]
    client: httpx.Client

    def peak(self) -> int:
        """The most memory it has had since `forget`, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]

    def forget(self) -> int:
        """Begin anew with the peak; the memory it has now."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return self.peak()


@pytest.fixture(scope="module")
def service(artifact: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    port, store = free_port(), tmp_path_factory.mktemp("hostile") / "store"
    words = ["serve", "--create", "--store", store, "--port", port, "--model", artifact, "--threads", 1]
    with (tmp_path_factory.mktemp("log") / "log").open("w+") as log:
        process = subprocess.Popen([sys.executable, "-m", "diptych", *map(str, words)], stderr=log, text=True)
        try:
            until_ready(f"http://127.0.0.1:{port}", process)
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
                yield Service(process, client)
        finally:
            process.terminate()
            process.wait(30)


def filled(begin: bytes, what: bytes, end: bytes, size: int = LARGE) -> bytes:
    """A body with as often the same in it as makes it so large."""
    return begin + what * ((size - len(begin) - len(end)) // len(what)) + end


def form(**fields: bytes) -> tuple[bytes, dict[str, str]]:
    """A form of these texts and a file."""
    parts = [b'name="%b"\r\n\r\n%b' % (name.encode(), text) for name, text in fields.items()]
    parts.append(b'name="image"; filename="a"\r\n\r\nA')
    body = b"".join(b"--x\r\nContent-Disposition: form-data; %b\r\n" % part for part in parts) + b"--x--\r\n"
    return body, {"content-type": "multipart/form-data; boundary=x"}


Asked = tuple[str, bytes, dict[str, str], int]


def sent(path: str, begin: bytes, what: bytes, end: bytes, status: int) -> Callable[[], Asked]:
    return lambda: (path, filled(begin, what, end), {"content-type": "application/json"}, status)


PAIR = b'{"queries": "A", "documents": "A", '
HOSTILE: dict[str, Callable[[], Asked]] = {
    "parts": sent("/v1/embeddings", b'{"input": {"content": [', b'{"image":"A"},', b"0]}}", 422),
    "rules": sent("/v1/duplicates", b'{"keep": [', b'"oldest",', b"0]}", 422),
    "objects in objects": lambda: ("/v1/images", b'{"a":' * 60_000, {"content-type": "application/json"}, 400),
    "a model": sent("/v1/score", PAIR + b'"model": "', b"a", b'"}', 404),
    "a number": sent("/v1/score", b'{"queries": ', b"9", b"}", 400),
    "a letter of four bytes": sent("/v1/score", PAIR + b'"user": "\xf0\x9f\xa6\x8a', b"a", b'"}', 422),
    "a text of a form": lambda: ("/v1/search", *form(filter=filled(b'{"a":[', b"0,", b"0]}", MIB - 1)), 422),
    "metadata of a form": lambda: ("/v1/images", *form(metadata=filled(b'{"a":[', b"[],", b"0]}", MIB - 1)), 422),
    "line ends in a form": lambda: ("/v1/images", *form(image=filled(b"", b"\r\n--", b"")), 400),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_body_that_is_made_to_cost_is_refused_and_health_is_answered_meanwhile(name, service):
    path, body, headers, status = HOSTILE[name]()
    waits, over = list[float](), threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=service.client.base_url, timeout=60) as other:
            while not (waits and over.wait(0.02)):
                began = time.monotonic()
                assert other.get("/healthz").status_code == 200
                waits.append(time.monotonic() - began)

    asking = threading.Thread(target=ask)
    before = service.forget()
    asking.start()
    answer = service.client.post(path, content=body, headers=headers)
    over.set()
    asking.join()
    grown = service.peak() - before
    assert answer.status_code == status, answer.text[:1000]
    assert len(answer.content) < 10_000
    assert max(waits) < 1
    assert grown < 10 * len(body) + 16 * MIB
