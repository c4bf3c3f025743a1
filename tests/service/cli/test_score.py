from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import replace

import pytest
from PIL import Image

from diptych import Scorer
from diptych.console import Console

PAIRS = b"image_a,image_b\n01.jpg,02.jpg\n04.jpg,05.jpg\n"


@pytest.fixture
def score(diptych, artifact, gallery, monkeypatch):
    """`score("pairs.csv", "-o", "out.csv")` in the folder of the gallery; `score(..., stdin=b"...")` pipes."""
    monkeypatch.chdir(gallery)
    (gallery / "pairs.csv").write_bytes(PAIRS)

    def run(*arguments: object, stdin: bytes = b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8", newline=""))
        return diptych("score", *arguments, "--model", artifact, "--threads", 1)

    return run


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a.jpg", "b.jpg", "c.jpg"], "expected two pictures or one table of pairs, got 3 files"),
        (["a.jpg", "b.jpg", "--resume"], "belong to a table of pairs, and here are two pictures"),
        (["a.jpg", "b.jpg", "--engine", "ray"], "belong to a table of pairs, and here are two pictures"),
        (["a.jpg", "b.jpg", "--no-closer-look"], "belong to a table of pairs, and here are two pictures"),
        (["a.jpg"], "a.jpg does not exist: name two pictures"),
        ([""], "'' does not exist: name two pictures"),
        (["/"], "/ has nothing to be scored against: name two pictures"),
        (["/", "-o", "out.csv"], "/ has nothing to be scored against: name two pictures"),
        (["a.jpg", "-o", "out.csv"], "a.jpg does not exist: name two pictures"),
        (["pairs.csv"], "a table of pairs needs -o OUT.csv"),
        (
            ["pairs.csv", "-o", "out.xlsx"],
            "out.xlsx ends in none of .csv, .tsv, .jsonl and .parquet; say which with --format",
        ),
        (["pairs.csv", "-o", "-", "--resume"], "standard input and output cannot be resumed or shared out"),
        (["-", "-o", "out.csv", "--workers", "2"], "standard input and output cannot be resumed or shared out"),
        (["pairs.csv", "-o", "out.csv", "--address", "a:1"], "--address names a Ray cluster; it needs --engine ray"),
        (
            ["pairs.csv", "-o", "out.csv", "--engine", "ray", "--workers", "2"],
            "--workers are processes here",
        ),
    ],
)
def test_wrong_usage_says_what_was_expected_before_any_model_is_loaded(score, monkeypatch, arguments, said):
    monkeypatch.setattr("diptych.cli.score.open_scorer", lambda *_, **__: pytest.fail("a model was loaded"))
    result = score(*arguments)
    assert (result.code, result.out) == (2, "")
    assert said in result.err


def test_the_ending_names_the_format_and_the_option_overrules_it(score, gallery):
    assert score("pairs.csv", "-o", "OUT.JSONL").code == 0
    assert score("pairs.csv", "-o", "out.csv", "--format", "jsonl").code == 0
    assert (gallery / "out.csv").read_bytes() == (gallery / "OUT.JSONL").read_bytes()
    assert (
        score("pairs.csv", "-o", "-").out.splitlines()[0]
        == "image_a,image_b,relevance_score,raw_score,verdict,closer_look,error"
    )


@pytest.mark.parametrize("ending", ["tsv", "jsonl", "parquet"])
def test_a_table_of_any_kind_has_the_same_scores_by_way_of_a_job_and_of_a_stream(score, gallery, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    assert score("pairs.csv", "-o", "whole.csv").code == 0
    assert score("pairs.csv", "-o", f"results.{ending}").code == 0
    # The scores of the first become a column like any other of the second.
    renamed = gallery / f"pairs.{ending}"
    if ending == "parquet":
        from pyarrow import parquet

        parquet.write_table(parquet.read_table(gallery / "results.parquet").select(["image_a", "image_b"]), renamed)
    else:
        lines = PAIRS.decode().splitlines()
        rows = [dict(zip(lines[0].split(","), line.split(","), strict=True)) for line in lines[1:]]
        text = PAIRS.decode().replace(",", "\t") if ending == "tsv" else "".join(json.dumps(row) + "\n" for row in rows)
        renamed.write_text(text)
    assert score(renamed, "-o", "again.csv", "--workers", 1).code == 0
    assert (gallery / "again.csv").read_bytes() == (gallery / "whole.csv").read_bytes()
    assert score(renamed, "-o", "-", "--quiet").out.encode() == (gallery / "whole.csv").read_bytes()


def test_columns_of_other_names_are_named_in_the_errors_too(score, gallery):
    (gallery / "pairs.csv").write_text("left,right\n01.jpg,gone.jpg\n")
    for output in ("out.csv", "-"):
        result = score("pairs.csv", "-o", output, "--columns", "left", "right")
        assert result.code == 1
        text = (gallery / "out.csv").read_text() if output == "out.csv" else result.out
        assert text.splitlines()[1] == "01.jpg,gone.jpg,,,,,right: gone.jpg does not exist"


def test_web_addresses_are_refused_by_every_worker_unless_they_are_asked_for(score, gallery):
    (gallery / "pairs.csv").write_text("image_a,image_b\n01.jpg,http://example.org/a.jpg\n")
    assert score("pairs.csv", "-o", "out.csv", "--workers", 2).code == 1
    assert "add --urls to have such pictures fetched" in (gallery / "out.csv").read_text()


def test_a_streamed_table_that_breaks_off_leaves_the_old_result_and_nothing_beside_it(score, gallery):
    (gallery / "out.csv").write_text("precious")
    before = sorted(path.name for path in gallery.iterdir())
    refused = score("-", "-o", "out.csv", stdin=PAIRS)
    assert refused.code == 1
    assert "out.csv exists already; name another file, or replace it with --force" in refused.err
    broken = score("-", "-o", "out.csv", "--force", stdin=PAIRS + b"01.jpg\n")
    assert broken.code == 1
    assert "line 4: 1 fields, the header has 2" in broken.err
    assert (gallery / "out.csv").read_text() == "precious"
    assert sorted(path.name for path in gallery.iterdir()) == before
    assert score("-", "-o", "out.csv", "--force", stdin=PAIRS).code == 0
    assert score("pairs.csv", "-o", "journal.csv").code == 0
    assert (gallery / "out.csv").read_bytes() == (gallery / "journal.csv").read_bytes()


def test_the_table_is_never_replaced_by_its_own_scores_under_any_name(score, gallery):
    (gallery / "link.csv").symlink_to(gallery / "pairs.csv")
    for name in ("pairs.csv", "./pairs.csv", "link.csv", gallery / "more" / ".." / "pairs.csv"):
        result = score("pairs.csv", "-o", name, "--force")
        assert result.code == 1
        assert "which is read here; name another file, nothing was written" in result.err
    assert (gallery / "pairs.csv").read_bytes() == PAIRS


def test_parquet_is_refused_on_standard_output(score):
    pytest.importorskip("pyarrow")
    result = score("pairs.csv", "-o", "-", "--format", "parquet")
    assert (result.code, result.out) == (1, "")
    assert "Parquet cannot be written to standard output; choose csv or jsonl, or a file" in result.err


def test_the_printed_score_of_a_pair_is_that_of_its_json_and_of_its_table(score, gallery):
    found = score("01.jpg", "02.jpg", "--json").json
    text = score("01.jpg", "02.jpg").out
    score_of, verdict = f"{found['relevance_score']:.6f}", f"{found['verdict']:9}"
    assert text == f"match  {score_of}  {verdict}  (raw score {found['raw_score']:.6f})\n"
    rows = list(csv.DictReader(io.StringIO(score("pairs.csv", "-o", "-").out)))
    assert json.loads(rows[0]["raw_score"]) == found["raw_score"]
    assert (json.loads(rows[0]["relevance_score"]), rows[0]["verdict"]) == (found["relevance_score"], found["verdict"])


def test_one_probability_for_both_questions_is_explained(diptych, artifact_of_two, gallery, monkeypatch):
    words = ("score", gallery / "01.jpg", gallery / "02.jpg", "--model", artifact_of_two, "--threads", 1)
    reason = "thing is at least as probable as copy, because a copy shows the same thing\n"
    apart = diptych(*words)
    assert len({answer["relevance_score"] for answer in diptych(*words, "--json").json["answers"].values()}) == 2
    assert reason not in apart.err
    judge = Scorer.judge

    def lifted(self, *args, **options):
        (said,) = judge(self, *args, **options)
        return [said | {"thing": replace(said["thing"], relevance_score=said["copy"].relevance_score)}]

    monkeypatch.setattr(Scorer, "judge", lifted)
    assert diptych(*words).err.endswith(reason)
    assert diptych(*words, "-q").err == ""


def test_an_interrupted_table_is_130_and_goes_on_where_the_line_on_the_screen_says(score, gallery, monkeypatch):
    class Bar:
        """A progress bar at which someone presses Ctrl-C as soon as pairs are scored."""

        def __init__(self, unit: str) -> None:
            self.unit = unit

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def update(self, count: int) -> None:
            if count and self.unit == "pair":
                raise KeyboardInterrupt

    for source, said in (("pairs.csv", "; the same command with --resume goes on from here"), ("-", "")):
        with monkeypatch.context() as patch:
            patch.setattr(Console, "progress", lambda *_, unit, **__: Bar(unit))
            stopped = score(source, "-o", "out.csv", stdin=PAIRS)
        assert (stopped.code, stopped.out) == (130, "")
        assert stopped.err == f"interrupted{said}\n"
        assert not (gallery / "out.csv").exists()
    resumed = score("pairs.csv", "-o", "out.csv", "--resume", "--json")
    assert (resumed.code, resumed.json["pairs"], resumed.json["scored"]) == (0, 2, 0)
    again = score("pairs.csv", "-o", "out.csv", "--resume")
    assert (again.code, again.out, again.err) == (0, "nothing to do: out.csv is complete, with 2 pairs\n", "")


@pytest.mark.parametrize("model", ["artifact", "artifact_that_looks"])
@pytest.mark.parametrize("colour", ["white", (0, 0, 254)])
def test_the_same_file_is_the_same_to_every_question_however_plain(diptych, request, tmp_path, model, colour):
    for name in ("a.png", "b.png"):
        Image.new("RGB", (96, 64), colour).save(tmp_path / name)
    chosen = ("--model", request.getfixturevalue(model), "--threads", 1, "--json")
    answers = diptych("score", tmp_path / "a.png", tmp_path / "b.png", *chosen).json["answers"].values()
    assert {(one["relevance_score"], one["verdict"]) for one in answers} == {(1.0, "same")}
    assert diptych("explain", tmp_path / "a.png", tmp_path / "b.png", *chosen).json["relevance_score"] == 1.0
    ranked = diptych("rerank", tmp_path / "a.png", tmp_path / "b.png", *chosen).json["results"]
    assert [(one["relevance_score"], one["verdict"]) for one in ranked] == [(1.0, "same")]


def test_equal_pixels_of_another_file_are_the_same_and_other_plain_ones_are_not(diptych, artifact_that_looks, tmp_path):
    white = Image.new("RGB", (96, 64), "white")
    white.save(tmp_path / "a.png")
    white.save(tmp_path / "b.bmp")
    Image.new("RGB", (96, 64), "navy").save(tmp_path / "c.png")
    chosen = ("--model", artifact_that_looks, "--threads", 1, "--json")

    def copy(name: str) -> dict:
        return diptych("score", tmp_path / "a.png", tmp_path / name, *chosen).json["answers"]["copy"]

    assert (copy("b.bmp")["relevance_score"], copy("b.bmp")["verdict"]) == (1.0, "same")
    assert (copy("c.png")["relevance_score"] < 0.01, copy("c.png")["verdict"]) == (True, "different")


def test_a_picture_that_is_damaged_is_named(diptych, artifact, tmp_path, photo_bytes):
    data = photo_bytes(1, (400, 300), "JPEG")
    (tmp_path / "a.jpg").write_bytes(data)
    (tmp_path / "b.jpg").write_bytes(data[:-2000] + bytes(1998) + data[-2:])
    answer = diptych("score", tmp_path / "a.jpg", tmp_path / "b.jpg", "--model", artifact, "--threads", 1)
    assert answer.code == 0
    assert f"{tmp_path / 'b.jpg'} is damaged: cut short or overwritten in part" in answer.err
    assert "a.jpg is" not in answer.err
