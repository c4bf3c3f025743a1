"""`diptych bench load`: requests and pairs a second of the service under many clients, beside the bare engine.

The service runs in a process of its own, as `diptych serve` starts it. Each of its rounds is held to engine and library
measured right before and right after: a machine that is now faster and now slower must not be taken for the service.
They are asked by as many callers as are best for them, one or several but never more than there are clients, which is
found out first: the better of two measurements would be too good. Of several rounds the median counts.
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
from dataclasses import dataclass, field
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


@dataclass
class Tally:
    """Measurements by the clients of one round: seconds from the first try to the answer, and refusals by 429 between
    them.
    """

    seconds: list[float] = field(default_factory=list)
    refused: int = 0
    elapsed: float = 0.0

    @classmethod
    def merge_tallies(cls, tallies: Sequence[Tally], elapsed: float) -> Tally:
        """Merge the tallies of several clients, or of several rounds."""
        seconds = [one for tally in tallies for one in tally.seconds]
        return cls(seconds, sum(tally.refused for tally in tallies), elapsed)

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
    names = {
        "rerank": ("/v1/rerank, 100 stored pictures", "engine"),
        "search": ("/v1/search with a JPEG", "library"),
    }
    lines = []
    for kind, (name, bare) in names.items():
        rows = [
            (
                count,
                f"{one['requests_per_second']:.1f}",
                f"{one['pairs_per_second']:,.0f}",
                f"{one['alone']['pairs_per_second']:,.0f} ({one['alone']['callers']})",
                f"{one['share']:.0%} ({one['shares'][0]:.0%} to {one['shares'][-1]:.0%})",
                *(f"{one[share]:.0f}" for share in ("p50", "p95", "p99")),
                one["refused"],
            )
            for count, one in result[kind].items()
        ]
        header = ("clients", "requests/s", "pairs/s", f"{bare} alone (callers)", "share", "p50 ms", "p95 ms", "p99 ms")
        lines += [name, format_table((*header, "429"), rows)]
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
    callers = max({1, min(CALLERS, clients)}, key=lambda count: _measure_alone(call, count, seconds))
    alone = [_measure_alone(call, callers, seconds)]
    tick()
    tallies: list[Tally] = []
    shares: list[float] = []
    for _ in range(rounds):
        tallies.append(_measure_service(port, ask, clients, seconds))
        alone.append(_measure_alone(call, callers, seconds))
        shares.append(tallies[-1].rate / float(np.mean(alone[-2:])))
        tick()
    return {
        **Tally.merge_tallies(tallies, sum(tally.elapsed for tally in tallies)).summary(),
        "share": round(float(np.median(shares)), 3),
        "shares": [round(share, 3) for share in sorted(shares)],
        "alone": {
            "callers": callers,
            "pairs_per_second": round(float(np.median(alone)) * CANDIDATES, 1),
            "spread": [round(rate * CANDIDATES, 1) for rate in (min(alone), max(alone))],
        },
    }


def _measure_service(port: int, ask: Ask, clients: int, seconds: float) -> Tally:
    """`clients` that ask, each again as soon as it has its answer; who is told to come back later does."""

    def run_client(tally: Tally, begin: float, end: float) -> None:
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

    return _run_together(run_client, clients, seconds)


def _measure_alone(call: Call, callers: int, seconds: float) -> float:
    """Measure the calls a second without any HTTP."""

    def run_caller(tally: Tally, begin: float, end: float) -> None:
        while perf_counter() < end:
            began = perf_counter()
            call()
            if begin <= (done := perf_counter()) < end:
                tally.seconds.append(done - began)

    return _run_together(run_caller, callers, seconds).rate


def _run_together(work: Callable[[Tally, float, float], None], count: int, seconds: float) -> Tally:
    """Run `work` in `count` threads for so many seconds, after a warm-up that does not count, and merge their tallies.

    Raises what one of them raised, and BenchError if nothing was done.
    """
    begin = perf_counter() + _WARM
    tallies = [Tally() for _ in range(count)]
    faults: list[Exception] = []

    def run_one(tally: Tally) -> None:
        try:
            work(tally, begin, begin + seconds)
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=run_one, args=(tally,)) for tally in tallies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    crowd = Tally.merge_tallies(tallies, seconds)
    if not crowd.seconds:
        raise BenchError(f"nothing was done within {seconds:g} s; measure for longer")
    return crowd


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
