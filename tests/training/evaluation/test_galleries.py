"""Searching a gallery, by both protocols: what is ranked, what is left out, what re-ranking may move."""

import copy
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from diptych.cli.main import main
from diptych_runtime.calibration.evidence import NUMBERS, Verification
from diptych_runtime.closer_look import verification
from diptych_runtime.runtime import Runtime
from diptych_training import looks
from diptych_training.errors import DataError
from diptych_training.evaluation import galleries
from diptych_training.evaluation.galleries import (
    Found,
    Labelled,
    Search,
    average_precision,
    evaluate_copies,
    evaluate_retrieval,
    measure_search,
    read_labelled,
    read_truth,
    resample_queries,
)
from diptych_training.evaluation.stages import Entrants, Estimate
from diptych_training.metrics import Ranking

NONE = np.empty(0, np.int64)


def search(photos: Path, candidates: int = 5, left_out: bool = False) -> Search:
    """All photos as queries among themselves; each matches itself, or where it is left out the next."""
    side = [photos / f"{i:02d}.jpg" for i in range(14)]
    own = [np.array([i]) for i in range(14)]
    following = [np.array([(i + 1) % 14]) for i in range(14)]
    return Search(side, side, following if left_out else own, own if left_out else [NONE] * 14, candidates)


def nothing(found: Found, ranking: Ranking) -> dict[str, Estimate]:
    return {}


def kept(entrants: Entrants, given: Search) -> list[Found]:
    """The rankings that `measure` asks figures of, in its order."""
    seen: list[Found] = []

    def figures(found: Found, ranking: Ranking) -> dict[str, Estimate]:
        seen.append(found)
        return {}

    measure_search(entrants, given, figures)
    return seen


def test_re_ranking_permutes_the_candidates_by_the_pair_score_and_leaves_the_rest_untouched(
    entrants: Entrants, photos: Path
) -> None:
    first, after = kept(entrants, search(photos))
    assert (np.diff(first.scores) <= 0).all()
    assert (np.diff(after.scores) <= 0).all()
    assert np.array_equal(np.sort(first.order), np.sort(after.order))
    assert not np.array_equal(first.order, after.order)
    assert first.order[:, 0].tolist() == list(range(14))


def test_places_follow_the_candidates_and_stay_behind_them() -> None:
    found = Found(np.array([[7, 3, 5]]), np.array([[0.9, 0.8, 0.7]]), np.array([[0, 2, 1]]), (np.array([0, 2, 3, 9]),))
    after = found.permute_candidates(np.array([[1.0, 2.0, 3.0]]))
    assert after.order.tolist() == [[5, 3, 7]]
    assert after.places[0].tolist() == [0, 2, 3, 9]


def test_a_tie_is_not_won(entrants: Entrants, photos: Path) -> None:
    # Four files in a gallery of 29, each of which is the query's very picture; only one of them is said to be right.
    files = [photos / f"{i:02d}.jpg" for i in range(14)]
    for twin in (0, 7, 14, 28):
        gallery = [*files[:7], files[0], *files[8:], files[0], *files[1:], files[0]]
        given = Search(files[:1], gallery, [np.array([twin])], [NONE], 6)
        for found in kept(entrants, given):
            assert sorted(found.order[0, :4]) == [0, 7, 14, 28]
            assert len(set(found.scores[0, :4])) == 1
            assert found.order[0, 3] == twin
            assert found.places[0].tolist() == [3]


def test_places_are_those_of_the_whole_ranking(entrants: Entrants, photos: Path) -> None:
    (first, _), (whole, _) = (kept(entrants, search(photos, k, left_out=True)) for k in (2, 14))
    for query in range(14):
        assert first.places[query] == np.flatnonzero(whole.order[query] == (query + 1) % 14)
    assert max(int(places[0]) for places in first.places) >= 2


def test_the_scored_pairs_are_every_query_with_its_candidates(entrants: Entrants, photos: Path) -> None:
    given = search(photos)
    measured = measure_search(entrants, given, nothing)
    (first, after), scored = kept(entrants, given), measured.scored
    assert np.array_equal(scored.labels.reshape(14, 5), first.order == np.arange(14)[:, None])
    assert np.array_equal(scored.logits.reshape(14, 5).max(1), after.scores[:, 0])
    assert resample_queries(given).count == 14
    # This model takes no closer look.
    assert measured.alone is scored.shown is None
    assert measured.closer_look() == {}


@pytest.fixture
def looking(runtime: Runtime) -> Runtime:
    """The runtime, whose model takes a closer look at every pair."""
    weights = dict.fromkeys(NUMBERS, 0.0) | {"bias": -4.0, "registered": 4.0, "aligned_odds": 1.0}
    look = Verification(1e-9, weights, {"0.01": 0.5, "0.001": 0.9})
    view = copy.copy(runtime)
    questions = {name: replace(one, verification=look) for name, one in runtime.manifest.questions.items()}
    view.manifest = replace(runtime.manifest, questions=questions)
    view._set_question(next(iter(questions)))
    return view


def test_what_is_re_ranked_is_what_a_search_answers_after_its_closer_looks(looking: Runtime, photos: Path) -> None:
    measured = measure_search(Entrants(looking), search(photos), nothing)
    order = measured.comparison.ours.reranked
    assert measured.scored.shown is not None
    assert measured.alone is not None
    # A photo agrees with itself and with no other: by the network alone it need not come first.
    assert order.ranking.relevant[:, 0].all()
    shown, labels = measured.scored.shown, measured.scored.labels
    assert shown[labels].min() > 0.9 > 0.5 > shown[~labels].max()
    assert sorted(shown.tolist()) == sorted(order.ranking.scores.ravel().tolist())
    assert list(measured.closer_look()["closer_look"]) == ["without", "interval", "gain"]


def test_no_query_gets_more_closer_looks_than_a_search_takes(
    looking: Runtime, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(galleries, "CLOSER_LOOKS", 2)
    seen: list[int] = []
    whole = verification.verify
    monkeypatch.setattr(looks, "verify", lambda a, b: (seen.append(1), whole(a, b))[1])
    measure_search(Entrants(looking), search(photos), nothing)
    assert len(seen) == 2 * 14


def test_at_least_one_candidate_is_needed(photos: Path) -> None:
    with pytest.raises(DataError, match="at least one candidate must be looked at, got --candidates 0"):
        _ = search(photos, 0).depth
    alone = [photos / "00.jpg"]
    with pytest.raises(DataError, match="no picture but the query itself"):
        _ = Search(alone, alone, [NONE], [np.array([0])], 5).depth


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory, photos: Path) -> Path:
    folder = tmp_path_factory.mktemp("copies") / "queries"
    assert main(["edit", str(photos), "-o", str(folder), "--count", "9", "--quiet"]) == 0
    return folder


def command(photos: Path, queries: Path, artifact: Path, *more: str) -> list[str]:
    folders = ["--references", str(photos), "--queries", str(queries), "--truth", str(queries / "truth.csv")]
    return ["evaluate", "copies", *folders, "--model", str(artifact), *more]


def test_the_json_has_the_keys_of_the_contract_and_figures_in_range(
    photos: Path, queries: Path, artifact: Path, capsys
) -> None:
    assert main(command(photos, queries, artifact, "--json", "--candidates", "5")) == 0
    result = json.loads(capsys.readouterr().out)
    keys = ("micro_ap", "recall_at_p90", "recall@1", "recall@100")
    for measured in (result, result["first_stage"]):
        assert all(0 <= measured[key] <= 1 for key in keys)
    for key in keys:
        value, low, high = result["gain"][key]
        assert low <= value <= high
        assert value == pytest.approx(result[key] - result["first_stage"][key])
        for measured, intervals in ((result, "interval"), (result["first_stage"], "first_stage")):
            reach = result["interval"] if intervals == "interval" else result["interval"]["first_stage"]
            assert reach[key][0] <= measured[key] <= reach[key][1]
    assert 0 <= result["calibration"]["ece"] <= 1
    assert set(result["calibration"]["thresholds"]) == {"0.01", "0.001", "0.0001"}
    assert (result["queries"], result["references"], result["candidates"]) == (9, 14, 5)


def test_recall_at_100_looks_at_the_whole_ranking_and_not_at_the_candidates_alone(
    entrants: Entrants, photos: Path
) -> None:
    truth = [(f"{i:02d}.jpg", f"{13 - i:02d}.jpg") for i in range(14)]
    first = evaluate_copies(entrants, photos, photos, truth, candidates=1).result["first_stage"]
    assert (first["recall@1"], first["recall@100"]) == (0, 1)


def test_copies_are_asked_for_and_other_questions_on_request(
    photos: Path, queries: Path, artifact_of_two: Path, artifact: Path, capsys
) -> None:
    found = {}
    for model, more in ((artifact_of_two, ()), (artifact_of_two, ("--question", "thing")), (artifact, ())):
        assert main(command(photos, queries, model, "--json", "--candidates", "5", *more)) == 0
        result = json.loads(capsys.readouterr().out)
        found[result["question"]] = result
    assert list(found) == ["copy", "thing", "match"]
    assert found["copy"]["first_stage"] != found["thing"]["first_stage"], "each weighs its own part of the embedding"
    assert set(found["copy"]["calibration"]["thresholds"]) == {"0.01", "0.001"}
    assert found["copy"]["calibration"]["thresholds"]["0.01"]["threshold"] == 0.6
    assert found["thing"]["calibration"]["thresholds"]["0.01"]["threshold"] == 0.8


def test_a_query_of_several_references_has_as_many_matches_to_find(entrants: Entrants, photos: Path) -> None:
    truth = [("00.jpg", "00.jpg"), ("00.jpg", "01.jpg")]
    found = [evaluate_copies(entrants, photos, photos, truth, candidates=k).result for k in (1, 14)]
    assert found[0]["micro_ap"] == 0.5
    assert found[0]["calibration"] == {}
    assert 0.5 < found[1]["first_stage"]["micro_ap"] <= 1


def test_a_distractor_query_has_no_match_and_can_only_cost_precision(entrants: Entrants, photos: Path) -> None:
    truth = [("00.jpg", "00.jpg"), ("01.jpg", "")]
    result = evaluate_copies(entrants, photos, photos, truth, candidates=3).result
    alone = evaluate_copies(entrants, photos, photos, truth[:1], candidates=3).result
    assert result["first_stage"]["recall@1"] == 1
    assert (result["queries"], result["distractors"]) == (2, 1)
    assert result["first_stage"]["micro_ap"] < alone["first_stage"]["micro_ap"] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "needs the columns query, reference; it has a, b"),
        ("query,reference\n1.jpg,\n", "names no reference"),
    ],
)
def test_a_truth_that_cannot_be_used_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "truth.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_truth(path)


def test_pictures_that_are_not_there_are_named(entrants: Entrants, photos: Path) -> None:
    with pytest.raises(DataError, match=r"the reference 'gone\.jpg', which is not among the 14"):
        evaluate_copies(entrants, photos, photos, [("00.jpg", "gone.jpg")])
    with pytest.raises(DataError, match=r"1 of 2 queries are not there: \S*lost\.jpg; the truth's paths are relative"):
        evaluate_copies(entrants, photos, photos, [("00.jpg", "00.jpg"), ("lost.jpg", "")])


def table(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.write_text("path,class,note\n" + "".join(f"{name},{label},x\n" for name, label in rows))
    return path


def labelled(photos: Path, *classes: str, start: int = 0) -> Labelled:
    return Labelled(tuple(photos / f"{start + i:02d}.jpg" for i in range(len(classes))), classes)


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
    evidence = evaluate_retrieval(entrants, everything, everything)
    assert evidence.result["queries"] == 14
    assert evidence.result["first_stage"]["recall@1"] < 1
    assert evidence.result["candidates"] == 13
    assert evidence.result["calibration"]["matches"] == 14


def test_map_is_over_the_whole_ranking_though_few_are_looked_at(entrants: Entrants, photos: Path) -> None:
    queries, gallery = labelled(photos, "a"), labelled(photos, *"bbbbaabbab", start=1)
    few, none = (evaluate_retrieval(entrants, queries, gallery, candidates=k).result for k in (10, 1))
    assert none["first_stage"] == none["reranked"] == few["first_stage"]
    assert none["gain"]["map"] == [0, 0, 0]
    assert none["first_stage"]["map"] > 0
    # Matches at places 1, 3 and 6 of the ranking.
    assert average_precision(np.array([0, 2, 5])) == pytest.approx((1 + 2 / 3 + 3 / 6) / 3)


def test_queries_without_a_match_do_not_count_and_are_counted(entrants: Entrants, photos: Path) -> None:
    gallery = labelled(photos, *"abab", start=4)
    result = evaluate_retrieval(entrants, labelled(photos, *"abxy"), gallery).result
    alone = evaluate_retrieval(entrants, labelled(photos, *"ab"), gallery).result
    assert (result["queries"], result["queries_without_match"]) == (2, 2)
    assert result["reranked"] == alone["reranked"]
    with pytest.raises(DataError, match=r"no query has a picture of its class in the gallery: .* 'x', the gallery"):
        evaluate_retrieval(entrants, labelled(photos, "x"), gallery)


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
