"""Labelled pairs as `diptych label` exports them, and as people write them."""

from pathlib import Path

import pytest

from diptych_training.errors import DataError
from diptych_training.fine_tuning.run import recipe_from
from diptych_training.fine_tuning.table import Labels, read_labels

QUESTIONS = ("copy", "thing")


def read(folder: Path, text: str, **settings: str):
    (folder / "pairs.csv").write_text(text)
    return read_labels(Labels(str(folder / "pairs.csv"), **settings), QUESTIONS, "made")


def test_an_export_is_read_with_its_questions_and_what_gives_no_answer_is_counted(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "image_a,image_b,question,answer,added,id_a,id_b\n"
        "b.jpg,a.jpg,copy,same,,,\n'=x.jpg,a.jpg,thing,different,,,\na.jpg,c.jpg,copy,cannot tell,,,\n"
        ",,copy,same,,00,11\na.jpg,b.jpg,copy,different,,,\n",
    )
    assert found.names == ["=x.jpg", "a.jpg", "b.jpg"]
    assert found.sides.tolist() == [[1, 2], [0, 1]]
    assert (found.questions, found.same.tolist(), found.left_out) == (["copy", "thing"], [False, False], 2)
    assert found.paths[1] == tmp_path / "a.jpg"


def test_a_table_of_ones_and_zeros_answers_the_recipes_question(tmp_path: Path) -> None:
    found = read(tmp_path, "image_a,image_b,label\na.jpg,b.jpg,1\na.jpg,c.jpg,0\n", question="thing", root="/photos")
    assert (found.questions, found.same.tolist()) == (["thing", "thing"], [True, False])
    assert found.paths[0] == Path("/photos/a.jpg")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("image_a,image_b\na,b\n", "needs a column answer"),
        (
            "image_a,image_b,answer\na,b,perhaps\n",
            "line 2: expected same, different, cannot tell, 1 or 0, got 'perhaps'",
        ),
        ("image_a,image_b,answer\na,a,same\n", "line 2: both pictures are a"),
        ("image_a,image_b,answer,question\na,b,same,face\n", "line 2: .*'face'"),
    ],
)
def test_a_fault_is_named_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"labels": {}}, r"\[labels\] needs table: the CSV"),
        ({"labels": {"table": "a", "question": "face"}}, "labels.question must be one of copy, thing, got 'face'"),
        ({"labels": {"table": "a"}, "fold": 3}, "did you mean 'folds'"),
        ({"labels": {"table": "a"}, "folds": 1}, "folds of 2 at least"),
        ({"labels": {"table": "a"}, "strengths": [0.0]}, "strengths must be numbers above 0"),
    ],
)
def test_a_recipe_that_cannot_be_run_is_refused(values: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        recipe_from(values)
