import json
import signal
import socket
import time
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def ready(address: str, process) -> None:
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        assert process.poll() is None, process.stderr.read()
        try:
            with urlopen(f"{address}/readyz") as answer:
                assert answer.status == 200
                return
        except (HTTPError, URLError) as error:
            if isinstance(error, HTTPError):
                error.close()
            time.sleep(0.05)
    raise AssertionError("the service did not become ready within a minute")


def test_serve_answers_over_a_collection_it_makes_and_ends_when_it_is_told(artifact, port, spawn, tmp_path, diptych):
    store, address = tmp_path / "store", f"http://127.0.0.1:{port}"
    process = spawn("serve", "--store", store, "--port", port, "--model", artifact, "--threads", 1)
    ready(address, process)
    with urlopen(f"{address}/info") as answer:
        assert json.load(answer)["collection"]["pictures"] == 0
    assert diptych("index", "stats", "--store", store).code == 0
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30)
    assert f"{address}/" in said
    assert diptych("index", "verify", "--store", store).code == 0
