"""The command line of training, its wrong turns first."""

import json
from pathlib import Path

import pytest

from diptych.cli.main import main


def test_training_without_data_says_where_it_is_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "run.toml"
    recipe.write_text("[[tasks]]\nkind = 'copy'\n[[stages]]\npixels = 128\nsteps = 1\n")
    monkeypatch.setenv("DIPTYCH_DATA", str(tmp_path / "nowhere"))
    assert main(["train", str(recipe), "-o", str(tmp_path / "out")]) == 1
    assert "DIPTYCH_DATA" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_unpack_and_edit_report_what_they_wrote_as_json(
    archives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DIPTYCH_DATA", str(archives))
    assert main(["unpack", "clothing", "-o", str(tmp_path / "photos"), "--json"]) == 0
    splits = json.loads(capsys.readouterr().out)
    assert sum(splits.values()) == 60
    line = ["edit", str(tmp_path / "photos"), "-o", str(tmp_path / "queries"), "--count", "3", "--json"]
    assert main([*line, "--among", str(tmp_path / "photos" / "test.csv")]) == 0
    written = json.loads(capsys.readouterr().out)
    assert written["queries"] == 3
    assert Path(written["truth"]).is_file()
