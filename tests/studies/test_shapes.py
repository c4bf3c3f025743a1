import json
from pathlib import Path

import pytest

from diptych_studies import shapes
from diptych_studies.shapes import SHAPES, plot_shapes, shapes_text, study_shapes
from diptych_training.errors import DataError


def test_there_are_at_least_six_shapes_and_each_has_the_blocks_that_it_is_named_by_or_three() -> None:
    assert len(SHAPES) >= 6
    for name, changes in SHAPES.items():
        assert changes["blocks"] == (int(name[0]) if "block" in name else 3)
    assert SHAPES["3 blocks"].keys() == {"blocks"}


def test_an_unknown_shape_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no shape '9 blocks'; there are 1 block, 2 blocks"):
        study_shapes(tmp_path, tmp_path, only=("9 blocks",))


@pytest.mark.slow
def test_every_shape_is_trained_measured_and_drawn_and_no_training_is_done_twice(
    archives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"steps": 1, "only": ("1 block", "6 x 6 tokens"), "processes": 0}
    result = study_shapes(tmp_path, archives, **asked)
    one, fewer = result["rows"]
    assert [one["shape"], fewer["shape"]] == list(asked["only"])
    for row in result["rows"]:
        assert 0 <= row["interval"][0] <= row["micro_ap"] <= row["interval"][1] <= 1
        assert row["milliseconds"] > 0
    assert fewer["mflops"] > one["mflops"]  # three blocks on fewer tokens
    assert fewer["parameters"] > one["parameters"]
    assert json.loads((tmp_path / "shapes.json").read_text())["rows"] == result["rows"]
    plot_shapes(result, tmp_path / "shapes.svg")
    drawn = (tmp_path / "shapes.svg").read_text()
    assert drawn.startswith("<?xml")
    assert "6 x 6 tokens" in shapes_text(result)
    # What a pair costs is measured side by side, and so each time, of graphs that take long to export.
    monkeypatch.setattr(shapes, "_measure_costs", lambda checkpoints: {name: {} for name in checkpoints})
    done: list[str] = []
    study_shapes(tmp_path, archives, steps=1, only=("1 block",), processes=0, finished=done.append)
    assert not done
