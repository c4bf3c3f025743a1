"""`diptych evaluate`: its parser, and who is laid beside the model."""

import json
from pathlib import Path

import pytest

from diptych.cli.main import main


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


def test_other_models_are_laid_beside_by_the_name_they_were_given(line: list[str], artifact: Path, capsys) -> None:
    result = measured([*line, "--against", str(artifact)], capsys)
    other = result["against"][str(artifact)]
    assert other["first_stage"] == result["first_stage"]
    assert other["reranked"]["micro_ap"] == result["micro_ap"]
    assert all(gain[0] <= 0 for gain in other["gain"].values())


def test_an_error_of_the_data_is_exit_code_one_and_says_what_is_wrong(artifact: Path, tmp_path: Path, capsys) -> None:
    assert main(["evaluate", "oneshot", str(tmp_path / "gone.zip"), "--model", str(artifact)]) == 1
    assert "expected a folder or a zip archive" in capsys.readouterr().err
