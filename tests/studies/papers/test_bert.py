"""The study of a small BERT: a file and a line a run, and a table."""

import csv
from pathlib import Path

import pytest

from diptych_studies.networks.bert import BertConfig
from diptych_studies.papers.bert import COLUMNS, VARIANTS, bert_text, study_bert
from diptych_training.errors import DataError

SHAPE = BertConfig(12, span=4, width=12, blocks=1)


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "book.txt"
    path.write_bytes(b"the quick red fox jumps over the lazy brown dog. " * 1000)
    return path


def study(directory: Path, book: Path, **changes) -> list[dict]:
    return study_bert(directory, book, **{"steps": 2, "seeds": 2, "shape": SHAPE, "processes": 0} | changes)


@pytest.fixture(scope="module")
def finished(book: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict]]:
    directory = tmp_path_factory.mktemp("study")
    return directory, study(directory, book)


def test_every_variant_has_a_run_for_each_seed_and_a_line_of_the_csv(finished) -> None:
    directory, rows = finished
    assert [(row["network"], row["seed"]) for row in rows] == [(name, seed) for name in VARIANTS for seed in (0, 1)]
    with (directory / "bert.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert tuple(written[0]) == COLUMNS
    assert [line["words_curve"].split() for line in written] == [[str(p[0]) for p in row["curve"]] for row in rows]
    # Nothing but the two embeddings of segments is left out.
    told, untold = (rows[list(VARIANTS).index(name) * 2] for name in list(VARIANTS)[1:])
    assert told["parameters"] - untold["parameters"] == 2 * SHAPE.width


def test_what_is_finished_is_not_computed_again(finished, book: Path) -> None:
    directory, rows = finished
    computed: list[str] = []
    assert study(directory, book, finished=computed.append) == rows
    assert computed == []


def test_the_table_has_a_line_for_each_variant(finished) -> None:
    lines = bert_text(finished[1]).splitlines()
    assert sum(line.startswith("windows ") for line in lines) == len(VARIANTS)
    assert "2 steps of 16 pairs" in lines[-1]


def test_a_study_without_seeds_is_refused(book: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="needs a seed, got 0"):
        study(tmp_path, book, seeds=0)
