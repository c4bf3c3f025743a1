"""Parts done by workers: in a pool, in a folder that they share with a collection, and of a table of pairs."""

import dataclasses
import signal
import time
from contextlib import nullcontext
from functools import partial
from uuid import uuid4

import pytest
from part_works import always, once, slow, wrong

from diptych.batch.parts.folder import folder_of, open_job, specify_job
from diptych.batch.parts.manifest import SCORED_BY, Manifest
from diptych.batch.workers.executor import MOST, RetryQueue
from diptych.batch.workers.pool import Pool
from diptych.batch.workers.tasks import clear_caches, encode_part, score_part
from diptych.errors import BatchError


def attempts(numbers, say=lambda text: None) -> RetryQueue:
    return RetryQueue(numbers, lambda number: f"the rows of part {number}", say)


def test_the_part_of_a_killed_process_is_done_by_another_and_that_is_said(tmp_path):
    said = []
    with Pool(2) as pool:
        assert sorted(pool.run(partial(once, folder=tmp_path), attempts(range(9), said.append))) == list(range(9))
    assert said == ["a worker was lost (SIGKILL); the rows of part 3 are done again"]


def test_a_part_that_ends_whoever_does_it_ends_the_run_with_its_rows():
    said = []
    with Pool(2) as pool, pytest.raises(BatchError, match=f"part 3 could not be done: {MOST} workers in turn"):
        list(pool.run(always, attempts(range(9), said.append)))
    assert len(said) == MOST - 1


def test_what_the_work_raises_comes_out_as_it_was():
    with Pool(1) as pool, pytest.raises(BatchError, match="one reason"):
        list(pool.run(wrong, attempts([1])))
    with Pool(1) as pool, pytest.raises(OSError, match="No space left") as caught:
        list(pool.run(wrong, attempts([2])))
    assert caught.value.filename == "part"


def test_leaving_does_not_wait_for_parts_in_work():
    def run_until_interrupted() -> None:
        with Pool(2) as pool:
            parts = pool.run(slow, attempts(range(4)))
            signal.setitimer(signal.ITIMER_REAL, 1)
            next(parts)

    began = time.monotonic()
    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        with pytest.raises(KeyboardInterrupt):
            run_until_interrupted()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - began < 20


@pytest.fixture
def begun(means, pairs, tmp_path):
    """A job that has begun and of which nothing is done."""
    folder = folder_of(tmp_path / "out.csv")
    bar = lambda unit, count, done: nullcontext(lambda count: None)  # noqa: E731
    with open_job(specify_job(pairs, means.model), folder, resume=False, force=False, bar=bar) as manifest:
        yield manifest, folder
    clear_caches()


def test_a_part_done_again_by_others_has_the_same_bytes(begun, means):
    manifest, folder = begun

    def everything(**changed):
        options = {"folder": str(folder), "config": dataclasses.replace(means, **changed)}
        for number in range(manifest.encoding.parts):
            encode_part(number, **options)
        for number in range(manifest.scoring.parts):
            score_part(number, **options)
        return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}

    first = everything()
    assert len(first) == 3 + 1 + 2 + manifest.scoring.parts
    assert everything(threads=2) == first


def test_a_machine_that_does_not_see_the_folder_or_has_another_model_says_so(begun, means, other_artifact, tmp_path):
    _, folder = begun
    with pytest.raises(BatchError, match=r"job.json is not to be seen on .*; every worker has to see the folder"):
        encode_part(0, folder=str(tmp_path / "elsewhere"), config=means)
    other = dataclasses.replace(means, model=str(other_artifact))
    with pytest.raises(BatchError, match=r"is 0123456789ab on .*, and the job began with .*; every worker needs that"):
        encode_part(0, folder=str(folder), config=other)


def test_a_machine_that_scores_in_another_precision_has_no_part_in_a_job(begun, means):
    manifest, folder = begun
    options = {"folder": str(folder), "config": means}
    encode_part(0, **options)
    own = (folder / SCORED_BY).read_text()
    assert own == f"{manifest.model}-tokens8"
    set_it = "set DIPTYCH_PAIR_PRECISION=int8 to go on, or begin"
    for other, way in ((f"{own}-int8", set_it), (manifest.model, "begin")):
        (folder / SCORED_BY).write_text(other)
        clear_caches()
        said = rf"the scores of this job are those of {other}, and on .* \(float32: .*\); {way} anew with --force"
        with pytest.raises(BatchError, match=said):
            score_part(0, **options)


def test_a_worker_that_outlives_its_job_puts_nothing_into_the_next_one_of_that_name(begun, means, monkeypatch):
    manifest, folder = begun
    options = {"folder": str(folder), "config": means}
    for number in range(manifest.encoding.parts):
        encode_part(number, **options)
    following = dataclasses.replace(manifest, id=uuid4().hex)
    following.save(folder)  # as `--force` begins anew, while a worker is at a part of the job before
    monkeypatch.setattr(Manifest, "load", lambda folder: manifest)
    score_part(0, **options)
    assert manifest.scoring.find_done_parts(folder) == {0}
    assert following.scoring.find_done_parts(folder) == following.encoding.find_done_parts(folder) == set()


@pytest.mark.parametrize("links", [True, False])
def test_the_first_worker_says_in_which_precision_a_job_is_scored(begun, means, monkeypatch, links):
    manifest, folder = begun
    if not links:
        monkeypatch.setattr("os.link", lambda *_: (_ for _ in ()).throw(PermissionError("no hard links here")))
    assert manifest.fix_scores_revision(folder, "another") == "another"
    assert manifest.fix_scores_revision(folder, "a third") == "another"
    assert not list(folder.glob(f".{SCORED_BY}.*"))
