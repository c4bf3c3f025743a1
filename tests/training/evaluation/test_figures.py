"""One list of rows whichever the protocol, and the table of them for people."""

from pathlib import Path

import numpy as np
import pytest

from diptych_training.evaluation.figures import Figure, format_figures, list_counts, list_gains, list_rows
from diptych_training.evaluation.galleries import Labelled, evaluate_copies, evaluate_retrieval
from diptych_training.evaluation.stages import Entrants, Evidence
from diptych_training.evaluation.trials import Trials, evaluate_episodes, evaluate_pairs, open_drawings

BESIDE = {"controls": {}, "against": {}}


def test_intervals_are_found_below_the_name_of_the_stage_or_in_the_stage() -> None:
    copies = {
        "recall@1": 0.5, "micro_ap": 0.4, "recall_at_p90": 0.3,
        "first_stage": {"recall@1": 0.2, "micro_ap": 0.1, "recall_at_p90": 0.0},
        "interval": {
            "recall@1": [0.45, 0.55], "micro_ap": [0.35, 0.45], "recall_at_p90": [0.2, 0.4],
            "first_stage": {"recall@1": [0.1, 0.3], "micro_ap": [0.0, 0.2], "recall_at_p90": [0.0, 0.1]},
        },
        "gain": {}, "candidates": 7,
    }  # fmt: skip
    first, ours = list_rows("copies", copies | BESIDE)
    assert (first.name, ours.name) == ("first stage", "re-ranked, first 7")
    assert ours.figures["micro_ap"] == Figure(0.4, 0.35, 0.45)
    assert first.figures["recall@1"] == Figure(0.2, 0.1, 0.3)
    oneshot = {"accuracy": 0.9, "interval": [0.8, 0.95], "first_stage": {"accuracy": 0.6, "interval": [0.5, 0.7]}}
    first, ours = list_rows("oneshot", oneshot | BESIDE)
    assert (first.figures["accuracy"], ours.figures["accuracy"]) == (Figure(0.6, 0.5, 0.7), Figure(0.9, 0.8, 0.95))


def test_gains_are_named_by_what_they_are_over() -> None:
    result = {"gain": [0.3, 0.2, 0.4], "controls": {"phash": {"gain": [0.5, 0.4, 0.6]}}, "against": {}}
    found = list_gains("episodes", result)
    assert [row.name for row in found] == ["gain by looking at both", "gain over phash"]
    assert found[1].figures == {"accuracy": Figure(0.5, 0.4, 0.6)}


def test_counts_are_told_in_words_and_queries_that_do_not_count_only_where_there_are_some() -> None:
    assert list_counts({"queries": 1500, "references": 3, "queries_without_match": 0}) == [
        "1,500 queries",
        "3 references",
    ]
    assert list_counts({"queries": 1, "matches": 1, "gallery": 1}) == ["1 query", "1 gallery", "1 match"]
    assert "2 queries without a match in the gallery, which do not count" in list_counts({"queries_without_match": 2})


@pytest.fixture
def everyone(entrants: Entrants, colour) -> Entrants:
    return Entrants(entrants.model, {"other": entrants.model}, [colour()])


def copies(everyone: Entrants, photos: Path, omniglot: Path) -> Evidence:
    names = [f"{i:02d}.jpg" for i in range(14)]
    return evaluate_copies(everyone, photos, photos, [(name, name) for name in names], candidates=5)


def retrieval(everyone: Entrants, photos: Path, omniglot: Path) -> Evidence:
    files = [photos / f"{i:02d}.jpg" for i in range(14)]
    queries, gallery = Labelled(tuple(files[:4]), tuple("abax")), Labelled(tuple(files[4:]), tuple("ab" * 5))
    return evaluate_retrieval(everyone, queries, gallery, photos, candidates=5)


def pairs(everyone: Entrants, photos: Path, omniglot: Path) -> Evidence:
    files = tuple(photos / f"{i:02d}.jpg" for i in range(14))
    rows = np.array([[i, i if i % 2 else i + 1] for i in range(13)])
    labels = (rows[:, 0] == rows[:, 1])[:, None]
    return evaluate_pairs(everyone, Trials(files, photos, rows[:, 0], rows[:, 1:], labels))


def episodes(everyone: Entrants, photos: Path, omniglot: Path) -> Evidence:
    with open_drawings(omniglot / "omniglot.zip", "validation") as folder:
        return evaluate_episodes(everyone, folder, episodes=3, ways=3)


@pytest.mark.parametrize("protocol", [copies, retrieval, pairs, episodes])
def test_every_method_has_a_row_and_every_other_a_gain(
    protocol, everyone: Entrants, photos: Path, omniglot: Path
) -> None:
    evidence = protocol(everyone, photos, omniglot)
    shown = format_figures(evidence.protocol, evidence.result)
    lines = shown.splitlines()
    names = ("colour", "other, first stage", "other, re-ranked", "first stage", "re-ranked")
    assert all(line.startswith(name) for line, name in zip(lines[1:6], names, strict=True))
    for name in ("by looking at both", "over colour", "over other"):
        assert f"gain {name}, " in shown
    assert f"{evidence.result['resampled']} drawn anew" in shown
    assert "expected calibration error" in shown
    assert "for a false-positive rate of 0.10%: here" in shown
    # The same model is no better than itself at its best.
    assert lines[2].split("  ")[-1].strip() == lines[4].split("  ")[-1].strip()


def test_what_does_not_count_is_said(everyone: Entrants, photos: Path, omniglot: Path) -> None:
    shown = format_figures("retrieval", retrieval(everyone, photos, omniglot).result)
    assert "3 queries" in shown
    assert "1 queries without a match in the gallery, which do not count" in shown


def test_where_a_threshold_is_from_is_said(everyone: Entrants, photos: Path, omniglot: Path) -> None:
    evidence = pairs(everyone, photos, omniglot)
    assert f"threshold {evidence.result['threshold']:.5f}: the model's for 1%" in format_figures(
        "pairs", evidence.result
    )
