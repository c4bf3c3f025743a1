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


def test_a_demonstration_names_its_places_and_can_be_drawn_again_when_it_was_indexed_there(diptych, tmp_path) -> None:
    drawn = diptych("demo", tmp_path, "--count", "2", "--json").json
    assert (drawn["count"], len(list(Path(drawn["photos"]).iterdir())), Path(drawn["truth"]).is_file()) == (2, 2, True)
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "kept").write_text("")
    again = diptych("demo", tmp_path, "--count", "2")
    assert again.code == 0, again.err
    assert f"--store {tmp_path / 'store'}" in again.out
    assert (tmp_path / "store" / "kept").exists()
