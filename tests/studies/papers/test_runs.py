"""The studies of BERT, of translation and of questions: a file and a line of a CSV a run, a table, and a drawing."""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diptych_studies.data.worlds import KINDS as QUESTIONS
from diptych_studies.learning.questions import QuestionBudget, world_config
from diptych_studies.learning.translation import TASKS
from diptych_studies.networks.bert import BertConfig
from diptych_studies.networks.translation import KINDS, TranslationConfig
from diptych_studies.papers import bert, questions, translation
from diptych_training.errors import DataError

SEEDS = (0, 1)
BERT = BertConfig(12, span=4, width=12, blocks=1)
SEQUENCES = TranslationConfig(words=4, longest=5, width=8, heads=2, blocks=1)
WORLDS = world_config("dot", pixels=12, width=8, blocks=1, heads=2)


@dataclass
class Study:
    """A study at a small size, its table and its CSV, the runs that it is made of, and what it draws."""

    run: Callable[..., list[dict]]
    text: Callable[[list[dict]], str]
    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    names: list[tuple[str, ...]]
    draw: Callable[[list[dict], Path], object] | None = None


STUDIES = {
    "bert": Study(
        partial(bert.study_bert, shape=BERT),
        bert.bert_text,
        "bert.csv",
        bert.COLUMNS,
        ("network",),
        [(name,) for name in bert.VARIANTS],
    ),
    "translation": Study(
        partial(translation.study_translation, shape=SEQUENCES),
        translation.translation_text,
        "translation.csv",
        translation.COLUMNS,
        ("task", "network"),
        [(task, kind) for task in TASKS for kind in KINDS],
        translation.draw_alignments,
    ),
    "questions": Study(
        partial(questions.study_questions, shape=WORLDS, budget=QuestionBudget(batch=4, examples=20, held_out=20)),
        questions.questions_text,
        "questions.csv",
        questions.COLUMNS,
        ("network",),
        [(name,) for name in questions.NETWORKS],
        partial(questions.draw_relevance, pixels=WORLDS.pixels),
    ),
}


@pytest.fixture(scope="module", params=STUDIES)
def finished(request, tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Callable[..., list[dict]], Path]:
    """A study, how it is run again, and the folder in which it was run once."""
    study, folder = STUDIES[request.param], tmp_path_factory.mktemp("study")
    book = tmp_path_factory.mktemp("text") / "book.txt"
    book.write_bytes(b"the quick red fox jumps over the lazy brown dog. " * 1000)
    given = (folder, book) if request.param == "bert" else (folder,)
    run = partial(study.run, *given, steps=2, processes=0)
    run(seeds=len(SEEDS))
    return study, run, folder


def test_every_network_has_a_run_for_each_seed_and_a_line_of_the_csv_and_none_is_computed_twice(
    finished, tmp_path: Path
) -> None:
    study, run, folder = finished
    computed: list[str] = []
    rows = run(seeds=len(SEEDS), finished=computed.append)
    assert computed == []
    found = [(*(row[name] for name in study.key), row["seed"]) for row in rows]
    assert found == [(*name, seed) for name in study.names for seed in SEEDS]
    with (folder / study.table).open(newline="") as file:
        written = list(csv.DictReader(file))
    assert tuple(written[0]) == study.columns
    assert [tuple(line[name] for name in study.key) for line in written] == [row[:-1] for row in found]
    shown = study.text(rows)
    assert all(name[-1] in shown for name in study.names)
    assert "2 steps" in shown
    if study.draw:
        study.draw(rows, tmp_path / "drawn.png")
        with Image.open(tmp_path / "drawn.png") as picture:
            assert picture.width > 500
            assert len(set(picture.convert("L").tobytes())) > 10
    with pytest.raises(DataError, match="seed"):
        run(seeds=0)


def test_segments_cost_two_embeddings_and_a_question_is_right_by_the_mean_of_its_kinds(finished) -> None:
    study, run, folder = finished
    rows = run(seeds=len(SEEDS))
    if study.table == "bert.csv":
        told, untold = (rows[list(bert.VARIANTS).index(name) * 2] for name in list(bert.VARIANTS)[1:])
        assert told["parameters"] - untold["parameters"] == 2 * BERT.width
    if study.table == "questions.csv":
        with (folder / study.table).open(newline="") as file:
            for line in csv.DictReader(file):
                mean = np.mean([float(line[kind]) for kind in QUESTIONS])
                assert float(line["right"]) == pytest.approx(mean, abs=1e-3)
        for row in rows:
            assert len(row["shown"]) == (0 if row["network"] == "blind" else len(QUESTIONS))
