"""The common part of all protocols: files, stages, intervals and calibration."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from diptych_runtime.decoder import panel_pixels
from diptych_runtime.runtime import Runtime
from diptych_training.errors import DataError
from diptych_training.evaluation.stages import (
    Comparison,
    Estimate,
    Method,
    Resampling,
    Scored,
    Stages,
    as_folder,
    encode_files,
    pair_logits,
    require_pictures,
)
from diptych_training.metrics import Ranking


def test_an_archive_is_a_folder_of_what_is_wanted_while_the_block_lasts(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("top/a.png", "top/b.txt", "__MACOSX/top/._a.png", "../outside.png"):
            archive.writestr(name, name)
    with as_folder(tmp_path / "a.zip", lambda name: name.suffix == ".png") as folder:
        found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        assert found == {"top/a.png", "outside.png"}
    assert not folder.exists()
    assert not (tmp_path.parent / "outside.png").exists()


def test_a_folder_is_itself_and_what_is_neither_is_refused(tmp_path: Path) -> None:
    with as_folder(tmp_path) as folder:
        assert folder == tmp_path
    path = tmp_path / "runs.zip"
    with pytest.raises(DataError, match="does not exist"), as_folder(path):
        pass
    path.write_text("no archive")
    with pytest.raises(DataError, match="expected a folder or a zip archive, and "), as_folder(path):
        pass


def test_missing_pictures_are_counted_and_the_first_named(tmp_path: Path) -> None:
    (tmp_path / "here.png").touch()
    files = [tmp_path / name for name in ("here.png", "a.png", "b.png", "a.png", "c.png", "d.png")]
    with pytest.raises(DataError, match=r"4 of 5 queries are not there: \S*a.png, \S*b.png, \S*c.png, ...; look in x"):
        require_pictures(files, "queries", "look in x")
    require_pictures(files[:1], "queries", "look in x")


def test_the_mean_has_the_interval_of_the_normal_approximation() -> None:
    values = np.random.default_rng(1).random(900)
    estimate = Resampling("queries", np.arange(900)).mean(values)
    low, high = estimate.interval
    reach = 1.96 * values.std() / 30
    assert estimate.value == pytest.approx(values.mean())
    assert (low, high) == pytest.approx((values.mean() - reach, values.mean() + reach), abs=reach / 5)


def test_a_gain_of_the_same_on_every_query_has_no_width_however_much_queries_differ() -> None:
    values, resampling = np.random.default_rng(1).random(50), Resampling("queries", np.arange(50))
    value, low, high = resampling.mean(values + 0.25).gain_over(resampling.mean(values))
    assert (value, low, high) == pytest.approx((0.25, 0.25, 0.25))
    assert np.ptp(resampling.mean(values).interval) > 0.1


def test_trials_that_are_all_alike_within_their_run_are_worth_one_each() -> None:
    won, runs = np.repeat(np.random.default_rng(3).random(12) < 0.5, 25), np.repeat(np.arange(12), 25)
    by_run = np.ptp(Resampling("runs", runs).mean(won).interval)
    by_trial = np.ptp(Resampling("trials", np.arange(300)).mean(won).interval)
    assert by_run > 3 * by_trial


def test_what_is_not_counted_leaves_the_mean_alone_and_draws_without_any_are_left_out() -> None:
    values, counted = np.array([1.0, 0.0, 9.0]), np.array([True, True, False])
    assert Resampling("queries", np.arange(3)).mean(values, counted).value == 0.5
    estimate = Resampling("queries", np.arange(3)).mean(np.ones(3), np.array([True, False, False]))
    assert np.isnan(estimate.draws).any()
    assert estimate.interval == [1, 1]


@pytest.fixture
def scored() -> Scored:
    rng = np.random.default_rng(5)
    labels = np.arange(200) < 20
    logits = rng.normal(np.where(labels, 2.0, -2.0), 1.5).astype(np.float32)
    return Scored(logits, labels, 25)


def test_the_bins_hold_every_pair_and_give_the_calibration_error(scored: Scored, runtime: Runtime) -> None:
    measured = scored.calibration(runtime)
    assert sum(part["pairs"] for part in measured["bins"]) == measured["pairs"] == 200
    assert sum(part["weight"] for part in measured["bins"]) == pytest.approx(1)
    gaps = [part["weight"] * abs(part["confidence"] - part["frequency"]) for part in measured["bins"]]
    assert measured["ece"] == pytest.approx(sum(gaps))
    assert all(part["from"] <= part["confidence"] <= part["to"] for part in measured["bins"])


def test_a_threshold_is_worth_what_it_lets_through_here_and_misses_what_was_never_scored(
    scored: Scored, runtime: Runtime
) -> None:
    over = runtime.relevance(scored.logits) >= runtime.thresholds["0.01"]
    found = scored.calibration(runtime)["thresholds"]["0.01"]
    assert found["threshold"] == runtime.thresholds["0.01"]
    assert found["false_positive_rate"] == pytest.approx(over[20:].sum() / 180)
    assert found["recall"] == pytest.approx(over[:20].sum() / 25)


NO_RANKING = Ranking(np.empty((0, 1)), np.empty((0, 1), bool), np.empty(0, bool))


def silent(items, total, name):
    return items


def method(**values: float) -> Method:
    return Method({key: Estimate(v, np.array([v - 0.1, v, v + 0.1])) for key, v in values.items()}, NO_RANKING)


def test_files_are_encoded_in_their_order_by_the_runtime_that_serves(runtime: Runtime, photos: Path) -> None:
    files = [photos / f"{i % 14:02d}.jpg" for i in range(67)]
    tokens, embeddings = encode_files(runtime, files, silent, "photos")
    expected = runtime.encode(np.stack([panel_pixels(files[66], 32)]))
    assert tokens.shape[0] == 67
    assert np.array_equal(tokens[66], expected.tokens[0])
    assert np.array_equal(embeddings[66], expected.embeddings[0])


def test_a_picture_that_cannot_be_decoded_is_named(runtime: Runtime, photos: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"bad\.jpg is not in a format that can be read.*mend it or leave it out"):
        encode_files(runtime, [photos / "00.jpg", bad], silent, "photos")


def test_pairs_have_the_scores_of_the_runtime_and_the_same_pair_is_looked_at_once(
    runtime: Runtime, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = encode_files(runtime, [photos / f"{i:02d}.jpg" for i in range(5)], silent, "photos").tokens
    pairs = np.array([[0, 3], [3, 0], [4, 1], [0, 3], [2, 2]])
    expected = runtime.pair_logits(tokens[pairs[:, 0]], tokens[pairs[:, 1]])
    looked: list[int] = []
    whole = Runtime.all_logits

    def counted(self: Runtime, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        looked.append(len(a))
        return whole(self, a, b)

    monkeypatch.setattr(Runtime, "all_logits", counted)
    assert np.array_equal(pair_logits(runtime, tokens, tokens, pairs, silent), expected)
    assert looked == [3]
    assert np.array_equal(pair_logits(runtime, tokens, tokens.copy(), pairs, silent), expected)
    assert looked == [3, 5]


def test_a_gain_is_over_the_better_of_another_models_stages_figure_by_figure() -> None:
    ours = Stages(method(a=0.1, b=0.1), method(a=0.8, b=0.8))
    theirs = Stages(method(a=0.5, b=0.2), method(a=0.3, b=0.4))
    beside = Comparison(ours, {"x": theirs}).beside()
    assert beside["against"]["x"]["gain"]["a"] == pytest.approx([0.3, 0.3, 0.3])
    assert beside["against"]["x"]["gain"]["b"] == pytest.approx([0.4, 0.4, 0.4])
    assert beside["against"]["x"]["first_stage"] == {"a": 0.5, "b": 0.2}
    assert beside["against"]["x"]["interval"]["first_stage"]["a"] == pytest.approx([0.405, 0.595])
