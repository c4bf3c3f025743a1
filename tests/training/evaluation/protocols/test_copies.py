"""The copies protocol through the command line and the runtime that serves."""

import json
from pathlib import Path

import pytest

from diptych.cli.main import main
from diptych_training.errors import DataError
from diptych_training.evaluation.protocols.copies import evaluate_copies, read_truth
from diptych_training.evaluation.stages import Entrants


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
    assert main(command(photos, queries, artifact, "--json", "--no-baselines", "--candidates", "5")) == 0
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


def test_unedited_queries_are_found_by_embedding_and_control(entrants: Entrants, photos: Path, colour) -> None:
    names = [f"{i:02d}.jpg" for i in range(14)]
    everyone = Entrants(entrants.model, {}, [colour()])
    result = evaluate_copies(everyone, photos, photos, [(name, name) for name in names], candidates=3).result
    assert result["first_stage"]["recall@1"] == result["first_stage"]["recall@100"] == 1
    assert result["controls"]["colour"]["recall@1"] == 1
    assert result["controls"]["colour"]["gain"]["recall@1"][0] == pytest.approx(result["recall@1"] - 1)


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
        assert main(command(photos, queries, model, "--json", "--no-baselines", "--candidates", "5", *more)) == 0
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
