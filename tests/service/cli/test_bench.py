"""`diptych bench` and `demo`."""

import json
from pathlib import Path

import pytest
from simple_bench import simplify

from diptych.cli.main import main


def test_the_command_prints_one_json_document_and_leaves_its_subjects_alone(
    artifact, capsys, photo, monkeypatch
) -> None:
    simplify(monkeypatch, photo)
    assert main(["bench", "--model", str(artifact), "--rounds", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "tiny"
    with pytest.raises(SystemExit) as stop:
        main(["bench", "operators", "--help"])
    assert stop.value.code == 0
    assert "MSAC" in capsys.readouterr().out


def test_the_command_draws_and_names_the_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", str(tmp_path / "demo"), "--count", "2", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["count"] == 2
    assert len(list(Path(printed["photos"]).iterdir())) == 2
    assert Path(printed["truth"]).is_file()


def test_a_demonstration_that_was_indexed_where_it_says_can_be_drawn_again(diptych, tmp_path: Path) -> None:
    assert diptych("demo", tmp_path, "--count", "2").code == 0
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "kept").write_text("")
    again = diptych("demo", tmp_path, "--count", "2")
    assert again.code == 0, again.err
    assert f"--store {tmp_path / 'store'}" in again.out
    assert (tmp_path / "store" / "kept").exists()
