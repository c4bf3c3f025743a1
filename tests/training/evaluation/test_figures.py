"""One list of rows whichever the protocol and wherever it keeps its intervals."""

import pytest

from diptych_training.evaluation.figures import FIGURES, Figure, counts, gains, rows

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
    first, ours = rows("copies", copies | BESIDE)
    assert (first.name, ours.name) == ("first stage", "re-ranked, first 7")
    assert ours.figures["micro_ap"] == Figure(0.4, 0.35, 0.45)
    assert first.figures["recall@1"] == Figure(0.2, 0.1, 0.3)
    oneshot = {"accuracy": 0.9, "interval": [0.8, 0.95], "first_stage": {"accuracy": 0.6, "interval": [0.5, 0.7]}}
    first, ours = rows("oneshot", oneshot | BESIDE)
    assert (first.figures["accuracy"], ours.figures["accuracy"]) == (Figure(0.6, 0.5, 0.7), Figure(0.9, 0.8, 0.95))


def test_gains_are_named_by_what_they_are_over() -> None:
    result = {"gain": [0.3, 0.2, 0.4], "controls": {"phash": {"gain": [0.5, 0.4, 0.6]}}, "against": {}}
    found = gains("episodes", result)
    assert [row.name for row in found] == ["gain by looking at both", "gain over phash"]
    assert found[1].figures == {"accuracy": Figure(0.5, 0.4, 0.6)}


@pytest.mark.parametrize("protocol", FIGURES)
def test_every_protocol_has_figures(protocol: str) -> None:
    assert FIGURES[protocol]


def test_counts_are_told_in_words_and_queries_that_do_not_count_only_where_there_are_some() -> None:
    assert counts({"queries": 1500, "references": 3, "queries_without_match": 0}) == ["1,500 queries", "3 references"]
    assert counts({"queries": 1, "matches": 1, "gallery": 1}) == ["1 query", "1 gallery", "1 match"]
    assert "2 queries without a match in the gallery, which do not count" in counts({"queries_without_match": 2})
