"""The two stages of a model, and methods laid side by side."""

from pathlib import Path

import numpy as np
import pytest

from diptych_runtime.decoder import panel_pixels
from diptych_runtime.runtime import Runtime
from diptych_training.errors import DataError
from diptych_training.evaluation.estimates import Estimate
from diptych_training.evaluation.stages import Comparison, Method, Stages, describe, encode, pair_logits
from diptych_training.metrics import Ranking

NO_RANKING = Ranking(np.empty((0, 1)), np.empty((0, 1), bool), np.empty(0, bool))


def silent(items, total, name):
    return items


def method(name: str, **values: float) -> Method:
    return Method(name, {key: Estimate(v, np.array([v - 0.1, v, v + 0.1])) for key, v in values.items()}, NO_RANKING)


def test_files_are_encoded_in_their_order_by_the_runtime_that_serves(runtime: Runtime, photos: Path) -> None:
    files = [photos / f"{i % 14:02d}.jpg" for i in range(67)]
    tokens, embeddings = encode(runtime, files, silent, "photos")
    expected = runtime.encode(np.stack([panel_pixels(files[66], 32)]))
    assert tokens.shape[0] == 67
    assert np.array_equal(tokens[66], expected.tokens[0])
    assert np.array_equal(embeddings[66], expected.embeddings[0])


def test_a_picture_that_cannot_be_decoded_is_named(runtime: Runtime, photos: Path, tmp_path: Path, colour) -> None:
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"bad\.jpg is not in a format that can be read.*mend it or leave it out"):
        encode(runtime, [photos / "00.jpg", bad], silent, "photos")
    with pytest.raises(DataError, match=r"bad\.jpg .*mend it or leave it out"):
        describe(colour(), [bad], silent, "photos")


def test_pairs_have_the_scores_of_the_runtime_and_the_same_pair_is_looked_at_once(
    runtime: Runtime, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = encode(runtime, [photos / f"{i:02d}.jpg" for i in range(5)], silent, "photos").tokens
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


def test_the_gain_over_another_model_is_over_the_better_of_its_stages_figure_by_figure() -> None:
    ours = Stages(method("first", a=0.1, b=0.1), method("re-ranked", a=0.8, b=0.8))
    theirs = Stages(method("x first", a=0.5, b=0.2), method("x re-ranked", a=0.3, b=0.4))
    beside = Comparison(ours, (), {"x": theirs}).beside()
    assert beside["against"]["x"]["gain"]["a"] == pytest.approx([0.3, 0.3, 0.3])
    assert beside["against"]["x"]["gain"]["b"] == pytest.approx([0.4, 0.4, 0.4])
    assert beside["against"]["x"]["first_stage"] == {"a": 0.5, "b": 0.2}


def test_controls_have_figures_intervals_and_our_gain_and_series_end_with_ours() -> None:
    ours = Stages(method("first", a=0.1), method("re-ranked", a=0.8))
    comparison = Comparison(ours, (method("phash", a=0.6),), {"x": Stages(method("y", a=0), method("z", a=0))})
    assert comparison.beside()["controls"]["phash"]["a"] == 0.6
    assert comparison.beside()["controls"]["phash"]["gain"]["a"] == pytest.approx([0.2, 0.2, 0.2])
    assert comparison.beside()["controls"]["phash"]["interval"]["a"] == pytest.approx([0.505, 0.695])
    assert [series.name for series in comparison.series()] == ["phash", "y", "z", "first", "re-ranked"]
