"""The study of networks that translate: a file a run, a table, a CSV, and alignments drawn."""

import csv
from pathlib import Path

import pytest
from PIL import Image

from diptych_studies.learning.translation import TASKS
from diptych_studies.networks.translation import KINDS, TranslationConfig
from diptych_studies.papers.translation import COLUMNS, draw_alignments, study_translation, translation_text
from diptych_training.errors import DataError

SHAPE = TranslationConfig(words=4, longest=5, width=8, heads=2, blocks=1)


def study(directory: Path, **changes) -> list[dict]:
    return study_translation(directory, **{"steps": 2, "seeds": 2, "shape": SHAPE, "processes": 0} | changes)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict]]:
    directory = tmp_path_factory.mktemp("study")
    return directory, study(directory)


def test_every_network_has_a_run_for_each_task_and_seed_and_a_line_of_the_csv(finished) -> None:
    directory, rows = finished
    assert [(row["task"], row["network"], row["seed"]) for row in rows] == [
        (task, kind, seed) for task in TASKS for kind in KINDS for seed in (0, 1)
    ]
    with (directory / "translation.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert tuple(written[0]) == COLUMNS
    assert [line["curve"].split() for line in written] == [[str(loss) for loss in row["curve"]] for row in rows]


def test_what_is_finished_is_not_computed_again(finished) -> None:
    directory, rows = finished
    computed: list[str] = []
    assert study(directory, finished=computed.append) == rows
    assert computed == []


def test_the_table_has_a_line_for_each_task_and_network(finished) -> None:
    lines = translation_text(finished[1]).splitlines()
    assert sum(line.split()[0] in TASKS for line in lines) == len(TASKS) * len(KINDS)
    assert "2 steps, 2 seeds" in lines[-1]


def test_alignments_are_drawn_a_map_for_each_task_and_network(finished, tmp_path: Path) -> None:
    draw_alignments(finished[1], tmp_path / "alignments.png")
    with Image.open(tmp_path / "alignments.png") as picture:
        assert picture.width > 600
        assert len(set(picture.convert("L").tobytes())) > 10


def test_a_study_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="needs a task, a network and a seed"):
        study(tmp_path, seeds=0)
