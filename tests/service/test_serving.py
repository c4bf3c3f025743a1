import json
import os
import signal
import socket
import time
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
import uvicorn

from diptych.decoding import Workers


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


@pytest.mark.parametrize(("threads", "processes"), [(1, 2), (3, 3)])
def test_serve_decodes_in_processes_of_its_own_as_many_as_threads_and_two_at_least(
    artifact, diptych, monkeypatch, threads, processes
):
    pools = []

    def run(app, **_: object) -> None:
        pools.append(app.state.context.scorer.decoder)
        assert pools[0].run(os.getpid) != os.getpid()

    monkeypatch.setattr(uvicorn, "run", run)
    assert diptych("serve", "--model", artifact, "--threads", threads).code == 0
    (pool,) = pools
    assert isinstance(pool, Workers)
    assert pool.processes == processes
    with pytest.raises(RuntimeError, match="closed"):
        pool.run(os.getpid)
