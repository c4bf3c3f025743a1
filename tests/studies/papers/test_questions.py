"""The study of questions about pictures: a file a run, a table, a CSV, and what words look at drawn."""

import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diptych_studies.data.worlds import KINDS
from diptych_studies.learning.questions import QuestionBudget, train_questions, world_config
from diptych_studies.papers.questions import (
    COLUMNS,
    NETWORKS,
    draw_relevance,
    questions_text,
    study_questions,
)
from diptych_training.errors import DataError

SHAPE = world_config("dot", pixels=12, width=8, blocks=1, heads=2)
BUDGET = QuestionBudget(batch=4, examples=20, held_out=20)


def study(directory: Path, **changes) -> list[dict]:
    return study_questions(
        directory, **{"steps": 2, "seeds": 2, "shape": SHAPE, "budget": BUDGET, "processes": 0} | changes
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict]]:
    directory = tmp_path_factory.mktemp("study")
    return directory, study(directory)


def test_every_network_has_a_run_for_each_seed_and_a_line_of_the_csv(finished) -> None:
    directory, rows = finished
    assert [(row["network"], row["seed"]) for row in rows] == [(kind, seed) for kind in NETWORKS for seed in (0, 1)]
    with (directory / "questions.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert tuple(written[0]) == COLUMNS
    for line, row in zip(written, rows, strict=True):
        assert float(line["right"]) == pytest.approx(np.mean([float(line[kind]) for kind in KINDS]), abs=1e-3)
        assert row["asked"] == 20
        assert [len(seen["question"]) for seen in row["shown"]] == [len(seen["relevance"]) for seen in row["shown"]]
        assert len(row["shown"]) == (0 if row["network"] == "blind" else len(KINDS))


def test_what_is_finished_is_not_computed_again(finished) -> None:
    directory, rows = finished
    computed: list[str] = []
    assert study(directory, finished=computed.append) == rows
    assert computed == []


def test_the_same_seed_gives_the_same_figures_and_another_others() -> None:
    one, again, other = (
        train_questions(SHAPE, QuestionBudget(2, 4, examples=20, held_out=20), s)[1] for s in (1, 1, 2)
    )
    for result in (one, again, other):
        result.pop("processor_seconds")
    assert one == again
    assert one["curve"] != other["curve"]


def test_the_table_has_a_line_for_each_network(finished) -> None:
    lines = questions_text(finished[1]).splitlines()
    assert [line.split()[0] for line in lines[-1 - len(NETWORKS) : -1]] == list(NETWORKS)
    assert lines[-1] == "Shares of 20 held-out questions answered rightly; 2 steps, 2 seeds; 95 % intervals."


@pytest.mark.slow
def test_a_word_of_each_question_has_a_map(finished, tmp_path: Path) -> None:
    draw_relevance(finished[1], tmp_path / "relevance.png", SHAPE.pixels)
    with Image.open(tmp_path / "relevance.png") as picture:
        assert picture.height > picture.width > 500
        assert len(set(picture.convert("L").tobytes())) > 50


def test_a_study_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a study needs a seed at least, got 0"):
        study(tmp_path, seeds=0)
    with pytest.raises(DataError, match="steps, batch, warmup, examples, held_out and rate must be positive"):
        study(tmp_path, steps=0)
