"""The copies protocol through the command line and the runtime that serves."""

import json
from pathlib import Path

import numpy as np
import pytest

from diptych.cli import main
from diptych_export.runtime import Runtime
from diptych_training.copies import both_stages, evaluate_copies, read_truth
from diptych_training.errors import DataError


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory, photo_bytes) -> Path:
    folder = tmp_path_factory.mktemp("copies")
    (folder / "photos").mkdir()
    for i in range(14):
        (folder / "photos" / f"{i:02d}.jpg").write_bytes(photo_bytes(i, (80, 60)))
    assert main(["edit", str(folder / "photos"), "-o", str(folder / "queries"), "--count", "9", "--quiet"]) == 0
    return folder


def command(folder: Path, artifact: Path, *more: str) -> list[str]:
    names = ["--references", str(folder / "photos"), "--queries", str(folder / "queries")]
    return [
        "evaluate",
        "copies",
        *names,
        "--truth",
        str(folder / "queries" / "truth.csv"),
        "--model",
        str(artifact),
        *more,
    ]


def test_the_json_has_the_keys_of_the_contract_and_figures_in_range(collection: Path, artifact: Path, capsys) -> None:
    assert main(command(collection, artifact, "--json", "--candidates", "5")) == 0
    result = json.loads(capsys.readouterr().out)
    assert {"micro_ap", "recall_at_p90", "first_stage"} <= set(result)
    for measured in (result, result["first_stage"], result["baselines"]["phash"]):
        assert all(0 <= measured[key] <= 1 for key in ("micro_ap", "recall_at_p90", "recall@1"))
    value, low, high = result["gain"]["recall@1"]
    assert low <= value <= high
    assert value == pytest.approx(result["recall@1"] - result["first_stage"]["recall@1"])
    assert 0 <= result["calibration"]["ece"] <= 1
    assert set(result["calibration"]["thresholds"]) == {"0.01", "0.001", "0.0001"}
    assert (result["queries"], result["references"], result["candidates"]) == (9, 14, 5)


def test_the_table_names_both_stages_and_the_paired_gain(collection: Path, artifact: Path, capsys) -> None:
    assert main(command(collection, artifact, "--no-baselines")) == 0
    shown = capsys.readouterr().out
    assert "embedding alone" in shown
    assert "re-ranked, first 14" in shown
    assert "95 % interval" in shown
    assert "threshold 0.97000 for a false-positive rate of 0.10%" in shown
    assert "phash" not in shown


def test_unedited_queries_are_found_by_hash_and_embedding(collection: Path, artifact: Path) -> None:
    names = [f"{i:02d}.jpg" for i in range(14)]
    photos = collection / "photos"
    result = evaluate_copies(Runtime.open(artifact), photos, photos, [(name, name) for name in names], candidates=3)
    assert result["first_stage"]["recall@1"] == 1
    assert result["baselines"]["phash"]["recall@1"] == 1


def test_re_ranking_orders_the_first_candidates_by_the_pair_score(artifact: Path, photo) -> None:
    runtime = Runtime.open(artifact)
    panels = runtime.encode(np.stack([np.asarray(photo(seed, (32, 32))) for seed in range(7)]))
    first, after = both_stages(runtime, panels, panels, np.eye(7, dtype=bool), 4, lambda items, total, name: items)
    assert first.scores.shape == after.scores.shape == (7, 4)
    assert (np.diff(first.scores) <= 0).all()
    assert (np.diff(after.scores) <= 0).all()
    assert first.relevant[:, 0].all()


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


def test_a_reference_that_is_not_there_is_named(collection: Path, artifact: Path) -> None:
    with pytest.raises(DataError, match=r"the reference 'gone\.jpg', which is not among the 14"):
        evaluate_copies(
            Runtime.open(artifact), collection / "photos", collection / "queries", [("00000.jpg", "gone.jpg")]
        )


def test_a_distractor_query_has_no_match_and_can_only_cost_precision(collection: Path, artifact: Path) -> None:
    runtime, photos = Runtime.open(artifact), collection / "photos"
    truth = [("00.jpg", "00.jpg"), ("01.jpg", "")]
    result = evaluate_copies(runtime, photos, photos, truth, candidates=3, baselines=False)
    assert result["first_stage"]["recall@1"] == 1
    assert result["queries"] == 2
