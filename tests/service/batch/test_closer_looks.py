"""Closer looks at the pairs of a table: what `Scorer.judge` says of a pair, its row says too."""

import csv
import json
import shutil
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diptych import Scorer
from diptych.batch.job import Job
from diptych.batch.workers.executor import Serial
from diptych.batch.workers.pool import Pool
from diptych.batch.workers.tasks import WorkerConfig, clear_caches

NAMES = ("one.png", "copy.jpg", "other.png")
PAIRS = [(a, b) for a in NAMES for b in NAMES]
DIFFERENT = [(a, b) for a, b in PAIRS if a != b]  # of which one picture is not both


@pytest.fixture
def table(tmp_path) -> Path:
    """Every pair of a picture, a copy of it, and another."""
    rng = np.random.default_rng(5)
    one, other = (Image.fromarray(rng.integers(0, 255, (40, 50, 3), np.uint8)).resize((400, 320)) for _ in range(2))
    one.save(tmp_path / "one.png")
    one.save(tmp_path / "copy.jpg", quality=60)
    other.save(tmp_path / "other.png")
    with (tmp_path / "pairs.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("image_a", "image_b"), *PAIRS])
    return tmp_path / "pairs.csv"


@pytest.fixture
def job(artifact_that_looks, table):
    """`job("out.jsonl")` over the table, with the model that looks."""

    def make(name: str, **options) -> Job:
        clear_caches()
        return Job(table, table.parent / name, "jsonl", WorkerConfig(str(artifact_that_looks), "cpu", 1), **options)

    yield make
    clear_caches()


def rows_of(output: Path) -> list[dict]:
    return [json.loads(line) for line in output.read_text().splitlines()]


def test_a_row_says_what_a_pair_by_itself_does(artifact_that_looks, job, table):
    scorer = Scorer.load(artifact_that_looks, threads=1)
    judged = scorer.judge([(table.parent / a, table.parent / b) for a, b in PAIRS])
    for question in ("copy", "thing"):
        report = job("out.jsonl", question=question).run(Serial(), force=True)
        rows, asked = rows_of(table.parent / "out.jsonl"), [one[question] for one in judged]
        relevance = [one.relevance_score for one in asked]
        assert [row["relevance_score"] for row in rows] == pytest.approx(relevance, abs=1e-7)
        assert [(row["verdict"], row["closer_look"]) for row in rows] == [
            (one.verdict, one.closer_look) for one in asked
        ]
        same = {pair for pair, row in zip(PAIRS, rows, strict=True) if row["verdict"] == "same"}
        if question == "copy":
            assert same == {pair for pair in PAIRS if ("other.png" in pair) == (pair == ("other.png", "other.png"))}
        assert report.outcome.closer_looks == sum(row["closer_look"] == "taken" for row in rows) > 0


def test_workers_and_a_stream_write_the_same_bytes(artifact_that_looks, job, table, diptych):
    job("one.jsonl").run(Serial())
    job("several.jsonl").run(Pool(2))
    whole = (table.parent / "one.jsonl").read_bytes()
    assert (table.parent / "several.jsonl").read_bytes() == whole
    words = ("score", table, "-o", "-", "--format", "jsonl", "--model", artifact_that_looks, "--threads", 1)
    streamed = diptych(*words)
    assert streamed.out.encode() == whole
    taken = sum(row["closer_look"] == "taken" for row in rows_of(table.parent / "one.jsonl"))
    assert f"{taken} closer looks" in streamed.err
    without = [json.loads(line) for line in diptych(*words, "--no-closer-look").out.splitlines()]
    looks = [None if a == b else "not taken" for a, b in PAIRS]
    assert [row["closer_look"] for row in without] == looks


def test_files_with_the_same_bytes_are_the_same_without_a_look(job, table, diptych, artifact_that_looks, monkeypatch):
    monkeypatch.setattr("diptych.scoring.scorer.describe", lambda *_: pytest.fail("a picture was looked at"))
    assert job("out.jsonl", question="copy", closer_look=False).run(Serial()).outcome.closer_looks == 0
    rows = rows_of(table.parent / "out.jsonl")
    assert [row["verdict"] == "same" for row in rows] == [a == b for a, b in PAIRS]
    monkeypatch.undo()
    shutil.copy(table.parent / "other.png", table.parent / "copy.jpg")
    expected = [{a, b} <= {"copy.jpg", "other.png"} or a == b for a, b in PAIRS]
    for question in ("copy", "thing"):
        job(f"{question}.jsonl", question=question, closer_look=False).run(Serial())
        rows = rows_of(table.parent / f"{question}.jsonl")
        assert [row["relevance_score"] == 1.0 and row["verdict"] == "same" for row in rows] == expected
    words = ("score", table, "-o", "-", "--format", "jsonl", "--model", artifact_that_looks, "--threads", 1)
    streamed = [json.loads(line) for line in diptych(*words).out.splitlines()]
    assert [row["verdict"] == "same" and row["closer_look"] is None for row in streamed] == expected


@pytest.mark.parametrize("gone", [{"copy.jpg"}, {"copy.jpg", "other.png"}])
def test_a_picture_that_is_gone_or_another_one_since_it_was_encoded_is_judged_without(job, table, gone):
    @contextmanager
    def bar(unit, count, done):
        if unit == "pair":
            (table.parent / "copy.jpg").unlink()
            for name in gone - {"copy.jpg"}:
                (table.parent / name).replace(table.parent / "copy.jpg")
        yield lambda count: None

    job("out.jsonl", question="copy", bar=bar).run(Serial())
    for pair, row in zip(PAIRS, rows_of(table.parent / "out.jsonl"), strict=True):
        if pair in DIFFERENT:
            assert row["closer_look"] == ("not taken" if gone & {*pair} else "taken")
        assert row["error"] is None
