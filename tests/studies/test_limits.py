import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diptych.cli.main import main
from diptych_studies.limits import Example, draw_examples


@pytest.fixture(scope="module")
def drawn() -> list[Example]:
    return draw_examples()


def test_the_pairs_are_always_the_same_and_no_two_pictures_are_alike(drawn: list[Example]) -> None:
    assert {pair.copies for pair in drawn} == {True, False}
    for one, other in zip(drawn, draw_examples(), strict=True):
        assert one.name == other.name
        assert np.array_equal(one.a, other.a)
        assert np.array_equal(one.b, other.b)
        assert one.a.shape != one.b.shape or (one.a != one.b).any()


@pytest.mark.slow
def test_the_command_says_what_the_model_says_of_each_pair(
    artifact_of_two: Path, drawn: list[Example], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["study", "limits", "--model", str(artifact_of_two)]
    assert main([*line, "--json", "--plot", str(tmp_path / "limits.png")]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in result["pairs"]] == [pair.name for pair in drawn]
    for number, (row, pair) in enumerate(zip(result["pairs"], drawn, strict=True)):
        for side, pixels in (("a", pair.a), ("b", pair.b)):
            Image.fromarray(pixels).save(tmp_path / f"{number}{side}.png")
        assert 0 <= row["copy"] <= row["thing"] <= 1
    score = ["score", str(tmp_path / "0a.png"), str(tmp_path / "0b.png"), "--model", str(artifact_of_two)]
    assert main([*score, "--question", "copy", "--json"]) == 0
    scored = json.loads(capsys.readouterr().out)
    assert result["pairs"][0]["copy"] == pytest.approx(scored["relevance_score"], abs=1e-6)
    with Image.open(tmp_path / "limits.png") as sheet:
        assert min(sheet.size) > 500
    assert main([*line, "--quiet"]) == 0
    assert "no copies" in capsys.readouterr().out
    assert main([*line, "--plot", str(tmp_path / "nowhere" / "limits.png")]) == 1
    assert "there is no folder" in capsys.readouterr().err
