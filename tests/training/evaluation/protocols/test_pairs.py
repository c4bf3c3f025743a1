"""The pairs protocol: labels, the threshold, and the contract of the JSON."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from diptych.cli.main import main
from diptych_runtime.runtime import Runtime
from diptych_training.errors import DataError
from diptych_training.evaluation.protocols.pairs import evaluate_pairs, read_pairs
from diptych_training.evaluation.stages import Entrants


@pytest.fixture
def table(photos: Path, tmp_path: Path) -> Path:
    """Fourteen pairs, every other one of a photo with itself."""
    rows = [f"{i:02d}.jpg,{i if i % 2 else (i + 3) % 14:02d}.jpg,{('no', 'Yes')[i % 2]}" for i in range(14)]
    path = tmp_path / "pairs.csv"
    path.write_text("image_a,image_b,label\n" + "\n".join(rows) + "\n")
    return path


def test_the_json_has_the_keys_of_the_contract_with_intervals(
    photos: Path, table: Path, artifact: Path, runtime: Runtime, capsys
) -> None:
    assert main(["evaluate", "pairs", str(table), "--root", str(photos), "--model", str(artifact), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    for key in ("auc", "average_precision", "ece"):
        low, high = result["interval"][key]
        assert 0 <= low <= result[key] <= high <= 1
    assert result["threshold"] == runtime.thresholds["0.01"]
    assert result["threshold_source"] == "the model's for 1% false positives"
    assert (result["pairs"], result["matches"]) == (14, 7)
    assert result["first_stage"] == {"auc": 1, "average_precision": pytest.approx(1)}
    assert result["gain"]["auc"][0] == pytest.approx(result["auc"] - 1)


def test_paths_start_from_the_table_unless_told_otherwise(photos: Path, artifact: Path, capsys) -> None:
    (photos / "here.csv").write_text("image_a,image_b,label\n00.jpg,00.jpg,1\n00.jpg,05.jpg,0\n")
    assert main(["evaluate", "pairs", str(photos / "here.csv"), "--model", str(artifact), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["first_stage"]["auc"] == 1


def test_a_model_without_a_threshold_gets_the_one_that_parts_these_pairs_best(
    photos: Path, table: Path, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "thresholds", {})
    evidence = evaluate_pairs(Entrants(runtime), read_pairs(table, photos), photos)
    result, scores, labels = evidence.result, evidence.probabilities, evidence.labels
    assert "chosen on these pairs" in result["threshold_source"]

    def worth(threshold: float) -> float:
        return float((scores >= threshold)[labels].mean() - (scores >= threshold)[~labels].mean())

    assert worth(result["threshold"]) == pytest.approx(max(worth(score) for score in scores))
    assert result["at_threshold"]["recall"] == pytest.approx((scores >= result["threshold"])[labels].mean())


def test_controls_score_each_pair(photos: Path, table: Path, runtime: Runtime, colour) -> None:
    control = colour()
    evidence = evaluate_pairs(Entrants(runtime, {}, [control]), read_pairs(table, photos), photos)
    assert evidence.result["controls"]["colour"]["auc"] == 1
    assert control.asked == [1] * 14
    assert [s.name for s in evidence.series] == ["colour", "first stage", "re-ranked"]
    assert evidence.series[0].ranking.relevant[0].tolist() == [True] * 7 + [False] * 7


def test_the_truth_is_the_label_and_not_that_the_files_are_the_same(
    photos: Path, table: Path, runtime: Runtime
) -> None:
    given = read_pairs(table, photos)
    turned = dataclasses.replace(given, labels=~given.labels)
    straight, other = (evaluate_pairs(Entrants(runtime), pairs, photos).result for pairs in (given, turned))
    assert other["auc"] == pytest.approx(1 - straight["auc"])
    assert other["first_stage"]["auc"] == 0
    assert np.array_equal(given.labels, given.pairs[:, 0] == given.pairs[:, 1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image_a,image_b\na,b\n", "needs the columns image_a, image_b, label; it has image_a, image_b"),
        (
            "image_a,image_b,label\n00.jpg,01.jpg,maybe\n",
            "row 1 of .* a label of 1, true, yes, 0, false, no; .*'maybe'",
        ),
        ("image_a,image_b,label\n00.jpg,01.jpg\n", "line 2: expected 3 fields, got fewer"),
        ("image_a,image_b,label\n00.jpg,01.jpg,1\n", "needs pairs of both labels, got 1 that match of 1"),
        ("image_a,image_b,label\n00.jpg,x.jpg,1\n00.jpg,01.jpg,0\n", r"1 of 3 pictures of p.csv .*x\.jpg; .* --root"),
    ],
)
def test_pairs_that_cannot_be_used_are_refused(text: str, message: str, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        read_pairs(tmp_path / "p.csv", photos)
