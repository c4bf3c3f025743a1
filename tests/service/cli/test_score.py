"""`diptych score`: a pair, and tables of pairs by way of a job and of a stream."""

from __future__ import annotations

import csv
import io
import json

import pytest
from PIL import Image

from diptych import Scorer
from diptych.console import Console

PAIRS = b"image_a,image_b\n01.jpg,02.jpg\n04.jpg,05.jpg\n"
HEADER = "image_a,image_b,relevance_score,raw_score,verdict,closer_look,error"


@pytest.fixture
def score(diptych, model, gallery, monkeypatch, stdin):
    """`score("pairs.csv", "-o", "out.csv")` in the folder of the gallery; `score(..., piped=b"...")` pipes."""
    monkeypatch.chdir(gallery)
    (gallery / "pairs.csv").write_bytes(PAIRS)

    def run(*arguments: object, piped: bytes = b""):
        stdin(piped)
        return diptych("score", *arguments, *model)

    return run


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a.jpg", "b.jpg", "c.jpg"], "expected two pictures or one table of pairs, got 3 files"),
        (["a.jpg", "b.jpg", "--no-closer-look"], "belong to a table of pairs, and here are two pictures"),
        (["a.jpg"], "got 'a.jpg' without -o"),
        (["/", "-o", "out.csv"], "got '/' as a table"),
        (["pairs.csv"], "or a table of pairs"),
        (["pairs.csv", "-o", "out.xlsx"], "say which with --format"),
        (["pairs.csv", "-o", "-", "--resume"], "standard input and output cannot be resumed or shared out"),
        (["-", "-o", "out.csv", "--workers", "2"], "standard input and output cannot be resumed or shared out"),
        (["pairs.csv", "-o", "out.csv", "--address", "a:1"], "--address names a Ray cluster; it needs --engine ray"),
        (["pairs.csv", "-o", "out.csv", "--engine", "ray", "--workers", "2"], "--workers are processes here"),
    ],
)
def test_wrong_usage_says_what_was_expected_before_any_model_is_loaded(score, monkeypatch, arguments, said):
    monkeypatch.setattr("diptych.cli.options.open_scorer", lambda *_, **__: pytest.fail("a model was loaded"))
    result = score(*arguments)
    assert (result.code, result.out) == (2, "")
    assert said in result.err


def test_a_pair_has_one_score_in_any_order_as_text_as_json_and_in_a_table(score, gallery):
    found, turned = score("01.jpg", "02.jpg", "--json").json, score("02.jpg", "01.jpg", "--json").json
    keys = {"relevance_score", "raw_score", "verdict", "closer_look", "image_a", "image_b"}
    assert set(found) == keys | {"model", "revision", "question", "answers"}
    assert {**found, "image_a": "02.jpg", "image_b": "01.jpg"} == turned
    score_of, verdict = f"{found['relevance_score']:.6f}", f"{found['verdict']:9}"
    assert score("01.jpg", "02.jpg").out == f"match  {score_of}  {verdict}  (raw score {found['raw_score']:.6f})\n"
    row = next(csv.DictReader(io.StringIO(score("pairs.csv", "-o", "-").out)))
    assert json.loads(row["raw_score"]) == found["raw_score"]
    assert (json.loads(row["relevance_score"]), row["verdict"]) == (found["relevance_score"], found["verdict"])


def test_the_question_is_asked_that_is_named_and_else_that_of_the_command(
    diptych, gallery, artifact_of_two, model, stdin, tmp_path, monkeypatch
):
    monkeypatch.chdir(gallery)
    two = ("--model", artifact_of_two, "--threads", 1)
    thing = Scorer.load(str(artifact_of_two), threads=1)
    (gallery / "pairs.csv").write_text("image_a,image_b\n01.jpg,02.jpg\n")
    assert diptych("index", "add", gallery, "--store", tmp_path / "two", *two).code == 0
    for options, name in (((), "thing"), (("--question", "thing"), "thing"), (("--question", "copy"), "copy")):
        (expected,) = thing.predict([("01.jpg", "02.jpg")], activation_fn=list, question=name).tolist()
        pair = diptych("score", "01.jpg", "02.jpg", *two, *options, "--json").json
        assert (pair["question"], pair["raw_score"]) == (name, pytest.approx(expected))
        reranked = diptych("rerank", "01.jpg", "02.jpg", *two, *options, "--json").json
        assert (reranked["question"], reranked["results"][0]["raw_score"]) == (name, expected)
        table = ("score", "pairs.csv", "-o", "out.jsonl", "--force", *two, *options)
        assert diptych(*table).code == 0
        (row,) = map(json.loads, (gallery / "out.jsonl").read_text().splitlines())
        stdin(b"image_a,image_b\n01.jpg,02.jpg\n")
        streamed = diptych("score", "-", "-o", "-", "--format", "jsonl", "--quiet", *two, *options)
        assert row["raw_score"] == json.loads(streamed.out)["raw_score"] == pair["raw_score"]
        found = diptych("search", "01.jpg", "--store", tmp_path / "two", *two, *options, "--json").json
        scores = {match["path"]: match["raw_score"] for match in found["matches"]}
        assert (found["question"], scores[str(gallery / "02.jpg")]) == (name, expected)
        said = diptych("search", "01.jpg", "--store", tmp_path / "two", *two, *options).err
        assert f"question: {name}; verdicts: " in said
    both = diptych("score", "01.jpg", "02.jpg", *two, "--json").json
    assert list(both["answers"]) == ["copy", "thing"]
    assert both | both["answers"]["thing"] == both
    assert diptych("score", "01.jpg", "02.jpg", *model, "--question", "copy", "--json").json["question"] == "match"
    refused = diptych("score", "01.jpg", "02.jpg", *two, "--question", "match")
    assert (refused.code, "expected copy or thing, got 'match'" in refused.err) == (2, True)


def test_a_table_of_any_kind_has_the_same_scores_by_way_of_a_job_and_of_a_stream(score, gallery):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    told = score("pairs.csv", "-o", "whole.csv", "--json").json
    assert set(told) == {
        *("output", "pairs", "errors", "closer_looks", "pictures"),
        *("scored", "encoded", "steps", "seconds", "pairs_per_second"),
    }
    assert set(told["steps"]) == {"reading", "encoding", "scoring", "writing"}
    whole = (gallery / "whole.csv").read_bytes()
    assert whole.decode().splitlines()[0] == HEADER
    rows = list(csv.DictReader(io.StringIO(PAIRS.decode())))
    (gallery / "again.csv").write_bytes(PAIRS)
    (gallery / "again.tsv").write_bytes(PAIRS.replace(b",", b"\t"))
    (gallery / "again.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    parquet.write_table(pyarrow.Table.from_pylist(rows), gallery / "again.parquet")
    for ending in ("csv", "tsv", "jsonl", "parquet"):
        table = f"again.{ending}"
        more = ("--workers", 1) if ending == "csv" else ()
        assert score(table, "-o", f"{ending}.out", "--format", "csv", *more).code == 0
        assert (gallery / f"{ending}.out").read_bytes() == whole, ending
        assert score(table, "-o", "-", "--quiet").out.encode() == whole, ending
        assert score(table, "-o", f"RESULTS.{ending.upper()}").code == 0


def test_pairs_that_cannot_be_scored_are_counted_and_named_under_their_columns(score, gallery):
    (gallery / "pairs.csv").write_text("left,right,n\n01.jpg,gone.jpg,1\n01.jpg,http://example.org/a.jpg,2\n")
    for output, more in (("out.csv", ["--workers", 2]), ("-", [])):
        result = score("pairs.csv", "-o", output, "--columns", "left", "right", *more)
        assert result.code == 1
        assert "2 could not be scored, the column error says why" in result.out + result.err
        text = (gallery / "out.csv").read_text() if output == "out.csv" else result.out
        assert text.splitlines()[1] == "01.jpg,gone.jpg,1,,,,,right: gone.jpg does not exist"
        assert "add --urls to have such pictures fetched" in text.splitlines()[2]
    existing = score("pairs.csv", "-o", "out.csv")
    assert (existing.code, "exists already" in existing.err) == (1, True)


def test_a_streamed_table_that_breaks_off_leaves_the_old_result_and_nothing_beside_it(score, gallery):
    (gallery / "out.csv").write_text("precious")
    before = sorted(path.name for path in gallery.iterdir())
    refused = score("-", "-o", "out.csv", piped=PAIRS)
    assert refused.code == 1
    assert "out.csv exists already; name another file, or replace it with --force" in refused.err
    broken = score("-", "-o", "out.csv", "--force", piped=PAIRS + b"01.jpg\n")
    assert broken.code == 1
    assert "line 4: 1 fields, the header has 2" in broken.err
    assert (gallery / "out.csv").read_text() == "precious"
    assert sorted(path.name for path in gallery.iterdir()) == before
    assert score("-", "-o", "out.csv", "--force", piped=PAIRS).code == 0
    assert score("pairs.csv", "-o", "journal.csv").code == 0
    assert (gallery / "out.csv").read_bytes() == (gallery / "journal.csv").read_bytes()


def test_parquet_is_refused_on_standard_output(score):
    pytest.importorskip("pyarrow")
    result = score("pairs.csv", "-o", "-", "--format", "parquet")
    assert (result.code, result.out, "choose csv or jsonl, or a file" in result.err) == (1, "", True)


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
            stopped = score(source, "-o", "out.csv", piped=PAIRS)
        assert (stopped.code, stopped.out) == (130, "")
        assert stopped.err == f"interrupted{said}\n"
        assert not (gallery / "out.csv").exists()
    resumed = score("pairs.csv", "-o", "out.csv", "--resume", "--json")
    assert (resumed.code, resumed.json["pairs"], resumed.json["scored"]) == (0, 2, 0)
    again = score("pairs.csv", "-o", "out.csv", "--resume")
    assert (again.code, again.out, again.err) == (0, "nothing to do: out.csv is complete, with 2 pairs\n", "")


def test_the_same_file_or_pixels_are_the_same_however_plain_and_other_plain_ones_are_not(
    diptych, artifact_that_looks, tmp_path
):
    white = Image.new("RGB", (96, 64), "white")
    for name in ("a.png", "b.png", "c.bmp"):
        white.save(tmp_path / name)
    Image.new("RGB", (96, 64), "navy").save(tmp_path / "d.png")
    chosen = ("--model", artifact_that_looks, "--threads", 1, "--json")
    for name in ("b.png", "c.bmp", "d.png"):
        answers = diptych("score", tmp_path / "a.png", tmp_path / name, *chosen).json["answers"].values()
        said = {(one["relevance_score"], one["verdict"]) for one in answers}
        assert (said == {(1.0, "same")}) == (name != "d.png"), name
    assert diptych("explain", tmp_path / "a.png", tmp_path / "b.png", *chosen).json["relevance_score"] == 1.0
    ranked = diptych("rerank", tmp_path / "a.png", tmp_path / "b.png", *chosen).json["results"]
    assert [(one["relevance_score"], one["verdict"]) for one in ranked] == [(1.0, "same")]


def test_a_picture_that_is_damaged_is_named(diptych, artifact, tmp_path, photo_bytes):
    data = photo_bytes(1, (400, 300), "JPEG")
    (tmp_path / "a.jpg").write_bytes(data)
    (tmp_path / "b.jpg").write_bytes(data[:-2000] + bytes(1998) + data[-2:])
    answer = diptych("score", tmp_path / "a.jpg", tmp_path / "b.jpg", "--model", artifact, "--threads", 1)
    assert answer.code == 0
    assert f"{tmp_path / 'b.jpg'} is damaged: cut short or overwritten in part" in answer.err
    assert "a.jpg is" not in answer.err
