"""The comparison of scales: equal parameters, resumed by file, intervals that are what they are called."""

import json
from pathlib import Path

import pytest

from diptych_studies.networks.language_model import LanguageConfig
from diptych_studies.papers.scales import SCALE_SETS, compare_scales, study_language, train_from
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


def test_a_text_that_changes_while_it_is_studied_is_refused(book: Path) -> None:
    with pytest.raises(DataError, match="has changed since the comparison began"):
        train_from([1], 0, SHAPE.to_dict(), {}, str(book), "another digest")


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
