import json

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
