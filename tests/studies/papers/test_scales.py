"""The comparison of scales: equal parameters, resumed by file, intervals that are what they are called."""

import json
from pathlib import Path

import pytest

from diptych_studies.data.text import read_text
from diptych_studies.networks.language_model import LanguageConfig
from diptych_studies.papers.scales import SCALE_SETS, compare_scales, language_text, study_language, train_from
from diptych_training.errors import DataError

PATTERN = b"the quick red fox jumps over the lazy brown dog. "
SHAPE = LanguageConfig(context=16, width=12, blocks=1, expansion=6.0)


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "book.txt"
    path.write_bytes(PATTERN * 900)
    return path


def study(directory: Path, book: Path | None, **changed) -> dict:
    return study_language(
        directory, book, **{"steps": 2, "seeds": 2, "rates": (0.01,), "config": SHAPE, "processes": 0} | changed
    )


@pytest.fixture(scope="module")
def finished(book: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    directory = tmp_path_factory.mktemp("study") / "whole"
    return directory, study(directory, book)


def test_every_scale_set_has_a_row_at_equal_parameters(finished: tuple[Path, dict]) -> None:
    directory, result = finished
    assert [tuple(row["windows"]) for row in result["rows"]] == list(SCALE_SETS)
    parameters = [row["parameters"] for row in result["rows"]]
    assert max(parameters) / min(parameters) < 1.05
    assert [row["expansion"] for row in result["rows"]] == sorted(
        (r["expansion"] for r in result["rows"]), reverse=True
    )
    assert len(list(directory.glob("windows-*.json"))) == 6
    assert json.loads((directory / "comparison-causal.json").read_text()) == result


def test_words_are_compared_as_bytes_are_and_lie_beside_them(book: Path, tmp_path: Path) -> None:
    result = study(tmp_path, book, words=8, seeds=1)
    assert [row["bits_per_word"] > 0 for row in result["rows"]] == [True] * 3
    assert result["words"] == 8
    # Of ten words in a row the vocabulary has seven and the mark: two of eleven are unknown, or three.
    assert 0.15 < result["unknown"] < 0.35
    assert (tmp_path / "comparison-words-causal.json").exists()
    assert (tmp_path / "words-windows-1-causal-rate-0.01-seed-0.json").exists()
    text = language_text(result)
    assert "bits/word" in text
    assert "8 words" in text


def test_what_is_finished_is_read_and_what_is_missing_computed_to_the_same_numbers(
    finished: tuple[Path, dict], book: Path, tmp_path: Path
) -> None:
    directory, result = finished
    for path in directory.glob("windows-*.json"):
        if path.name != "windows-1-2-causal-rate-0.01-seed-1.json":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    marked = tmp_path / "windows-1-causal-rate-0.01-seed-0.json"
    kept = json.loads(marked.read_text())
    kept["result"]["parameters"] = 7
    marked.write_text(json.dumps(kept))
    computed: list[str] = []
    again = study(tmp_path, book, finished=computed.append)
    assert computed == ["windows-1-2-causal-rate-0.01-seed-1"]
    assert again["rows"][0] == result["rows"][0] | {"parameters": 7}
    assert again["rows"][1:] == result["rows"][1:]


def test_results_of_other_settings_are_refused_and_those_of_another_objective_stand_beside(
    finished: tuple[Path, dict], book: Path, tmp_path: Path
) -> None:
    directory, result = finished
    for path in directory.glob("windows-*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(
        DataError, match=r"windows-1-causal-rate-0.01-seed-0.json was made with other settings \(budget differ\)"
    ):
        study(tmp_path, book, steps=3)
    study(tmp_path, book, objective="masked", seeds=1)
    assert (study(tmp_path, book)["rows"]) == (result["rows"])


def test_a_text_that_changes_while_it_is_studied_is_refused(book: Path) -> None:
    with pytest.raises(DataError, match="has changed since the comparison began"):
        train_from([1], 0, SHAPE.to_dict(), {}, str(book), "another digest")


@pytest.mark.slow
@pytest.mark.slow
def test_processes_give_the_numbers_of_one(finished: tuple[Path, dict], book: Path, tmp_path: Path) -> None:
    _, result = finished
    assert study(tmp_path, book, processes=2)["rows"] == result["rows"]


def run_of(
    widths: tuple[int, ...], seed: int, blocks: list[float], *, rate: float = 0.01, learning: float = 1.0
) -> dict:
    mean = sum(blocks) / len(blocks)
    return {
        "widths": list(widths),
        "seed": seed,
        "rate": rate,
        "learning": [9.0, learning],
        "expansion": 4.0,
        "parameters": 7,
        "bits_per_byte": mean,
        "blocks": blocks,
        "seconds_per_step": 0.5,
    }


def test_intervals_over_seeds_are_students_and_gains_are_paired_by_seed_and_by_block() -> None:
    # The second set is better by 0.1 on every block of every seed, though seeds and blocks themselves differ widely.
    blocks = {seed: [2.0 + seed + block / 7 for block in range(11)] for seed in range(3)}
    runs = [run_of((1,), seed, blocks[seed]) for seed in blocks]
    runs += [run_of((1, 2), seed, [bits - 0.1 for bits in blocks[seed]]) for seed in blocks]
    first, second = compare_scales(runs)
    mean = sum(first["by_seed"]) / 3
    reach = 4.302653 * 1.0 / 3**0.5
    assert first["over_seeds"] == pytest.approx([mean - reach, mean + reach], rel=1e-3)
    low, high = first["over_blocks"]
    assert low < first["bits_per_byte"] - 0.1 < first["bits_per_byte"] + 0.1 < high
    assert first["gain"] is None
    gain = second["gain"]
    assert [gain["bits_per_byte"], *gain["over_seeds"], *gain["over_blocks"]] == pytest.approx([0.1] * 5)


def test_a_set_stands_with_the_rate_that_learnt_best_and_the_held_out_text_is_not_asked() -> None:
    learnt = {0.01: (1.0, 1.4), 0.02: (1.3, 1.0), 0.03: (0.9, 1.6)}
    runs = [
        run_of((1,), seed, [bits, bits + 1], rate=rate, learning=learning)
        for (rate, both), bits in zip(learnt.items(), (2.0, 3.0, 1.0), strict=True)
        for seed, learning in enumerate(both)
    ]
    (row,) = compare_scales(runs)
    assert (row["rate"], row["by_seed"]) == (0.02, [3.5, 3.5])
    assert row["last_training_bits_by_rate"] == pytest.approx({"0.01": 1.2, "0.02": 1.15, "0.03": 1.25})


def test_one_seed_has_no_interval_over_seeds_and_many_nearly_the_normal_one() -> None:
    (row,) = compare_scales([run_of((1,), 0, [1.0, 2.0, 3.0])])
    assert row["over_seeds"] is None
    (row,) = compare_scales([run_of((1,), seed, [float(seed % 2)] * 2) for seed in range(40)])
    reach = 2.0227 * (0.25 * 40 / 39) ** 0.5 / 40**0.5
    assert row["over_seeds"] == pytest.approx([0.5 - reach, 0.5 + reach], rel=1e-3)


def test_the_table_names_every_row_and_how_it_was_measured(finished: tuple[Path, dict], book: Path) -> None:
    _, result = finished
    text, read = language_text(result), read_text(book)
    lines = text.splitlines()
    assert [line.split("  ")[0] for line in lines[1:4]] == ["1x1", "1x1, 1x2", "1x1, 1x2, 1x3"]
    assert f"{result['rows'][1]['gain']['bits_per_byte']:+.3f}" in lines[2]
    assert f"{len(read.train)} bytes to learn from, {len(read.held_out)} held out by block; bits a byte" in text
    assert "2 steps of 8 windows, 2 seeds" in text
    assert "bits a hidden byte (15% hidden)" in language_text(result | {"objective": "masked"})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seeds": 0}, "got .* 1 rates, 0 seeds"),
        ({"rates": ()}, "0 rates, 2 seeds"),
        ({"scale_sets": ((1,), (1,))}, "different scale sets"),
        ({"config": LanguageConfig(width=16)}, "the width must be a multiple of the 6 heads .* got 16"),
    ],
)
def test_a_comparison_that_says_nothing_is_refused(tmp_path: Path, book: Path, changed: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        study(tmp_path, book, **changed)
