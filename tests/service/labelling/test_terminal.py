"""Labelling in a terminal: what is printed, what is kept, and going on later; and a calibration in words."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from diptych.dedupe.find import OnPairs
from diptych.labelling.calibrate import Fitted, FittedQuestion, Level
from diptych.labelling.terminal import KEYS, Dialogue, calibration_json, calibration_text
from diptych_runtime.own_calibration import OwnCalibration, OwnQuestion


class Terminal:
    """A person who types these lines, and what is written and opened."""

    def __init__(self, *lines: str) -> None:
        self.lines, self.said, self.opened = list(lines), [], []

    def ask(self, prompt: str) -> str:
        if not self.lines:
            raise EOFError
        return self.lines.pop(0)

    def run(self, collection, question: str = "copy", most: int | None = None) -> int:
        dialogue = Dialogue(
            collection,
            question,
            ask=self.ask,
            say=self.said.append,
            show=self.opened.append,
            choosing=self.choosing,
        )
        given = dialogue.run(most)
        self.counts = dialogue.describe_counts()
        return given

    @contextmanager
    def choosing(self) -> Iterator[OnPairs]:
        self.said.append("choosing")
        yield lambda missing, known: lambda done: None
        self.said.append("chosen")


def answers(collection) -> list[str]:
    return [one.answer for one in collection.labels("copy")]


def test_both_paths_are_printed_and_each_answer_is_kept_at_once(collection):
    terminal = Terminal("s", "maybe", "D", "", "?", "no", "s")
    assert terminal.run(collection, most=4) == 4, "and that ends it"
    assert terminal.said.count(f"Expected one of: {KEYS}") == 2
    assert answers(collection) == ["same", "different", "cannot tell", "different"]
    assert terminal.said[:2] == ["choosing", "chosen"], "nobody is asked before there is something to answer"
    assert KEYS in terminal.said[2]
    shown = [line.split() for line in terminal.said if line.startswith("\n")]
    labels = collection.labels()
    for paths, label in zip(shown, labels, strict=False):
        assert set(paths) == {label.path_a, label.path_b}
    assert terminal.counts == "4 labels: 1 same, 2 not the same, 1 cannot tell"
    assert terminal.opened == [], "nothing opens by itself"


def test_a_later_run_goes_on_with_other_pairs_until_none_is_left(collection):
    met = []
    while True:
        terminal = Terminal(*["s"] * 7)
        if not terminal.run(collection):
            break
        met.append(len(collection.labels()))
    assert met == sorted(set(met))
    assert terminal.said[-1] == "There are no more pairs worth asking about."
    assert len({one.pair for one in collection.labels()}) == met[-1]


def test_an_answer_is_taken_back_and_its_pair_is_shown_again(collection):
    terminal = Terminal("u", "s", "u", "d", "q", "s")
    assert terminal.run(collection) == 1
    assert answers(collection) == ["different"]
    assert "There is nothing to undo in this run." in terminal.said
    assert "Taken back: same." in terminal.said
    shown = [line for line in terminal.said if line.startswith("\n")]
    assert shown[0] == shown[1] == shown[3]
    assert shown[2] == shown[4] != shown[0]
    assert terminal.lines == ["s"], "q ends it"


def test_pictures_are_opened_when_asked_as_copies_and_names_are_shown_in_one_line(collection, photo_bytes, gallery):
    terminal = Terminal("o")
    terminal.run(collection)
    (shown,) = [line.split() for line in terminal.said if line.startswith("\n")]
    copies = [Path(path) for path in terminal.opened]
    assert [copy.read_bytes() for copy in copies] == [Path(path).read_bytes() for path in shown]
    assert all(copy.suffix == ".jpeg" for copy in copies)
    for copy in copies:
        copy.unlink()
    for record in collection.list(100):
        collection.remove(record.id)
    kept = [photo_bytes(seed, format="PNG") for seed in (71, 72)]
    for data in kept:
        collection.add(data, keep_originals=True, metadata={"filename": "up\nload.png"})
    terminal = Terminal("o")
    terminal.run(collection)
    files = [Path(path) for path in terminal.opened]
    assert sorted(file.read_bytes() for file in files) == sorted(kept)
    assert all(file.suffix == ".png" for file in files)
    for file in files:
        file.unlink()
    assert any("up\\nload.png (" in said for said in terminal.said), "a name of several lines is shown in one"


@pytest.mark.parametrize("digest_is_right", [False, True])
def test_what_is_no_picture_is_never_opened_whatever_the_store_says(collection, gallery, digest_is_right, monkeypatch):
    evil = b"[Desktop Entry]\nType=Application\nExec=touch /tmp/evil\n"
    for record in collection.list(100):
        Path(record.path).write_bytes(evil)
    if digest_is_right:
        monkeypatch.setattr(collection, "content", lambda id: (evil, "application/octet-stream"))
    terminal = Terminal("o")
    terminal.run(collection)
    assert terminal.opened == []
    assert any("picture" in said for said in terminal.said[3:])


@pytest.fixture
def fitted() -> Fitted:
    own = OwnQuestion(0.8, -0.5, {"0.01": 0.9}, 20, 30)
    labels = np.arange(50) < 20
    after = np.where(labels, 0.9, 0.1)
    level = Level(0.9, 0.95, (0.91, 0.98))
    fit = FittedQuestion(own, labels, np.where(labels, 0.6, 0.4), after, (0.4, 0.3, 0.5), {"likely": level})
    made = OwnCalibration("photo", "0" * 12, "1" * 12, "2026-11-25", {"copy": own})
    return Fitted(made, {"copy": fit}, {"thing": "needs at least 20 answers"}, 3)


def test_a_calibration_is_told_with_its_error_and_thresholds(fitted):
    assert calibration_text(fitted).splitlines() == [
        "copy: 20 labels same, 30 different",
        "  expected calibration error 0.400 as released, 0.100 calibrated (cross-validated)",
        "  log-loss of a pair changes by -0.400 (-0.500 to -0.300; less is better): better",
        "  likely from 0.9, which was 0.95 as released (0.91 to 0.98)",
        "thing: as released, for it needs at least 20 answers",
        "left out: 3 labels with the answer cannot tell",
    ]
    unproven = replace(fitted, calibration=replace(fitted.calibration, questions={}))
    assert calibration_text(unproven).splitlines()[4] == "  stays as released"
    told = calibration_json(fitted)
    assert (told["questions"]["copy"]["better"], told["questions"]["copy"]["calibrated"]) == (True, True)
    assert told["questions"]["copy"]["verdicts"]["likely"]["interval"] == [0.91, 0.98]
    assert told["questions"]["copy"]["ece"] == {"released": pytest.approx(0.4), "calibrated": pytest.approx(0.1)}
    assert told["left_out"] == {"thing": "needs at least 20 answers"}
