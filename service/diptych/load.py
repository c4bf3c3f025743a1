"""`diptych bench load`: requests and pairs a second of the service under many clients, beside the bare engine.

The service runs in a process of its own, as `diptych serve` starts it; engine and library are measured between its
rounds, with one caller and with several, and the better of these is what the service is held to.
"""

from __future__ import annotations

import argparse
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
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from diptych.bench import CANDIDATES, resized
from diptych.collection import Collection
from diptych.demo import draw_collection
from diptych.errors import BenchError
from diptych.indexing import load
from diptych.scorer import Scorer
from diptych_export.commandline import emit, progress, table

CALLERS = (1, 4)
_WARM = 1.0  # seconds before anything counts
_START = 120.0

Call = Callable[[], object]
Ask = Callable[[http.client.HTTPConnection], http.client.HTTPResponse]


@dataclass
class Tally:
    """What the clients of one round saw: seconds from the first try to the answer, and refusals by 429 between them."""

    seconds: list[float] = field(default_factory=list)
    refused: int = 0
    elapsed: float = 0.0

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.seconds) / self.elapsed

    def summary(self) -> dict[str, float]:
        """Requests and pairs a second, latencies in milliseconds."""
        latencies = np.percentile(self.seconds, [50, 95, 99]) * 1000
        return {
            "requests_per_second": round(self.rate, 2),
            "pairs_per_second": round(self.rate * CANDIDATES, 1),
            **{f"p{share}": round(float(value), 1) for share, value in zip((50, 95, 99), latencies, strict=True)},
            "refused": self.refused,
        }


def bench(args: argparse.Namespace) -> int:
    """Run `diptych bench load`."""
    scorer = load(args)
    rounds = len(args.clients) + 1
    with progress((), args, total=2 * rounds, unit="round") as bar:
        result = measure(scorer, args.clients, args.seconds, args.model, bar.update)
    emit(args, result, text(result))
    return 0


def measure(
    scorer: Scorer, clients: Sequence[int], seconds: float, model: str, tick: Call = lambda: None
) -> dict[str, Any]:
    """What is in `text`. `seconds` a round; raises BenchError if the service does not start or answers an error."""
    with tempfile.TemporaryDirectory() as folder:
        photos = draw_collection(Path(folder, "drawn"), count=CANDIDATES + 1)
        store = Path(folder, "store")
        with Collection.open(store, scorer, create=True) as collection:
            ids = [added.id for added in collection.add_files(photos)]
            tokens = np.stack([collection.panel(id)[0] for id in ids])
        photo = resized(photos[0])
        asks = {"rerank": _rerank(ids), "search": _search(photo)}
        with (
            running(store, model, scorer.runtime.threads) as (port, _),
            Collection.open(store, scorer, read_only=True) as collection,
        ):
            bare: dict[str, Call] = {
                "rerank": lambda: scorer.logits(tokens[:1], tokens[1:]),
                "search": lambda: collection.search(photo, candidates=CANDIDATES),
            }
            kinds = {}
            for kind, ask in asks.items():
                alone, served = [_alone(bare[kind], seconds)], {}
                tick()
                for count in clients:
                    served[str(count)] = _served(port, ask, count, seconds)
                    alone.append(_alone(bare[kind], seconds))
                    tick()
                best = float(np.median(alone))
                kinds[kind] = {
                    "alone_per_second": round(best * CANDIDATES, 1),
                    "alone_spread": [round(rate * CANDIDATES, 1) for rate in (min(alone), max(alone))],
                    "clients": {
                        count: {**tally.summary(), "share": round(tally.rate / best, 3)}
                        for count, tally in served.items()
                    },
                }
    return {"model": scorer.runtime.name, "threads": scorer.runtime.threads, "candidates": CANDIDATES, **kinds}


def text(result: dict[str, Any]) -> str:
    """The figures as tables for people."""
    names = {
        "rerank": ("/v1/rerank, 100 stored pictures", "the engine"),
        "search": ("/v1/search with a JPEG", "library"),
    }
    lines = []
    for kind, (name, alone) in names.items():
        rows = [
            (
                count,
                f"{one['requests_per_second']:.1f}",
                f"{one['pairs_per_second']:,.0f}",
                f"{one['share']:.0%}",
                *(f"{one[share]:.0f}" for share in ("p50", "p95", "p99")),
                one["refused"],
            )
            for count, one in result[kind]["clients"].items()
        ]
        header = ("clients", "requests/s", "pairs/s", f"of {alone}", "p50 ms", "p95 ms", "p99 ms", "429")
        low, high = result[kind]["alone_spread"]
        lines += [
            f"{name}; {alone} alone {result[kind]['alone_per_second']:,.0f} pairs/s ({low:,.0f} to {high:,.0f})",
            table(header, rows),
        ]
    return "\n".join(lines)


def _rerank(ids: Sequence[str]) -> Ask:
    query, *documents = ids
    body = json.dumps({"query": {"id": query}, "documents": [{"id": id} for id in documents]}).encode()
    return _post("/v1/rerank", body, "application/json")


def _search(photo: bytes) -> Ask:
    mark = b"diptych-bench-load"
    head = b'--%b\r\nContent-Disposition: form-data; name="%b"'
    body = b"".join(
        [
            *(head % (mark, b"image"), b'; filename="photo.jpg"\r\nContent-Type: image/jpeg\r\n\r\n', photo, b"\r\n"),
            *(head % (mark, b"candidates"), b"\r\n\r\n%d\r\n--%b--\r\n" % (CANDIDATES, mark)),
        ]
    )
    return _post("/v1/search", body, f"multipart/form-data; boundary={mark.decode()}")


def _post(path: str, body: bytes, type: str) -> Ask:
    def ask(connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
        connection.request("POST", path, body, {"Content-Type": type})
        return connection.getresponse()

    return ask


def _served(port: int, ask: Ask, clients: int, seconds: float) -> Tally:
    """`clients` that ask, each again as soon as it has its answer; who is told to come back later does."""

    def client(tally: Tally, begin: float, end: float) -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
            while perf_counter() < end:
                began = perf_counter()
                answer = ask(connection)
                said = answer.read()
                while answer.status == 429 and perf_counter() < end:
                    tally.refused += perf_counter() > begin
                    time.sleep(min(float(answer.headers["Retry-After"]), max(0.0, end - perf_counter())))
                    answer = ask(connection)
                    said = answer.read()
                if answer.status not in (200, 429):
                    raise BenchError(f"the service answered {answer.status}: {said[:300].decode(errors='replace')}")
                if answer.status == 200 and begin <= (done := perf_counter()) < end:
                    tally.seconds.append(done - began)

    return _crowd(client, clients, seconds)


def _alone(call: Call, seconds: float) -> float:
    """Calls a second without any HTTP: with one caller or with several, whichever is more."""

    def caller(tally: Tally, begin: float, end: float) -> None:
        while perf_counter() < end:
            began = perf_counter()
            call()
            if begin <= (done := perf_counter()) < end:
                tally.seconds.append(done - began)

    return max(_crowd(caller, callers, seconds / len(CALLERS)).rate for callers in CALLERS)


def _crowd(work: Callable[[Tally, float, float], None], count: int, seconds: float) -> Tally:
    """Run `work` in `count` threads for so long, after a moment that does not count, and put together what they saw.

    Raises what one of them raised, and BenchError if nothing was done.
    """
    begin = perf_counter() + _WARM
    tallies = [Tally() for _ in range(count)]
    faults: list[Exception] = []

    def one(tally: Tally) -> None:
        try:
            work(tally, begin, begin + seconds)
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=one, args=(tally,)) for tally in tallies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times = [one for tally in tallies for one in tally.seconds]
    if faults:
        raise faults[0]
    if not times:
        raise BenchError(f"nothing was done within {seconds:g} s; measure for longer")
    return Tally(times, sum(tally.refused for tally in tallies), seconds)


@contextmanager
def running(
    stored: Path, model: str, threads: int, *, option: str = "--store", environment: Mapping[str, str] | None = None
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """`diptych serve` over what is stored in a process of its own: (its port, once it is ready, and the process)."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = stored.with_name("service.log")
    options = [option, stored, "--port", port, "--model", model, "--threads", threads]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "diptych", "serve", *map(str, options)], stdout=file, stderr=file, env=environment
        )
        try:
            deadline = perf_counter() + _START
            while not _ready(port):
                if process.poll() is not None or perf_counter() > deadline:
                    last = log.read_text(errors="replace").strip().splitlines()[-1:]
                    raise BenchError(f"the service did not become ready: {''.join(last)}")
                time.sleep(0.1)
            yield port, process
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _ready(port: int) -> bool:
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
