import csv
import os
import resource
import shutil
from contextlib import contextmanager, nullcontext
from functools import partial

import numpy as np
import pytest

from diptych import Scorer
from diptych.batch.tables.read import open_table
from diptych.errors import BatchError

PART = 256  # pairs


def test_every_row_comes_out_in_order_and_each_picture_is_decoded_once(scorer, run, pairs, tmp_path, monkeypatch):
    seen, decode = [], Scorer.pixels
    monkeypatch.setattr(Scorer, "pixels", lambda self, a, **how: seen.append(str(a)) or decode(self, a, **how))
    monkeypatch.setattr("diptych.batch.job.open_table", partial(open_table, rows=300))  # ends within a part
    report = run(pairs, tmp_path / "out.csv")
    assert len(seen) == len(set(seen)) == 14
    assert (report.outcome.pictures, report.encoded) == (15, 15), "with the one that has no name"
    with pairs.open(newline="", encoding="utf-8") as file:
        given = list(csv.DictReader(file))
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [{key: row[key] for key in given[0]} for row in rows] == given
    failed = [row for row in rows if row["error"]]
    assert (report.outcome.pairs, report.outcome.errors, report.scored) == (1000, len(failed), 1000)
    assert {row["image_a"] for row in failed} == {"broken.jpg", "gone.jpg", ""}
    assert all(row["error"].startswith("image_a: ") and not row["raw_score"] for row in failed)
    good = [row for row in rows if not row["error"]][::97]
    folder = pairs.parent
    raw = scorer.predict([(folder / row["image_a"], folder / row["image_b"]) for row in good], activation_fn=np.asarray)
    assert [np.float32(row["raw_score"]) for row in good] == raw.tolist()
    assert [np.float32(row["relevance_score"]) for row in good] == scorer.relevance(raw).tolist()
    assert not (tmp_path / "out.csv.parts").exists()


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_stopped_and_resumed_run_writes_the_same_bytes(run, stopped, pairs, tmp_path, format):
    if format == "parquet":
        pytest.importorskip("pyarrow")
    run(pairs, tmp_path / "whole", format)
    stopped(pairs, tmp_path / "resumed", 2)
    assert not (tmp_path / "resumed").exists()
    report = run(pairs, tmp_path / "resumed", format, resume=True)
    assert (report.scored, report.encoded) == (1000 - 2 * PART, 0)
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes()


def test_resuming_what_is_complete_does_nothing_and_another_job_is_refused(run, pairs, tmp_path):
    output = tmp_path / "out.csv"
    outcome = run(pairs, output).outcome
    whole = output.read_bytes()
    report = run(pairs, output, resume=True)
    assert (report.outcome, report.scored, report.encoded, report.seconds) == (outcome, 0, 0, {})
    with pytest.raises(BatchError, match=r"out.csv exists already, and the format is not .* \(jsonl, then csv\)"):
        run(pairs, output, "jsonl", resume=True)
    with pytest.raises(BatchError, match=r"and the pair of columns is not .* then image_a, image_b\); .* --force"):
        run(pairs, output, sides=("image_b", "image_a"), resume=True)
    table = pairs.read_bytes()
    pairs.write_bytes(table.replace(b"plain", b"plane"))
    with pytest.raises(BatchError, match=r"and the table is not the one it was made with"):
        run(pairs, output, resume=True)
    pairs.write_bytes(table)
    assert output.read_bytes() == whole
    output.write_bytes(whole + b"\n")
    with pytest.raises(BatchError, match=r"--resume does not know it as this job's"):
        run(pairs, output, resume=True)


def test_a_run_is_not_resumed_over_pictures_that_were_replaced(run, stopped, pairs, gallery, photo_bytes, tmp_path):
    output, other = tmp_path / "out.csv", tmp_path / "other.csv"
    run(pairs, output)
    stopped(pairs, other, 1)
    kept, before = (gallery / "01.jpg").read_bytes(), (gallery / "01.jpg").stat()
    (gallery / "01.jpg").write_bytes(photo_bytes(40))
    with pytest.raises(BatchError, match=r"the state of the pictures, by size and time, is not the one it was made"):
        run(pairs, output, resume=True)
    with pytest.raises(BatchError, match=r"the state of the pictures, .* this run began with .* --force"):
        run(pairs, other, resume=True)
    (gallery / "01.jpg").write_bytes(kept)
    os.utime(gallery / "01.jpg", ns=(before.st_atime_ns, before.st_mtime_ns))
    (gallery / "new.txt").touch()  # the folder, which an empty name stands for, is no picture
    assert run(pairs, output, resume=True).seconds == {}
    assert run(pairs, other, resume=True).outcome.pairs == 1000
    assert other.read_bytes() == output.read_bytes()


def test_a_disk_that_is_too_small_is_refused_before_anything_is_computed(run, pairs, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9 - 50_000, 50_000))  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(BatchError, match=r"needs about [\d.]+ kB of disk .* of 15 pictures .* 1,000 pairs, and 50 kB"):
        run(pairs, tmp_path / "out.csv")
    assert not list((tmp_path / "out.csv.parts").glob("*.part"))
    monkeypatch.undo()
    assert run(pairs, tmp_path / "out.csv", resume=True).scored == 1000


def test_a_full_disk_leaves_what_is_done_and_nothing_under_the_name_of_the_output(run, pairs, tmp_path):
    run(pairs, tmp_path / "whole.csv")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The parts fit, the output does not.
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, hard))
    try:
        with pytest.raises(BatchError, match=r"File too large; what is done is kept, so mend that and .* --resume"):
            run(pairs, tmp_path / "out.csv")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not (tmp_path / "out.csv").exists()
    assert run(pairs, tmp_path / "out.csv", resume=True).scored == 0
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_a_table_that_vanishes_or_changes_meanwhile_ends_it_with_what_to_do(run, stopped, pairs, tmp_path):
    output, other, table = tmp_path / "out.csv", tmp_path / "other.csv", pairs.read_bytes()
    stopped(pairs, output, 1)

    def when_scored(action):
        @contextmanager
        def bar(unit, count, done):
            yield lambda count: None
            if unit == "pair":
                action()

        return bar

    with pytest.raises(BatchError, match=r"pairs.csv: No such file or directory; what is done is kept"):
        run(pairs, output, resume=True, bar=when_scored(pairs.unlink))
    pairs.write_bytes(table)
    stopped(pairs, other, 1)
    with pytest.raises(BatchError, match=r"pairs.csv changed while it was scored; begin anew with --force"):
        run(pairs, other, resume=True, bar=when_scored(lambda: pairs.write_bytes(table.replace(b"plain", b"plane"))))
    assert not output.exists()
    assert not other.exists()
    pairs.write_bytes(table)
    assert run(pairs, output, resume=True).outcome.pairs == 1000


def test_a_folder_of_pictures_that_vanishes_is_no_table_full_of_errors(run, pairs, tmp_path, monkeypatch):
    away = tmp_path / "away"

    def gone(unit, count, done):
        if unit == "picture":
            pairs.parent.rename(away)
        return nullcontext(lambda count: None)

    with pytest.raises(BatchError, match=r"gallery: No such file or directory; what is done is kept"):
        run(pairs, tmp_path / "out.csv", bar=gone)
    away.rename(pairs.parent)
    assert run(pairs, tmp_path / "out.csv", resume=True).outcome.errors < 20


def test_what_is_there_already_is_not_replaced_without_a_word(run, stopped, pairs, tmp_path):
    output = tmp_path / "out.csv"
    (tmp_path / "file").write_text("no folder")
    for place in (tmp_path / "file" / "out.csv", tmp_path / "none" / "out.csv"):
        with pytest.raises(BatchError, match=r"out.csv.parts cannot be made \(No.*\); name an output in a folder"):
            run(pairs, place)
    stopped(pairs, output, 1)
    with pytest.raises(BatchError, match="go on with --resume, or begin anew with --force"):
        run(pairs, output)
    output.write_text("precious")
    for resume in (False, True):
        with pytest.raises(BatchError, match=r"out.csv exists already; .* --force"):
            run(pairs, output, resume=resume)
    assert output.read_text() == "precious"
    assert run(pairs, output, force=True).scored == 1000


def test_a_run_that_was_killed_when_its_output_had_its_name_is_found_done(run, pairs, tmp_path, monkeypatch):
    output = tmp_path / "out.csv"
    with monkeypatch.context() as patch:
        patch.setattr("diptych.batch.job.remove_folder", lambda folder: None)
        run(pairs, output)
    whole = output.read_bytes()
    report = run(pairs, output, resume=True)
    assert (report.outcome.pairs, report.scored) == (1000, 0)
    assert output.read_bytes() == whole
    assert not (tmp_path / "out.csv.parts").exists()


def test_a_stopped_run_says_where_it_goes_on_and_refuses_a_damaged_part(run, stopped, pairs, tmp_path):
    output = tmp_path / "out.csv"
    stopped(pairs, output, 2)
    bars, said = [], []

    def bar(unit, count, done):
        bars.append((unit, count, done))
        return nullcontext(lambda count: None)

    (part,) = (tmp_path / "out.csv.parts").glob("pairs-000001-*.part")
    data = part.read_bytes()
    part.write_bytes(data[:100])
    with pytest.raises(BatchError, match=r"pairs-000001-.*.part is damaged .*; remove it and go on with --resume"):
        run(pairs, output, resume=True, bar=bar, say=said.append)
    assert bars == [("pair", 1000, 2 * PART), ("row", 1000, 0)]
    assert said == ["going on from 512 of 1,000 pairs"]
    assert not output.exists()
    part.unlink()
    assert run(pairs, output, resume=True).scored == PART


def test_a_name_in_another_normal_form_is_that_of_the_file_that_is_there(run, gallery, tmp_path):
    (gallery / "01.jpg").rename(gallery / "Gro\u0308\u00dfe.jpg")
    (gallery / "one.csv").write_text("image_a,image_b\nGr\u00f6\u00dfe.jpg,02.jpg\n", encoding="utf-8")
    assert run(gallery / "one.csv", tmp_path / "out.csv").outcome.errors == 0
