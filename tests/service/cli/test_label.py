"""`diptych label` and `diptych calibrate`: from tables of answers to verdicts of one's own."""

import csv
import json

import pytest

from diptych import Collection
from diptych.labelling.calibrate import FittedQuestion
from diptych_runtime.own_calibration import CALIBRATION, OwnCalibration


@pytest.fixture
def options(artifact):
    return "--model", artifact, "--provider", "cpu", "--threads", 1


@pytest.fixture
def types(stdin):
    """`types("s", "q")`: the person's lines."""
    return lambda *lines: stdin("".join(f"{line}\n" for line in lines).encode())


@pytest.fixture
def labelled(store, scorer, label_every_pair):
    """A collection whose every pair is labelled."""
    with Collection.open(store, scorer) as collection:
        label_every_pair(collection)
    return store


def test_labels_go_out_and_come_in(diptych, labelled, tmp_path, types):
    written = diptych("label", "--store", labelled, "--export", tmp_path / "pairs.csv", "--json")
    assert written.json == {"labels": 66, "table": str(tmp_path / "pairs.csv")}
    rows = list(csv.DictReader((tmp_path / "pairs.csv").read_text().splitlines()))
    assert len(rows) == 66
    assert diptych("label", "--store", labelled, "--export", "-").out == (tmp_path / "pairs.csv").read_text()
    again = diptych("label", "--store", labelled, "--import", tmp_path / "pairs.csv", "--json")
    assert again.json == {"new": 0, "known": 66}
    types("image_a,image_b,answer", f"{rows[0]['image_a']},{rows[0]['image_b']},?")
    assert diptych("label", "--store", labelled, "--import", "-").out == "1 label imported, 0 already known\n"
    for words in (("--import", "-", "--export", "-"), ()):
        assert diptych("label", "--store", labelled, *words).code == 2


def test_a_calibration_of_a_collection_makes_its_verdicts(diptych, labelled, options, gallery):
    query = gallery / "01.jpg"

    def search() -> dict[str, float]:
        found = diptych("search", query, "--store", labelled, *options, "--json").json
        return {match["path"]: match["relevance_score"] for match in found["matches"]}

    released = search()
    made = diptych("calibrate", "--store", labelled, "--force", *options, "--json")
    assert made.code == 0
    own = OwnCalibration.load(labelled / CALIBRATION)
    assert made.json["calibration"] == str(labelled / CALIBRATION)
    assert made.json["questions"]["match"]["scale"] == own.questions["match"].scale
    assert set(made.json["questions"]["match"]["ece"]) == {"released", "calibrated"}
    mine = search()
    assert mine != released
    other = next(path for path in mine if path != str(query))
    words = diptych("score", query, other, "--model", labelled / CALIBRATION, *options[2:], "--json").json
    assert words["relevance_score"] == pytest.approx(mine[other], abs=1e-6)
    (labelled / CALIBRATION).unlink()
    assert search() == released


def test_a_calibration_of_a_table_needs_no_collection(diptych, labelled, options, tmp_path):
    table, own = tmp_path / "pairs.csv", tmp_path / "own.json"
    diptych("label", "--store", labelled, "--export", table)
    made = diptych("calibrate", "--labels", table, "-o", own, "--force", *options)
    assert made.code == 0
    assert "expected calibration error" in made.out
    assert f"written: {own}" in made.out
    assert f"--model {own}" in made.err
    of_store = diptych("calibrate", "--store", labelled, "--force", *options, "--json").json
    assert json.loads(own.read_text())["questions"]["match"]["scale"] == of_store["questions"]["match"]["scale"]
    words = ("--labels", table, "-o", tmp_path / "again.json", "--model", own, "--force", *options[2:])
    over = diptych("calibrate", *words)
    assert over.code == 0
    assert json.loads((tmp_path / "again.json").read_text())["questions"] == json.loads(own.read_text())["questions"]


def test_a_calibration_that_is_no_better_is_not_installed_unless_it_is_forced_and_is_removed_again(
    diptych, labelled, options, monkeypatch
):
    monkeypatch.setattr(FittedQuestion, "is_better", property(lambda fit: False))
    words = ("calibrate", "--store", labelled, *options)
    refused = diptych(*words)
    assert (refused.code, (labelled / CALIBRATION).exists()) == (1, False)
    assert "expected calibration error" in refused.out, "the figures are said"
    assert "no calibration written\n" in refused.out
    assert "--force" in refused.err
    told = diptych(*words, "--json")
    assert (told.code, told.json["calibration"], told.json["questions"]["match"]["better"]) == (1, None, False)
    assert diptych(*words, "--force").code == 0
    before = (labelled / CALIBRATION).read_bytes()
    again = diptych(*words)
    assert (again.code, f"{labelled / CALIBRATION} stays as it is" in again.err) == (1, True)
    assert (labelled / CALIBRATION).read_bytes() == before
    for content, removed in ((before, True), (b"damaged", True), (None, False)):
        if content:
            (labelled / CALIBRATION).write_bytes(content)
        assert diptych("calibrate", "--store", labelled, "--remove", "--json").json["removed"] == removed
        assert not (labelled / CALIBRATION).exists()


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("--remove", "--force"), 2, "--remove removes a calibration, and --force is for a new one"),
        (("--remove", "--store", "nowhere"), 1, "holds no collection"),
        ((), 1, "data-home/diptych holds no collection; name one with --store"),
        (("--labels", "pairs.csv"), 1, "holds no collection; name one with --store"),
        (("--labels", "pairs.csv", "-o", "own.txt"), 2, "must end in .json"),
        (("--labels", "pairs.csv", "-o", "own.json"), 1, "error: pairs.csv: No such file or directory"),
    ],
)
def test_what_is_missing_is_named(diptych, options, tmp_path, monkeypatch, words, code, text):
    monkeypatch.chdir(tmp_path)
    done = diptych("calibrate", *words, *options)
    assert done.code == code
    assert text in done.err
    assert not (tmp_path / "nowhere").exists()


def test_too_few_labels_say_what_to_do_and_leave_no_file(diptych, store, options):
    done = diptych("calibrate", "--store", store, *options)
    assert done.code == 1
    assert "Label more (`diptych serve`)" in done.err
    assert not (store / CALIBRATION).exists()
