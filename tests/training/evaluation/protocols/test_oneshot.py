"""Lake's runs: their layout in folders and archives, and the contract of the JSON."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from diptych.cli.main import main
from diptych_training.errors import DataError
from diptych_training.evaluation.protocols.oneshot import evaluate_oneshot, read_runs
from diptych_training.evaluation.stages import Entrants
from diptych_training.metrics import wilson_interval


@pytest.fixture
def runs(tmp_path: Path, photo_bytes) -> Path:
    """Three 4-way runs in Lake's layout, in which every test picture is the right training picture itself."""
    folder = tmp_path / "all_runs"
    for run in range(1, 4):
        lines = []
        for kind in ("training", "test"):
            (folder / f"run{run:02d}" / kind).mkdir(parents=True)
        for place in range(1, 5):
            names = f"run{run:02d}/test/item{place:02d}.png", f"run{run:02d}/training/class{5 - place:02d}.png"
            for name in names:
                (folder / name).write_bytes(photo_bytes(10 * run + place, (40, 40), "PNG"))
            lines.append(" ".join(names))
        (folder / f"run{run:02d}" / "class_labels.txt").write_text("\n".join(lines) + "\n")
    return folder


def packed(folder: Path, base: str = ".") -> Path:
    """A zip archive of what is in a folder, all or `base` alone."""
    return Path(shutil.make_archive(str(folder / "packed"), "zip", folder, base))


def test_the_right_candidate_is_the_one_the_labels_name(runs: Path) -> None:
    trials, names, run_of = read_runs(runs)
    assert names == ["run01", "run02", "run03"]
    assert run_of.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert trials.candidates.shape == (12, 4)
    for query, candidates, right in zip(trials.queries, trials.candidates, trials.right, strict=True):
        assert trials.files[query].read_bytes() == trials.files[candidates[right]].read_bytes()


@pytest.mark.parametrize("top", [True, False])
def test_an_archive_is_read_with_and_without_a_top_folder(top: bool, runs: Path, artifact: Path, capsys) -> None:
    path = packed(runs.parent, "all_runs") if top else packed(runs)
    assert any(name.startswith("all_runs/") for name in zipfile.ZipFile(path).namelist()) == top
    assert main(["evaluate", "oneshot", str(path), "--model", str(artifact), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["trials"] == 12
    assert result["first_stage"]["accuracy"] == 1


def test_paths_in_the_labels_may_start_at_the_root_of_the_archive_or_at_the_run(runs: Path) -> None:
    for old, new in (("run01/", "all_runs/run01/"), ("run02/", "")):
        path = runs / f"run0{1 if new else 2}" / "class_labels.txt"
        path.write_text(path.read_text().replace(old, new))
    trials, _, _ = read_runs(runs.parent)
    assert len(trials.queries) == 12


def test_the_json_has_the_keys_of_the_contract_and_wilsons_interval(runs: Path, entrants: Entrants) -> None:
    result = evaluate_oneshot(entrants, runs).result
    assert {"trials", "accuracy", "interval", "runs", "first_stage", "gain", "calibration"} <= set(result)
    assert result["interval"] == wilson_interval(12 * result["accuracy"], 12)
    assert [run["run"] for run in result["runs"]] == ["run01", "run02", "run03"]
    assert sum(run["accuracy"] for run in result["runs"]) / 3 == pytest.approx(result["accuracy"])
    value, low, high = result["gain"]
    assert value == pytest.approx(result["accuracy"] - result["first_stage"]["accuracy"])
    assert low <= value <= high


def test_controls_and_other_models_have_wilsons_interval_too(runs: Path, entrants: Entrants, colour) -> None:
    everyone = Entrants(entrants.model, {"other": entrants.model}, [colour()])
    result = evaluate_oneshot(everyone, runs).result
    control, other = result["controls"]["colour"], result["against"]["other"]
    assert control["interval"] == wilson_interval(12 * control["accuracy"], 12)
    assert other["first_stage"] == result["first_stage"]
    assert other["reranked"] == {key: result[key] for key in ("accuracy", "interval")}
    assert control["gain"][0] == pytest.approx(result["accuracy"] - control["accuracy"])


def test_a_few_runs_are_not_drawn_anew_but_their_trials(runs: Path, entrants: Entrants) -> None:
    assert evaluate_oneshot(entrants, runs).result["resampled"] == "trials"
    for extra in range(4, 11):
        shutil.copytree(runs / "run01", runs / f"run{extra:02d}")
        labels = runs / f"run{extra:02d}" / "class_labels.txt"
        labels.write_text(labels.read_text().replace("run01", f"run{extra:02d}"))
    assert evaluate_oneshot(entrants, runs).result["resampled"] == "runs"


def test_folders_that_are_no_runs_are_refused_with_the_layout(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no run was found; expected runNN/training/classNN.png"):
        read_runs(tmp_path / "empty")
    (runs / "run02" / "training" / "class02.png").unlink()
    with pytest.raises(DataError, match="run02 has 3 training pictures and run01 4"):
        read_runs(runs)
    (runs / "run01" / "test" / "item03.png").unlink()
    with pytest.raises(DataError, match=r"1 of 8 pictures of run01/class_labels.txt are not there: \S*item03.png"):
        read_runs(runs)
    (runs / "run01" / "class_labels.txt").write_text("run01/test/item01.png\n")
    with pytest.raises(DataError, match="must have lines of a test path and a training path"):
        read_runs(runs)
    (runs / "run01" / "class_labels.txt").write_text("run01/test/item01.png run01/test/item02.png\n")
    with pytest.raises(DataError, match=r"answers with item02.png, which is not in run01/training"):
        read_runs(runs)
