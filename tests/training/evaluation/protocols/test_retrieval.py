"""The retrieval protocol: classes, the query's own file, and the contract of the JSON."""

import json
from pathlib import Path

import numpy as np
import pytest

from diptych.cli.main import main
from diptych_training.errors import DataError
from diptych_training.evaluation.protocols.retrieval import (
    Labelled,
    average_precision,
    evaluate_retrieval,
    read_labelled,
)
from diptych_training.evaluation.stages import Entrants


def table(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.write_text("path,class,note\n" + "".join(f"{name},{label},x\n" for name, label in rows))
    return path


def labelled(photos: Path, *classes: str, start: int = 0) -> Labelled:
    return Labelled(tuple(photos / f"{start + i:02d}.jpg" for i in range(len(classes))), classes)


def test_average_precision_of_a_hand_counted_ranking() -> None:
    # Matches at places 1, 3 and 6 of the ranking.
    assert average_precision(np.array([0, 2, 5])) == pytest.approx((1 + 2 / 3 + 3 / 6) / 3)
    assert average_precision(np.empty(0)) == 0


def test_the_json_has_the_keys_of_the_contract(photos: Path, artifact: Path, tmp_path: Path, capsys) -> None:
    queries = table(tmp_path / "q.csv", [(f"{i:02d}.jpg", "ab"[i % 2]) for i in range(4)])
    gallery = table(tmp_path / "g.csv", [(f"{i:02d}.jpg", "ab"[i % 2]) for i in range(4, 14)])
    line = ["evaluate", "retrieval", "--queries", str(queries), "--gallery", str(gallery), "--root", str(photos)]
    assert main([*line, "--model", str(artifact), "--json", "--candidates", "3"]) == 0
    result = json.loads(capsys.readouterr().out)
    keys = {"recall@1", "recall@10", "recall@100", "map"}
    assert set(result["first_stage"]) == set(result["reranked"]) == set(result["gain"]) == keys
    assert (result["queries"], result["gallery"], result["classes"], result["candidates"]) == (4, 10, 2, 3)
    for key in keys:
        value, low, high = result["gain"][key]
        assert value == pytest.approx(result["reranked"][key] - result["first_stage"][key])
        assert low <= value <= high
    assert result["reranked"]["recall@10"] == result["reranked"]["recall@100"] == 1


def test_the_very_same_file_is_neither_match_nor_rival(entrants: Entrants, photos: Path) -> None:
    # Each class has two photos, one of them the query: with itself in the gallery the first place would be its own.
    everything = labelled(photos, *"aabbccddeeffgg")
    evidence = evaluate_retrieval(entrants, everything, everything, photos)
    assert evidence.result["queries"] == 14
    assert evidence.result["first_stage"]["recall@1"] < 1
    assert evidence.series[0].ranking.scores.shape == (14, 13)
    assert evidence.labels.sum() == 14
    assert not any(pair.picture_a == pair.picture_b for pair in (*evidence.missed, *evidence.mistaken))


def test_map_is_over_the_whole_ranking_though_few_are_looked_at(entrants: Entrants, photos: Path) -> None:
    queries, gallery = labelled(photos, "a"), labelled(photos, *"bbbbaabbab", start=1)
    few, none = (evaluate_retrieval(entrants, queries, gallery, photos, candidates=k).result for k in (10, 1))
    assert none["first_stage"] == none["reranked"] == few["first_stage"]
    assert none["gain"]["map"] == [0, 0, 0]
    assert none["first_stage"]["map"] > 0


def test_recall_of_both_stages_is_that_of_their_best_placed_match(entrants: Entrants, photos: Path) -> None:
    # Several right answers to each query: the one that leads after re-ranking need not be the one that led before.
    queries, gallery = labelled(photos, *"abcd"), labelled(photos, *"abcdabcdab", start=4)
    evidence = evaluate_retrieval(entrants, queries, gallery, photos)
    for series, stage in zip(evidence.series, ("first_stage", "reranked"), strict=True):
        ranks = series.ranking.ranks
        assert evidence.result[stage]["recall@1"] == (ranks == 0).mean()
        assert evidence.result[stage]["recall@10"] == (ranks < 10).mean()
    first, reranked = (series.ranking.relevant for series in evidence.series)
    assert (first[:, 0] != reranked[:, 0]).any()


def test_queries_without_a_match_do_not_count_and_are_counted(entrants: Entrants, photos: Path) -> None:
    gallery = labelled(photos, *"abab", start=4)
    result = evaluate_retrieval(entrants, labelled(photos, *"abxy"), gallery, photos).result
    alone = evaluate_retrieval(entrants, labelled(photos, *"ab"), gallery, photos).result
    assert (result["queries"], result["queries_without_match"]) == (2, 2)
    assert result["reranked"] == alone["reranked"]
    with pytest.raises(DataError, match=r"no query has a picture of its class in the gallery: .* 'x', the gallery"):
        evaluate_retrieval(entrants, labelled(photos, "x"), gallery, photos)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,label\na,b\n", "needs the columns path, class; it has path, label"),
        ("path,class\n", "has no rows"),
        ("path,class\n00.jpg,\n", "1 rows without a path or a class, such as that of '00.jpg'"),
        ("path,class\n00.jpg,a\n00.jpg,b\n", "gives '00.jpg' two classes, 'a' and 'b'"),
        ("path,class\n00.jpg,a\ngone.jpg,a\n", r"1 of 2 pictures of t.csv are not there: \S*gone.jpg; .* --root"),
    ],
)
def test_tables_that_cannot_be_used_are_refused(text: str, message: str, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        read_labelled(tmp_path / "t.csv", photos)


def test_a_row_that_comes_twice_counts_once(photos: Path, tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", [("00.jpg", "a"), ("01.jpg", "b"), ("00.jpg", "a")])
    assert read_labelled(path, photos) == labelled(photos, "a", "b")
