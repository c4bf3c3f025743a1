"""`diptych evaluate`: its parser, and who is laid beside the model."""

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from diptych.cli.main import main
from diptych_training.errors import DataError

CONTROLS = "diptych_training.evaluation.controls"


@pytest.fixture
def controls(monkeypatch: pytest.MonkeyPatch, colour) -> None:
    """Controls are made by a function of this test."""

    def control(name: str):
        if name == "unknown":
            raise DataError("no control is called 'unknown'")
        return colour(name)

    module = ModuleType(CONTROLS)
    module.make_control = control  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, CONTROLS, module)


@pytest.fixture
def line(photos: Path, artifact: Path, tmp_path: Path) -> list[str]:
    (tmp_path / "truth.csv").write_text("query,reference\n" + "".join(f"{i:02d}.jpg,{i:02d}.jpg\n" for i in range(5)))
    folders = ["--references", str(photos), "--queries", str(photos), "--truth", str(tmp_path / "truth.csv")]
    return ["evaluate", "copies", *folders, "--model", str(artifact), "--candidates", "3", "--json"]


def measured(line: list[str], capsys: pytest.CaptureFixture[str]) -> dict:
    assert main(line) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "line",
    [
        *(
            ["evaluate", *more]
            for more in ([], ["oneshot"], ["episodes"], ["retrieval", "--root", "x"], ["copies"], ["pairs"])
        ),
        *(["edit", "folder"], ["train"], ["unpack", "x"]),
    ],
)
def test_what_is_missing_is_wrong_usage(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(line)
    assert end.value.code == 2
    assert "Missing" in capsys.readouterr().err


@pytest.mark.usefixtures("controls")
def test_copies_are_laid_beside_phash_and_whatever_else_is_asked_for_each_once(line: list[str], capsys) -> None:
    assert list(measured(line, capsys)["controls"]) == ["phash"]
    assert list(measured([*line, "--no-baselines"], capsys)["controls"]) == []
    more = ["--control", "orb", "--control", "phash", "--control", "orb"]
    assert list(measured([*line, *more], capsys)["controls"]) == ["orb", "phash"]
    assert list(measured([*line, "--no-baselines", "--control", "orb"], capsys)["controls"]) == ["orb"]
    assert main([*line, "--control", "unknown", "--model", "nowhere"]) == 1, "before anything is opened"
    assert "no control is called 'unknown'" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_other_models_are_laid_beside_by_the_name_they_were_given(line: list[str], artifact: Path, capsys) -> None:
    result = measured([*line, "--no-baselines", "--against", str(artifact)], capsys)
    other = result["against"][str(artifact)]
    assert other["first_stage"] == result["first_stage"]
    assert other["reranked"]["micro_ap"] == result["micro_ap"]
    assert all(gain[0] <= 0 for gain in other["gain"].values())


def test_an_error_of_the_data_is_exit_code_one_and_says_what_is_wrong(artifact: Path, tmp_path: Path, capsys) -> None:
    assert main(["evaluate", "oneshot", str(tmp_path / "gone.zip"), "--model", str(artifact)]) == 1
    assert "expected a folder or a zip archive" in capsys.readouterr().err
