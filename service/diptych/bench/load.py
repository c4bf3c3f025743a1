"""`diptych bench load`: requests and pairs a second of the service under many clients, beside the bare engine.

The service runs in a process of its own, as `diptych serve` starts it. Each of its rounds is held to engine and library
measured right before and right after: a machine that is now faster and now slower must not be taken for the service.
They are asked by four callers, or by as many as there are clients. Of several rounds the median counts.
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

CALLERS = 4  # at most; with more of them the bare engine does no more
_WARM = 1.0  # seconds before anything counts
_START = 120.0

Call = Callable[[], object]
Ask = Callable[[http.client.HTTPConnection], http.client.HTTPResponse]


def measure_load(
    scorer: Scorer, clients: Sequence[int], seconds: float, model: str, tick: Call = lambda: None, *, rounds: int = 1
) -> dict[str, Any]:
    """Measure the service under load, `seconds` a round. Raises BenchError if it fails to start or errs."""
    with tempfile.TemporaryDirectory() as folder:
        photos = draw_collection(Path(folder, "drawn"), count=CANDIDATES + 1)
        store = Path(folder, "store")
        with Collection.open(store, scorer, create=True) as collection:
            ids = [added.id for added in collection.add(photos)]
            tokens = np.stack([collection.panel(id)[0] for id in ids])
        photo = resize_photo(photos[0])
        asks = {"rerank": _make_rerank(ids), "search": _make_search(photo)}
        with (
            run_service(store, model, scorer.runtime.threads) as (port, _),
            Collection.open(store, scorer, read_only=True) as collection,
        ):
            bare: dict[str, Call] = {
                "rerank": lambda: scorer.logits(tokens[:1], tokens[1:]),
                "search": lambda: collection.search(photo, candidates=CANDIDATES),
            }
            kinds = {
                kind: {
                    str(count): _measure_rounds(port, ask, bare[kind], count, seconds, rounds, tick)
                    for count in clients
                }
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
                f"{one['alone']['pairs_per_second']:,.0f}",
                f"{one['share']:.0%}",
                *(f"{one[share]:.0f}" for share in ("p50", "p95", "p99")),
                one["refused"],
            )
            for count, one in result[kind].items()
        ]
        header = ("clients", "requests/s", "pairs/s", "without HTTP", "share", "p50 ms", "p95 ms", "p99 ms", "429")
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
    port: int, ask: Ask, call: Call, clients: int, seconds: float, rounds: int, tick: Call
) -> dict[str, Any]:
    """Rounds of so many clients of the service, each held to the bare `call` before and after it."""
    alone = [_measure_alone(call, min(CALLERS, clients), seconds)]
    tick()
    latencies: list[float] = []
    shares: list[float] = []
    refused = 0
    for _ in range(rounds):
        answered, more = _measure_service(port, ask, clients, seconds)
        alone.append(_measure_alone(call, min(CALLERS, clients), seconds))
        shares.append(len(answered) / seconds / float(np.mean(alone[-2:])))
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
        "share": round(float(np.median(shares)), 3),
        "shares": [round(share, 3) for share in sorted(shares)],
        "alone": {"pairs_per_second": round(float(np.median(alone)) * CANDIDATES, 1)},
    }


def _measure_service(port: int, ask: Ask, clients: int, seconds: float) -> tuple[list[float], int]:
    """Measure `clients` that ask again as soon as they are answered, and refused ones when they are told to.

    Gives the seconds of each answer, and the number of refusals by 429.
    """
    refusals: list[float] = []

    def run_client(begin: float, end: float) -> Iterator[float]:
        with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
            while perf_counter() < end:
                began = perf_counter()
                answer = ask(connection)
                said = answer.read()
                while answer.status == 429 and perf_counter() < end:
                    if (now := perf_counter()) > begin:
                        refusals.append(now)
                    time.sleep(min(float(answer.headers["Retry-After"]), max(0.0, end - perf_counter())))
                    answer = ask(connection)
                    said = answer.read()
                if answer.status not in (200, 429):
                    raise BenchError(f"the service answered {answer.status}: {said[:300].decode(errors='replace')}")
                if answer.status == 200:
                    yield began

    return _run_together(run_client, clients, seconds), len(refusals)


def _measure_alone(call: Call, callers: int, seconds: float) -> float:
    """Measure the calls a second without any HTTP."""

    def run_caller(begin: float, end: float) -> Iterator[float]:
        while perf_counter() < end:
            began = perf_counter()
            call()
            yield began

    return len(_run_together(run_caller, callers, seconds)) / seconds


def _run_together(work: Callable[[float, float], Iterator[float]], count: int, seconds: float) -> list[float]:
    """Run `work` in `count` threads for so many seconds, after a warm-up that does not count.

    `work` yields the beginning of each thing that is done; gives the seconds that each took. Raises what one of them
    raised, and BenchError if nothing was done.
    """
    begin = perf_counter() + _WARM
    end = begin + seconds
    took: list[float] = []
    faults: list[Exception] = []

    def run_one() -> None:
        try:
            for began in work(begin, end):
                if begin <= (done := perf_counter()) < end:
                    took.append(done - began)
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=run_one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    if not took:
        raise BenchError(f"nothing was done within {seconds:g} s; measure for longer")
    return took


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
