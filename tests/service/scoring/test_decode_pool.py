import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFile
from stuck import hang
from waiting import alive, until

from diptych.collection.collection import Collection
from diptych.errors import DecoderEndedError, DecodingMemoryError, DecodingTimeError
from diptych.pictures.content import describe, make_thumbnail
from diptych.scoring import decode_pool
from diptych.scoring.decode_pool import DecodePool, ThreadDecoder
from diptych.scoring.scorer import Scorer
from diptych_runtime.decoder import FORMATS, PictureLimits, open_picture, panel_pixels
from diptych_runtime.errors import PictureError

LIMITS = PictureLimits()
MIB = 2**20


@pytest.fixture(scope="module")
def workers():
    with DecodePool(2) as workers:
        yield workers


def written(picture: Image.Image, format: str, **options: object) -> bytes:
    buffer = BytesIO()
    picture.save(buffer, format, **options)
    return buffer.getvalue()


def test_a_process_gives_what_a_thread_gives_to_the_bit(workers, photo, photo_bytes):
    exif = Image.Exif()
    exif[0x0112] = 6
    pictures = [photo_bytes(seed, (97, 61), format) for seed, format in enumerate(FORMATS)]
    for data in (*pictures, written(photo(3, (45, 31)), "JPEG", exif=exif)):
        panel, whole = panel_pixels(data, 32, LIMITS), open_picture(data, LIMITS)
        elsewhere = workers.run(partial(panel_pixels, data, 32, LIMITS))
        assert (elsewhere.dtype, elsewhere.shape) == (np.uint8, (32, 32, 3))
        assert elsewhere.tobytes() == panel.tobytes()
        assert np.array_equal(np.asarray(workers.run(partial(open_picture, data))), np.asarray(whole))
        *facts, pixels, _ = astuple(workers.run(partial(describe, data, 32, LIMITS)))
        assert facts == list(astuple(describe(data, 32, LIMITS))[:-2])
        assert pixels.tobytes() == panel.tobytes()
        assert workers.run(partial(make_thumbnail, data, 17, LIMITS)) == make_thumbnail(data, 17, LIMITS)


def test_any_other_error_is_the_callers_and_tells_where_in_the_process_it_was(workers):
    pid = workers.run(os.getpid)
    with pytest.raises(FileNotFoundError) as caught:
        workers.run(partial(Path.read_bytes, Path("/no/such/file")))
    assert "in _try_call" in caught.value.__notes__[0]
    assert workers.run(os.getpid) == pid


ENDS = {
    # It keeps the interpreter's lock, so that no other thread of the process could end it.
    "computes": (re.fullmatch, ("(a+)+", "a" * 64 + "b"), DecodingTimeError, "^the picture took more than 1 s to"),
    "eats": (bytearray, (96 * MIB,), DecodingMemoryError, r"^the picture takes more than 64 MiB of memory to decode"),
    "crashes": (signal.raise_signal, (signal.SIGSEGV,), DecoderEndedError, r"its process ended \(SIGSEGV\)"),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_picture_that_ends_its_process_gets_an_error_and_the_next_one_is_decoded(end, photo_bytes, caplog):
    function, args, kind, text = ENDS[end]
    with DecodePool(1, seconds=1, memory=64 * MIB) as workers:
        first, said = workers.run(os.getpid), []
        for _ in range(2):
            began = time.monotonic()
            with pytest.raises(kind, match=text) as caught:
                workers.run(partial(function, *args))
            assert time.monotonic() - began < 15
            assert caught.value.code == kind.code != PictureError.code
            said.append(str(caught.value))
            panel = workers.run(partial(panel_pixels, photo_bytes(1), 32))
            assert np.array_equal(panel, panel_pixels(photo_bytes(1), 32))
        assert workers.run(os.getpid) != first
        assert not alive(first)
    assert [record.getMessage() for record in caplog.records] == said


@pytest.mark.parametrize("with_its_server", [False, True])
def test_one_that_is_killed_costs_at_most_its_picture_which_is_not_blamed(with_its_server, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with DecodePool(1) as workers, ThreadPoolExecutor(1) as pool:
        server, first = workers.run(os.getppid), workers.run(os.getpid)
        asked = pool.submit(workers.run, partial(Path.read_bytes, pipe))
        with pipe.open("wb"):  # waits until the process reads
            if with_its_server:
                os.kill(server, signal.SIGKILL)
                until(lambda: not alive(server))
            os.kill(first, signal.SIGKILL)
            with pytest.raises(DecoderEndedError, match=r"\); as where the machine runs out of memory"):
                asked.result(10)
        assert (workers.run(os.getppid) != server) == with_its_server
        second = workers.run(os.getpid)
        os.kill(second, signal.SIGKILL)
        until(lambda: not alive(second))
        assert workers.run(os.getpid) not in (first, second), "while it idles it costs none"


def test_a_process_is_replaced_after_a_life_of_many_pictures(monkeypatch):
    monkeypatch.setattr(decode_pool, "_LIFE", 3)
    with DecodePool(1) as workers:
        pids = [workers.run(os.getpid) for _ in range(9)]
        assert [pids.index(pid) for pid in pids] == [0, 0, 0, 3, 3, 3, 6, 6, 6]
        until(lambda: not alive(pids[0]))


def test_while_one_picture_hangs_the_others_are_decoded():
    with DecodePool(2, seconds=1.5) as workers, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(workers.run, partial(hang, name="a.jpg"))
        count = 0
        while not asked.done():
            workers.run(os.getpid)
            count += 1
        with pytest.raises(DecodingTimeError, match=r"^a\.jpg took more than 1\.5 s"):
            asked.result()
    assert count > 20


def test_a_caller_who_is_interrupted_leaves_no_answer_behind_for_the_next_one():
    def run_until_interrupted() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        workers.run(partial(eval, "__import__('time').sleep(0.3) or 'stale'"))

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with DecodePool(1) as workers:
            with pytest.raises(KeyboardInterrupt):
                run_until_interrupted()
            assert workers.run(partial(str, "fresh")) == "fresh"
            with pytest.raises((AttributeError, TypeError), match="pickle"):
                workers.run(lambda: None)
            assert workers.run(partial(str, "again")) == "again"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_closing_waits_for_what_is_decoded_refuses_what_waits_and_leaves_no_process():
    with ThreadPoolExecutor(3) as pool:
        workers = DecodePool(1)
        pid = workers.run(os.getpid)
        asked = [pool.submit(workers.run, partial(time.sleep, 0.5))]
        until(lambda: workers._idle.empty())
        asked += [pool.submit(workers.run, partial(time.sleep, 0.5)) for _ in range(2)]
        workers.close()
        assert asked[0].result(5) is None
        for waiting in (asked[1], asked[2], pool.submit(workers.run, os.getpid)):
            with pytest.raises(RuntimeError, match="the pool of decoding processes is closed"):
                waiting.result(5)
        assert not alive(pid)
        workers.close()


def test_a_process_has_the_decoder_alone_goes_before_the_service_where_memory_runs_out_and_writes_no_core(workers):
    imported = workers.run(partial(eval, "{name.partition('.')[0] for name in __import__('sys').modules}"))
    assert {"numpy", "PIL", "diptych", "diptych_runtime"} <= imported
    assert not imported & {"onnxruntime", "faiss", "fastapi", "pydantic", "uvicorn", "torch", "onnx", "rich", "sqlite3"}

    assert workers.run(os.getpgrp) != os.getpgrp(), "SIGHUP to the group of a stopped one would end the service"
    assert workers.run(partial(Path.read_text, Path("/proc/self/oom_score_adj"))).strip() == "1000"
    limits = workers.run(partial(Path.read_text, Path("/proc/self/limits")))
    assert re.search(r"^Max core file size +0 +0 ", limits, re.MULTILINE)


PROGRAM = """
import multiprocessing, os, signal, sys, threading, time
from functools import partial
from diptych.scoring.decode_pool import DecodePool

heard = []  # and no Event: a handler that comes while the Event is waited for would wait for its lock for ever
signal.signal(signal.SIGINT, lambda *_: heard.append(True))
print("begun", flush=True)
workers = DecodePool(2, seconds=3)
threading.Thread(target=workers.run, args=(partial(time.sleep, 60),), daemon=True).start()
while workers._idle.qsize() > 1:
    time.sleep(0.001)
pids = [process.pid for process in multiprocessing.active_children()]
print(*pids, workers.run(os.getppid), flush=True)
heard.clear()
while not heard:
    time.sleep(0.001)
print(workers.run(os.getpid) in pids, flush=True)
os._exit(0)
"""


@pytest.fixture
def program(environment):
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    yield process
    process.kill()
    process.communicate()


def test_no_process_outlives_a_service_that_was_killed_not_even_one_that_hangs(program):
    pids = [int(word) for word in program.stdout.readline().split()]
    assert len(pids) == 3
    assert all(alive(pid) for pid in pids)
    program.kill()
    until(lambda: not any(alive(pid) for pid in pids))


def test_ctrl_c_in_the_terminal_is_the_services_alone_even_while_the_processes_start(program):
    started = threading.Event()

    def press() -> None:
        while not started.wait(0.01):
            os.killpg(program.pid, signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    pids = program.stdout.readline().split()
    started.set()
    presser.join()
    assert len(pids) == 3
    until(lambda: os.killpg(program.pid, signal.SIGINT) or program.poll() is not None, 40)  # it may not listen yet
    out, err = program.communicate(timeout=20)
    assert (out, err) == ("True\n", "")


@pytest.mark.parametrize("decoder", [ThreadDecoder(1), ThreadDecoder(3), "workers"])
def test_of_several_pictures_each_has_its_value_or_its_error_in_its_place(decoder, request, photo_bytes):
    decoder = request.getfixturevalue(decoder) if isinstance(decoder, str) else decoder
    assert (decoder.run(os.getpid) == os.getpid()) == isinstance(decoder, ThreadDecoder)
    assert decoder.run_all([]) == []
    for count in (1, 3, 11):
        datas = [photo_bytes(seed) if seed % 3 else b"" for seed in range(count)]
        answers = decoder.run_all([partial(panel_pixels, data, 32, name=f"no. {n}") for n, data in enumerate(datas)])
        assert len(answers) == count
        for n, (data, answer) in enumerate(zip(datas, answers, strict=True)):
            if data:
                assert np.array_equal(answer, panel_pixels(data, 32))
            else:
                assert isinstance(answer, PictureError)
                assert str(answer).startswith(f"no. {n} is empty")
    with pytest.raises(ZeroDivisionError):
        decoder.run_all([partial(divmod, 1, n) for n in (2, 1, 0, 1)])
    with pytest.raises(PictureError, match=r"^a\.jpg is empty"):
        decoder.run(partial(open_picture, b"", name="a.jpg"))


def test_of_several_pictures_only_those_that_end_their_process_are_lost_whatever_it_was_handed_beside_them():
    ends = {3: partial(os._exit, 3), 4: partial(time.sleep, 60), 5: partial(bytearray, 96 * MIB), 18: os.abort}
    for processes in (1, 3):
        with DecodePool(processes, seconds=1, memory=64 * MIB) as workers:
            answers = workers.run_all([ends.get(n) or partial(str, n) for n in range(19)])
        kinds = [type(answers.pop(n)) for n in sorted(ends, reverse=True)]
        assert kinds == [DecoderEndedError, DecodingMemoryError, DecodingTimeError, DecoderEndedError]
        assert answers == [str(n) for n in range(19) if n not in ends]


def test_whatever_a_scorer_and_a_collection_decode_they_decode_where_they_are_told(
    workers, scorer, tmp_path, photo_bytes, monkeypatch
):
    elsewhere = Scorer(scorer.runtime, decoder=workers)
    pictures = [photo_bytes(seed) for seed in range(3)]
    expected = scorer.predict([(pictures[0], picture) for picture in pictures])

    def refuse(self: ImageFile.ImageFile) -> None:
        raise AssertionError("decoded in the service's own process")

    monkeypatch.setattr(ImageFile.ImageFile, "load", refuse)
    with pytest.raises(PictureError, match="own process"):
        scorer.pixels(pictures[0])
    assert elsewhere.predict([(pictures[0], picture) for picture in pictures]).tobytes() == expected.tobytes()
    with Collection.open(tmp_path / "store", elsewhere, create=True) as collection:
        ids = [collection.add(data, keep_originals=True)[0].id for data in pictures]
        assert [collection.content(id)[0] for id in ids] == pictures
        assert collection.thumbnail(ids[1], 20).startswith(b"\xff\xd8\xff")
        assert {match.id for match in collection.search(pictures[2]).matches} == set(ids)
        assert collection.rebuild(everything=True).embedded == 3
