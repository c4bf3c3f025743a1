"""One-shot runs, random episodes and labelled pairs: what is won, and the JSON."""

import dataclasses
import json
import shutil
import zipfile
from pathlib import Path, PurePosixPath

import numpy as np
import pytest

from diptych.cli.main import main
from diptych_runtime.decoder import panel_pixels
from diptych_runtime.runtime import Runtime
from diptych_training.data.episodes import DrawingFiles, draw_episodes, list_drawings, read_drawings
from diptych_training.errors import DataError
from diptych_training.evaluation.stages import Entrants, Resampling
from diptych_training.evaluation.trials import (
    Trials,
    evaluate_episodes,
    evaluate_oneshot,
    evaluate_pairs,
    judge_accuracy,
    measure_trials,
    open_drawings,
    open_runs,
    rank_candidates,
    read_pairs,
    read_runs,
)
from diptych_training.metrics import wilson_interval


def test_a_tie_with_the_right_candidate_is_not_won() -> None:
    labels = np.array([[True, False, False], [True, False, False], [False, True, False]])
    ranking = rank_candidates(np.array([[0.5, 0.5, 0.1], [0.5, 0.4, 0.4], [0.1, 0.9, 0.9]]), labels)
    assert ranking.relevant[:, 0].tolist() == [False, True, False]
    assert (np.diff(ranking.scores) <= 0).all()
    assert (ranking.relevant.sum(1) == 1).all()


def trials(photos: Path) -> Trials:
    """Each of three photos among three, itself being the right one; its place differs."""
    files = [photos / f"{i:02d}.jpg" for i in range(5)]
    candidates = np.array([[0, 1, 2], [4, 3, 1], [2, 4, 0]])
    return Trials(files, np.array([0, 1, 4]), candidates, np.eye(3, dtype=bool)[[0, 2, 1]])


def test_every_method_answers_the_same_trials(entrants: Entrants, photos: Path) -> None:
    given = trials(photos)
    everyone = Entrants(entrants.model, {"again": entrants.model})
    comparison, scored = measure_trials(everyone, given, judge_accuracy(given, Resampling("trials", np.arange(3))))
    assert comparison.ours.first.values == {"accuracy": 1}
    assert comparison.against["again"].reranked.values == comparison.ours.reranked.values
    assert comparison.beside()["against"]["again"]["gain"]["accuracy"][0] <= 0
    assert given.pairs.tolist()[:4] == [[0, 0], [0, 1], [0, 2], [1, 4]]
    assert np.flatnonzero(scored.labels).tolist() == [0, 5, 7]


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


@pytest.mark.parametrize("top", [True, False])
def test_an_archive_is_read_with_and_without_a_top_folder(top: bool, runs: Path) -> None:
    path = packed(runs.parent, "all_runs") if top else packed(runs)
    assert any(name.startswith("all_runs/") for name in zipfile.ZipFile(path).namelist()) == top
    with open_runs(path) as folder:
        trials, names, run_of = read_runs(folder)
        assert names == ["run01", "run02", "run03"]
        assert run_of.tolist() == [0] * 4 + [1] * 4 + [2] * 4
        for query, candidates, right in zip(trials.queries, trials.candidates, trials.labels.argmax(1), strict=True):
            assert trials.files[query].read_bytes() == trials.files[candidates[right]].read_bytes()


def test_paths_in_the_labels_may_start_at_the_root_of_the_archive_or_at_the_run(runs: Path) -> None:
    for old, new in (("run01/", "all_runs/run01/"), ("run02/", "")):
        path = runs / f"run0{1 if new else 2}" / "class_labels.txt"
        path.write_text(path.read_text().replace(old, new))
    trials, _, _ = read_runs(runs.parent)
    assert len(trials.queries) == 12


def test_the_json_has_the_keys_of_the_contract_and_wilsons_interval(runs: Path, entrants: Entrants) -> None:
    everyone = Entrants(entrants.model, {"other": entrants.model})
    result = evaluate_oneshot(everyone, runs).result
    other = result["against"]["other"]
    assert other["first_stage"] == result["first_stage"]
    assert other["reranked"] == {key: result[key] for key in ("accuracy", "interval")}
    assert {"trials", "accuracy", "interval", "runs", "first_stage", "gain", "calibration"} <= set(result)
    assert result["interval"] == wilson_interval(12 * result["accuracy"], 12)
    assert [run["run"] for run in result["runs"]] == ["run01", "run02", "run03"]
    assert sum(run["accuracy"] for run in result["runs"]) / 3 == pytest.approx(result["accuracy"])
    value, low, high = result["gain"]
    assert value == pytest.approx(result["accuracy"] - result["first_stage"]["accuracy"])
    assert low <= value <= high


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


def test_the_json_has_the_keys_of_the_contract_and_an_episode_is_as_many_trials_as_ways(
    omniglot: Path, artifact: Path, capsys
) -> None:
    line = ["evaluate", "episodes", str(omniglot / "omniglot.zip"), "--split", "validation", "--episodes", "6"]
    assert main([*line, "--ways", "5", "--model", str(artifact), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["episodes"], result["trials"], result["ways"]) == (6, 30, 5)
    assert result["resampled"] == "episodes"
    low, high = result["interval"]
    assert low <= result["accuracy"] <= high
    assert result["gain"][0] == pytest.approx(result["accuracy"] - result["first_stage"]["accuracy"])
    assert main([*line, "--ways", "5", "--model", str(artifact), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == result
    assert main([*line, "--ways", "5", "--model", str(artifact), "--json", "--seed", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["first_stage"] != result["first_stage"]


def sparse(hands_of: dict[int, list[int]]) -> DrawingFiles:
    """One alphabet; which hands drew each character."""
    pairs = np.array([(c, hand) for c, hands in hands_of.items() for hand in hands])
    files = tuple(Path(f"a/{c}/{c}_{hand}.png") for c, hand in pairs)
    return DrawingFiles(files, pairs[:, 0], np.zeros(len(pairs), np.int64), pairs[:, 1])


def test_characters_that_not_every_hand_drew_are_asked_only_of_those_who_did() -> None:
    drawings = sparse({0: [1, 2, 3], 1: [2, 3], 2: [3, 4, 2], 3: [5]})
    episodes = draw_episodes(drawings, 20, ways=3)
    for episode in episodes:
        assert {int(c) for c in drawings.character[episode.queries]} == {0, 1, 2}
        assert {int(h) for h in drawings.drawer[np.r_[episode.queries, episode.candidates]]} == {2, 3}
    with pytest.raises(DataError, match="no two hands had drawn the same 4 characters"):
        draw_episodes(drawings, 1, ways=4)


def test_folders_without_drawings_or_with_several_splits_are_refused(omniglot: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no drawing was found; expected <alphabet>/<character>/<id>_<drawer>\.png"):
        read_drawings(tmp_path)
    names = [PurePosixPath(f"x/{split}/alphabet/one/1_{hand}.png") for split in ("b", "a") for hand in (1, 2)]
    with pytest.raises(DataError, match="several splits, a, b: name one with --split"):
        list_drawings(names)
    with pytest.raises(DataError, match="no split is called 'c'; there are a, b"):
        list_drawings(names, "c")
    assert list_drawings(names, "b") == names[:2]


def test_more_ways_than_characters_and_no_episodes_are_refused(omniglot: Path, entrants: Entrants) -> None:
    with open_drawings(omniglot / "omniglot.zip", "validation") as folder:
        with pytest.raises(DataError, match="no alphabet has 22 characters: the largest has 21"):
            evaluate_episodes(entrants, folder, ways=22)
        with pytest.raises(DataError, match="at least one episode of at least two ways, got 0 of 20"):
            evaluate_episodes(entrants, folder, episodes=0)


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
    (photos / "here.csv").write_text(table.read_text())  # paths start from the table unless told otherwise
    assert main(["evaluate", "pairs", str(photos / "here.csv"), "--model", str(artifact), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == result
    assert result["first_stage"] == {"auc": 1, "average_precision": pytest.approx(1)}
    assert result["gain"]["auc"][0] == pytest.approx(result["auc"] - 1)


def test_a_model_without_a_threshold_gets_the_one_that_parts_these_pairs_best(
    photos: Path, table: Path, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "thresholds", {})
    given = read_pairs(table, photos)
    result, labels = evaluate_pairs(Entrants(runtime), given).result, given.labels.ravel()
    tokens = runtime.encode(np.stack([panel_pixels(file, runtime.panel_size) for file in given.files])).tokens
    scores = runtime.relevance(runtime.pair_logits(tokens[given.pairs[:, 0]], tokens[given.pairs[:, 1]]))
    assert "chosen on these pairs" in result["threshold_source"]

    def worth(threshold: float) -> float:
        return float((scores >= threshold)[labels].mean() - (scores >= threshold)[~labels].mean())

    assert worth(result["threshold"]) == pytest.approx(max(worth(score) for score in scores))
    assert result["at_threshold"]["recall"] == pytest.approx((scores >= result["threshold"])[labels].mean())


def test_the_truth_is_the_label_and_not_that_the_files_are_the_same(
    photos: Path, table: Path, runtime: Runtime
) -> None:
    given = read_pairs(table, photos)
    turned = dataclasses.replace(given, labels=~given.labels)
    straight, other = (evaluate_pairs(Entrants(runtime), pairs).result for pairs in (given, turned))
    assert other["auc"] == pytest.approx(1 - straight["auc"])
    assert other["first_stage"]["auc"] == 0
    assert np.array_equal(given.labels, given.candidates == given.queries[:, None])


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
