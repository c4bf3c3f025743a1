"""The service says that it is not ready where nothing can be decoded."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from diptych.http import health, probe
from diptych.http.probe import Probe
from diptych.http.settings import Settings
from diptych.scoring.decode_pool import DecodePool, _Worker
from diptych.scoring.scorer import Scorer


class Counted:
    """A decoder that waits for its gate."""

    def __init__(self) -> None:
        self.count, self.gate, self.answered = 0, threading.Event(), 0.0

    def run(self, call: Any) -> Any:
        self.count += 1
        self.gate.wait(10)
        return call()

    def each(self, calls: Any) -> Any:
        return [call() for call in calls]


def test_however_many_ask_one_picture_is_decoded_at_a_time_and_one_a_second(scorer):
    decoder = Counted()
    asked = Probe(Scorer(scorer.runtime, decoder=decoder))
    first = [asked.begun() for _ in range(1000)]
    assert len(set(map(id, first))) == 1
    decoder.gate.set()
    assert first[0].result(10)
    assert asked.begun() is first[0]
    time.sleep(1.1)
    assert asked.begun().result(10)
    assert decoder.count == 2


def test_stopped_decoders_are_answered_in_time_said_by_readyz_and_replaced(
    running, scorer, photo_bytes, data_uri, monkeypatch
):
    monkeypatch.setattr(probe, "_FRESH", 0.0)
    body = {"input": data_uri(photo_bytes(1))}
    with (
        DecodePool(2) as workers,
        running(None, Scorer(scorer.runtime, decoder=workers), Settings(seconds=2.0)) as client,
        ThreadPoolExecutor(8) as pool,
    ):
        assert client.get("/readyz").status_code == 200
        assert workers._idle.qsize() == 2
        for worker in workers._idle.queue:
            assert isinstance(worker, _Worker)
            assert worker.process.pid is not None
            os.kill(worker.process.pid, signal.SIGSTOP)
        began = time.monotonic()

        def timed(path: str) -> tuple[Any, float]:
            answer = client.get(path) if path.startswith("/readyz") else client.post(path, json=body)
            return answer, time.monotonic() - began

        asked = [pool.submit(timed, path) for path in ["/v1/embeddings"] * 3 + ["/readyz"] * 3]
        while not all(one.done() for one in asked):
            before = time.monotonic()
            assert client.get("/healthz").status_code == 200
            assert time.monotonic() - before < 1
            time.sleep(0.05)
        answers = [one.result() for one in asked]
        assert {answer.status_code for answer, _ in answers[:3]} == {504}
        assert max(seconds for _, seconds in answers) < 6
        limit = time.monotonic() + 30
        while client.post("/v1/embeddings", json=body).status_code != 200 or client.get("/readyz").status_code != 200:
            assert time.monotonic() < limit, "the service did not recover"
            time.sleep(0.02)


def test_a_pool_that_is_busy_with_the_pictures_of_others_is_ready(scorer, monkeypatch):
    monkeypatch.setattr(probe, "PROBE_SECONDS", 1.0)
    with DecodePool(1, seconds=5) as workers, ThreadPoolExecutor(1) as pool:
        for seconds, ready in ((0.7, True), (3.0, False)):
            busy = [workers._idle.get()]  # the only process is another's whenever the probe looks for it
            asked = Probe(Scorer(scorer.runtime, decoder=workers)).begun()
            time.sleep(seconds)
            workers.answered = time.monotonic() if ready else 0.0
            assert asked.result(5) is ready
            workers._idle.put(busy.pop())
            assert pool.submit(workers.run, os.getpid).result(10)


def test_readyz_says_why_when_nothing_is_decoded(running, scorer, monkeypatch):
    for module in (probe, health):
        monkeypatch.setattr(module, "PROBE_SECONDS", 1.0)
    decoder = Counted()
    with running(None, Scorer(scorer.runtime, decoder=decoder), warm=False) as client:
        limit = time.monotonic() + 30
        while "decoded within 1 s" not in (answer := client.get("/readyz")).text:
            assert time.monotonic() < limit, answer.text
            time.sleep(0.02)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_ready")
        assert client.get("/healthz").status_code == 200
        decoder.gate.set()
        while client.get("/readyz").status_code != 200:
            assert time.monotonic() < limit
            time.sleep(0.02)
