import csv
import json
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from diptych import Scorer
from diptych.batch import CHUNK, Job, PairScorer
from diptych.errors import BatchError, StoreError

LABELS = ("plain", 'with "quotes", commas', "zwölf\nlines")


@pytest.fixture
def pairs(gallery: Path) -> Path:
    """A table of 1,000 pairs, some of them with pictures that cannot be read, with a column to keep through."""
    names = sorted(str(path.relative_to(gallery)) for path in gallery.rglob("*.jpg"))
    (gallery / "broken.jpg").write_bytes(b"no picture")
    rng = np.random.default_rng(0)
    with (gallery / "pairs.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["label", "image_b", "image_a"])
        for row in range(1000):
            a, b = (names[place] for place in rng.integers(0, len(names), 2))
            a = "broken.jpg" if row % 211 == 7 else "gone.jpg" if row % 307 == 5 else "" if row == 700 else a
            writer.writerow([LABELS[row % 3], b, a])
    return gallery / "pairs.csv"


def run(scorer, table: Path, output: Path, *, resume=False, force=False, format="csv"):
    job = Job(scorer, table, output, format)
    with job.opened(resume=resume, force=force):
        return job.run(lambda _: None)


def stopped_after(chunks: int, scorer, table: Path, output: Path, **options):
    """Run a job and let it die after some chunks."""
    ticks = []

    def tick(_):
        ticks.append(1)
        if len(ticks) == chunks:
            raise KeyboardInterrupt

    job = Job(scorer, table, output, "csv")
    with pytest.raises(KeyboardInterrupt), job.opened(resume=False, force=False):
        job.run(tick)


def test_every_row_comes_out_in_order_with_its_columns_and_its_score(scorer, pairs, tmp_path):
    report = run(scorer, pairs, tmp_path / "out.csv")
    with pairs.open(newline="", encoding="utf-8") as file:
        given = list(csv.DictReader(file))
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [{key: row[key] for key in given[0]} for row in rows] == given
    failed = [row for row in rows if row["error"]]
    assert (report.pairs, report.errors, report.scored) == (1000, len(failed), 1000)
    assert {row["image_a"] for row in failed} == {"broken.jpg", "gone.jpg", ""}
    assert all(row["error"].startswith("image_a: ") and not row["raw_score"] for row in failed)
    good = [row for row in rows if not row["error"]][::97]
    folder = pairs.parent
    raw = scorer.predict([(folder / row["image_a"], folder / row["image_b"]) for row in good], activation=False)
    assert [np.float32(row["raw_score"]) for row in good] == raw.tolist()
    assert [np.float32(row["relevance_score"]) for row in good] == scorer.relevance(raw).tolist()
    assert not (tmp_path / "out.csv.parts").exists()


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_a_stopped_and_resumed_run_writes_the_same_bytes(scorer, pairs, tmp_path, format):
    if format == "parquet":
        pytest.importorskip("pyarrow")
    run(scorer, pairs, tmp_path / "whole", format=format)
    stopped_after(2, scorer, pairs, tmp_path / "resumed")
    assert not (tmp_path / "resumed").exists()
    report = run(scorer, pairs, tmp_path / "resumed", format=format, resume=True)
    assert report.scored == 1000 - 2 * CHUNK
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes()


def test_kill_9_in_the_middle_and_resume_gives_the_same_bytes(artifact, scorer, pairs, tmp_path, spawn, diptych):
    header, *lines = pairs.read_text(encoding="utf-8").splitlines(keepends=True)
    pairs.write_text("".join([header, *lines * 8]), encoding="utf-8")
    run(scorer, pairs, tmp_path / "whole.csv")
    output, parts = tmp_path / "out.csv", tmp_path / "out.csv.parts"
    command = ["score", pairs, "-o", output, "--model", artifact, "--threads", 1, "--quiet"]
    process = spawn(*command)
    limit = time.monotonic() + 120
    while not (parts / "part-000000.json").exists() and time.monotonic() < limit:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert parts.exists(), "the run was over before it was killed"
    assert not output.exists()
    assert diptych(*command).code == 1
    resumed = diptych(*command, "--resume", "--json")
    assert resumed.code == 1, "some pairs have errors"
    assert resumed.json["scored"] < resumed.json["pairs"] == 8000
    assert resumed.json["pairs_per_second"] > 0
    assert output.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert not parts.exists()


def test_a_stopped_run_is_not_begun_anew_or_continued_without_a_word(scorer, pairs, tmp_path):
    stopped_after(1, scorer, pairs, tmp_path / "out.csv")
    with pytest.raises(BatchError, match="go on with --resume, or begin anew with --force"):
        run(scorer, pairs, tmp_path / "out.csv")
    assert run(scorer, pairs, tmp_path / "out.csv", force=True).scored == 1000


def test_resuming_with_another_table_or_model_is_refused(scorer, other_artifact, pairs, tmp_path):
    stopped_after(1, scorer, pairs, tmp_path / "out.csv")
    other = Scorer.load(str(other_artifact), provider="cpu", threads=1)
    with pytest.raises(BatchError, match="the model is not the one this run began with"):
        run(other, pairs, tmp_path / "out.csv", resume=True)
    with pairs.open("a") as file:
        file.write("x,01.jpg,02.jpg\n")
    with pytest.raises(BatchError, match="the table is not the one this run began with"):
        run(scorer, pairs, tmp_path / "out.csv", resume=True)


def test_an_output_that_exists_is_replaced_only_by_force(scorer, pairs, tmp_path):
    (tmp_path / "out.csv").write_text("precious")
    for resume in (False, True):
        with pytest.raises(BatchError, match=r"out.csv exists already; .* --force"):
            run(scorer, pairs, tmp_path / "out.csv", resume=resume)
    assert (tmp_path / "out.csv").read_text() == "precious"
    assert run(scorer, pairs, tmp_path / "out.csv", force=True).pairs == 1000


def test_resuming_what_was_never_begun_begins(scorer, pairs, tmp_path):
    assert run(scorer, pairs, tmp_path / "out.csv", resume=True).scored == 1000


def test_two_processes_do_not_work_on_one_job(scorer, pairs, tmp_path):
    first, second = (Job(scorer, pairs, tmp_path / "out.csv", "csv") for _ in range(2))
    with (
        first.opened(resume=False, force=False),
        pytest.raises(StoreError, match="is being written by process"),
        second.opened(resume=True, force=False),
    ):
        pass


def test_memory_stays_bounded_and_forgotten_pictures_score_the_same(scorer, gallery):
    names = sorted(str(path) for path in gallery.rglob("*.jpg"))
    worker = PairScorer(scorer, gallery)
    worker.capacity = 3
    rows = [[a, b] for a in names for b in names[:2]]
    once = worker.score(["image_a", "image_b"], rows)
    assert len(worker._kept) == 3
    assert worker.score(["image_a", "image_b"], rows) == once


def test_the_order_of_the_columns_makes_no_difference_to_the_score(scorer, gallery):
    names = sorted(str(path) for path in gallery.rglob("*.jpg"))
    rows = [[a, b] for a in names for b in names[:3]]
    forward = PairScorer(scorer, gallery).score(["image_a", "image_b"], rows)
    turned = PairScorer(scorer, gallery).score(["image_b", "image_a"], rows)
    assert [row.raw_score for row in forward] == [row.raw_score for row in turned]


def test_the_journal_holds_whole_parts_only(scorer, pairs, tmp_path):
    stopped_after(2, scorer, pairs, tmp_path / "out.csv")
    parts = sorted(path.name for path in (tmp_path / "out.csv.parts").iterdir())
    assert parts == ["job.json", "lock", "part-000000.json", "part-000001.json"]
    assert len(json.loads((tmp_path / "out.csv.parts" / "part-000001.json").read_bytes())) == CHUNK
