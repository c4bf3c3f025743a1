"""The kernel's OOM killer ends one process or another (docs/faults.md). Needs a control group, and so mostly root."""

from __future__ import annotations

import base64
import json
import os
import signal
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest
from memory_limit import MemoryLimit, greedy, memory_limit
from PIL import Image
from soak import children
from started import until_ready
from waiting import alive, until

from diptych import Collection
from diptych.batch.workers.executor import RetryQueue
from diptych.batch.workers.pool import Pool
from diptych.errors import BatchError, DecoderEndedError
from diptych.scoring.decode_pool import DecodePool

DEPENDS_ON = (
    "service/diptych/batch/workers",
    "service/diptych/http",
    "service/diptych/scoring",
    "tests/endurance/memory_limit.py",
)

MIB = 2**20


@pytest.fixture
def group() -> Iterator[MemoryLimit]:
    with memory_limit() as made:
        yield made


def test_a_decoding_process_that_is_killed_for_memory_costs_its_picture_alone_and_that_is_said(group):
    with DecodePool(1) as workers:
        pid = workers.run(os.getpid)
        group.put(pid, 16)
        with pytest.raises(DecoderEndedError, match=r"ended \(SIGKILL\); as where the machine runs out of memory"):
            workers.run(partial(bytearray, 200 * MIB))
        assert not alive(pid)
        assert workers.run(partial(len, bytes(200))) == 200


def test_the_server_that_decoders_are_forked_from_is_replaced_when_it_is_killed_for_memory(group):
    with DecodePool(1) as workers:
        server = workers.run(os.getppid)
        group.put(server, 0.01)  # the next fork takes more
        with pytest.raises(DecoderEndedError):
            workers.run(partial(os._exit, 3))
        until(lambda: not alive(server), 20)

        def answers() -> bool:
            try:
                return workers.run(os.getppid) != server
            except OSError:  # which is said once, and another server is started
                return False

        until(answers, 20)


def test_a_batch_worker_that_is_killed_for_memory_is_replaced_and_its_part_done_again(group, tmp_path):
    said: list[str] = []
    queue = RetryQueue(range(6), lambda number: f"the rows of part {number}", said.append)
    with Pool(2) as pool:
        assert sorted(pool.run(partial(greedy, folder=tmp_path, group=group), queue)) == list(range(6))
    assert said == ["a worker was lost (SIGKILL); the rows of part 3 are done again"]


def test_rows_that_kill_every_batch_worker_for_memory_end_the_run_and_are_named(group):
    queue = RetryQueue([3], lambda number: f"the rows of part {number}", print)
    with (
        Pool(1) as pool,
        pytest.raises(BatchError, match=r"rows of part 3 could not be done.*SIGKILL.*give the workers more memory"),
    ):
        list(pool.run(partial(greedy, folder=None, group=group), queue))


def post(address: str, path: str, **body: object) -> tuple[int, dict]:
    request = Request(f"{address}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


def inline(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_of_a_service_that_meets_its_container_s_bound_a_decoder_is_killed_and_the_service_goes_on(
    group, artifact, port, spawn, tmp_path, photo_bytes
):
    address = f"http://127.0.0.1:{port}"
    process = spawn(
        "serve", "--create", "--store", tmp_path / "store", "--port", port, "--model", artifact, "--threads", 1
    )
    until_ready(address, process)
    for pid in (process.pid, *children(process.pid)):
        group.put(pid, 80)
    large = BytesIO()
    Image.new("RGB", (7000, 7000), "teal").save(large, "PNG", compress_level=1)  # 140 MiB of pixels
    status, answer = post(address, "/v1/images", image=inline(large.getvalue()))
    assert (status, answer["error"]["code"]) == (422, "decoder_ended")
    assert "runs out of memory" in answer["error"]["message"]
    assert process.poll() is None
    assert post(address, "/v1/images", image=inline(photo_bytes(2)))[0] == 201
    with urlopen(f"{address}/readyz") as ready:
        assert ready.status == 200


def test_what_a_service_acknowledged_is_there_after_it_was_killed_for_memory(
    group, artifact, port, spawn, tmp_path, photo_bytes, scorer
):
    address, store = f"http://127.0.0.1:{port}", tmp_path / "store"
    command = ("serve", "--create", "--store", store, "--port", port, "--model", artifact, "--threads", 1)
    process = spawn(*command)
    until_ready(address, process)
    acknowledged = []

    def add(seed: int) -> None:
        status, answer = post(address, "/v1/images", image=inline(photo_bytes(seed, (24, 24), "PNG")))
        assert status == 201
        acknowledged.append(answer["data"][0]["id"])

    for seed in range(10):
        add(seed)
    group.put(process.pid, 0.25)
    with pytest.raises((ConnectionError, URLError)):
        list(map(add, range(10, 2000)))
    assert process.wait(10) == -signal.SIGKILL
    assert len(acknowledged) >= 10
    again = spawn(*command)
    until_ready(address, again)
    again.send_signal(signal.SIGTERM)
    assert again.wait(30) == 0
    with Collection.open(store, scorer) as collection:
        assert set(acknowledged) <= {record.id for record in collection.list(5000)}
        assert collection.verify().healthy
