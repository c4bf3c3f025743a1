"""A picture whose decoding hangs: its request is refused, and nobody else notices."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from stuck import hang

from diptych.scoring.decode_pool import DecodePool
from diptych.scoring.scorer import Scorer


class Hanging:
    """A pool in which one picture never ends."""

    def __init__(self, workers: DecodePool, stuck: bytes) -> None:
        self.workers, self.stuck, self.run, self.answered = workers, stuck, workers.run, 0.0

    def run_all(self, calls: Any) -> Any:
        return self.workers.run_all([self._hung(call) for call in calls])

    def _hung(self, call: partial) -> partial:
        source = call.args[0]
        return partial(hang, **call.keywords) if isinstance(source, bytes) and source == self.stuck else call


def test_a_picture_whose_decoding_hangs_is_refused_and_other_requests_are_answered_meanwhile(
    running, scorer, photo_bytes, data_uri
):
    stuck = photo_bytes(13)
    with (
        DecodePool(2, seconds=1.5) as workers,
        running(None, Scorer(scorer.runtime, decoder=Hanging(workers, stuck))) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        bad = {"input": [data_uri(photo_bytes(1)), data_uri(stuck), data_uri(photo_bytes(2))]}
        good = {"input": [data_uri(photo_bytes(seed)) for seed in (1, 3, 2)]}
        expected = scorer.panels([photo_bytes(seed) for seed in (1, 3, 2)]).embeddings
        asked = pool.submit(client.post, "/v1/embeddings", json=bad)
        answers = []
        while not asked.done():
            answers.append(client.post("/v1/embeddings", json=good))
            time.sleep(0.05)
    refusal = asked.result()
    error = refusal.json()["error"]
    assert (refusal.status_code, error["code"], error["param"]) == (422, "decoding_time", "input[1]")
    assert error["message"].startswith("input[1] took more than 1.5 s to decode and was stopped")
    assert len(answers) > 3
    for answer in answers:
        assert answer.status_code == 200
        np.testing.assert_allclose([item["embedding"] for item in answer.json()["data"]], expected, rtol=1e-5)
