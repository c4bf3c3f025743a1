"""`diptych bench load`: requests, pairs and latencies of the service under many clients.

The service runs in a process of its own, as `diptych serve` starts it.
"""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from diptych.bench.command import start_process
from diptych.bench.demo.collection import draw_collection
from diptych.bench.model import CANDIDATES, resize_photo
from diptych.collection.collection import Collection
from diptych.console import format_table
from diptych.errors import BenchError
from diptych.scoring.scorer import Scorer

_WARM = 1.0  # seconds before anything counts
_START = 120.0

Ask = Callable[[http.client.HTTPConnection], http.client.HTTPResponse]


def measure_load(
    scorer: Scorer,
    clients: Sequence[int],
    seconds: float,
    model: str,
    tick: Callable[[], object] = lambda: None,
    *,
    rounds: int = 1,
) -> dict[str, Any]:
    """Measure the service under load, `seconds` a round. Raises BenchError if it fails to start or errs."""
    with tempfile.TemporaryDirectory() as folder:
        photos = draw_collection(Path(folder, "drawn"), count=CANDIDATES + 1)
        store = Path(folder, "store")
        with Collection.open(store, scorer, create=True) as collection:
            ids = [added.id for added in collection.add(photos)]
        asks = {"rerank": _make_rerank(ids), "search": _make_search(resize_photo(photos[0]))}
        with run_service(store, model, scorer.runtime.threads) as (port, _):
            kinds = {
                kind: {str(count): _measure_rounds(port, ask, count, seconds, rounds, tick) for count in clients}
                for kind, ask in asks.items()
            }
    return {"model": scorer.runtime.name, "threads": scorer.runtime.threads, "candidates": CANDIDATES, **kinds}


def format_figures(result: dict[str, Any]) -> str:
    """Format the figures as tables for people."""
    lines = []
    for kind, name in (("rerank", "/v1/rerank, 100 stored pictures"), ("search", "/v1/search with a JPEG")):
        rows = [
            (
                count,
                f"{one['requests_per_second']:.1f}",
                f"{one['pairs_per_second']:,.0f}",
                *(f"{one[share]:.0f}" for share in ("p50", "p95", "p99")),
                one["refused"],
            )
            for count, one in result[kind].items()
        ]
        header = ("clients", "requests/s", "pairs/s", "p50 ms", "p95 ms", "p99 ms", "429")
        lines += [name, format_table(header, rows)]
    return "\n".join(lines)


def _make_rerank(ids: Sequence[str]) -> Ask:
    query, *documents = ids
    body = json.dumps({"query": {"id": query}, "documents": [{"id": id} for id in documents]}).encode()
    return _make_post("/v1/rerank", body, "application/json")


def _make_search(photo: bytes) -> Ask:
    mark = b"diptych-bench-load"
    head = b'--%b\r\nContent-Disposition: form-data; name="%b"'
    body = b"".join(
        [
            *(head % (mark, b"image"), b'; filename="photo.jpg"\r\nContent-Type: image/jpeg\r\n\r\n', photo, b"\r\n"),
            *(head % (mark, b"candidates"), b"\r\n\r\n%d\r\n--%b--\r\n" % (CANDIDATES, mark)),
        ]
    )
    return _make_post("/v1/search", body, f"multipart/form-data; boundary={mark.decode()}")


def _make_post(path: str, body: bytes, type: str) -> Ask:
    def send_request(connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
        connection.request("POST", path, body, {"Content-Type": type})
        return connection.getresponse()

    return send_request


def _measure_rounds(
    port: int, ask: Ask, clients: int, seconds: float, rounds: int, tick: Callable[[], object]
) -> dict[str, Any]:
    """The rates of some rounds together, and the latencies in milliseconds."""
    latencies: list[float] = []
    refused = 0
    for _ in range(rounds):
        answered, more = _measure_round(port, ask, clients, seconds)
        latencies += answered
        refused += more
        tick()
    rate = len(latencies) / (rounds * seconds)
    percentiles = np.percentile(latencies, [50, 95, 99]) * 1000
    return {
        "requests_per_second": round(rate, 2),
        "pairs_per_second": round(rate * CANDIDATES, 1),
        **{f"p{share}": round(float(value), 1) for share, value in zip((50, 95, 99), percentiles, strict=True)},
        "refused": refused,
    }


def _measure_round(port: int, ask: Ask, clients: int, seconds: float) -> tuple[list[float], int]:
    """Measure `clients` that ask again as soon as they are answered, and refused ones when they are told to.

    Gives the seconds from the first try to each answer, and the number of refusals by 429. Raises what a client raised,
    and BenchError if nothing was answered.
    """
    begin = perf_counter() + _WARM
    end = begin + seconds
    took: list[float] = []
    refusals: list[float] = []
    faults: list[Exception] = []

    def run_client() -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
            while (began := perf_counter()) < end:
                answer = ask(connection)
                said = answer.read()
                while answer.status == 429 and (now := perf_counter()) < end:
                    if now > begin:
                        refusals.append(now)
                    time.sleep(min(float(answer.headers["Retry-After"]), max(0.0, end - perf_counter())))
                    answer = ask(connection)
                    said = answer.read()
                if answer.status not in (200, 429):
                    raise BenchError(f"the service answered {answer.status}: {said[:300].decode(errors='replace')}")
                if answer.status == 200 and begin <= (done := perf_counter()) < end:
                    took.append(done - began)

    def note_fault() -> None:
        try:
            run_client()
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=note_fault) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    if not took:
        raise BenchError(f"nothing was answered within {seconds:g} s; measure for longer")
    return took, len(refusals)


@contextmanager
def run_service(
    stored: Path, model: str, threads: int, *, option: str = "--store", environment: Mapping[str, str] | None = None
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Run `diptych serve` over a store in a process of its own; gives its port, once it is ready, and the process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = stored.with_name("service.log")
    options = [option, stored, "--port", port, "--model", model, "--threads", threads]
    command = [sys.executable, "-P", "-m", "diptych", "serve", *options]
    with log.open("wb") as file, start_process(command, stdout=file, stderr=file, env=environment) as process:
        deadline = perf_counter() + _START
        while not _is_ready(port):
            if process.poll() is not None or perf_counter() > deadline:
                last = log.read_text(errors="replace").strip().splitlines()[-1:]
                raise BenchError(f"the service did not become ready: {''.join(last)}")
            time.sleep(0.1)
        yield port, process


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        answer.read()
        return answer.status == 200
    except OSError:
        return False
    finally:
        connection.close()
