import json
from pathlib import Path

import pytest

from diptych.cli.main import main


def test_the_command_draws_and_names_the_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", str(tmp_path / "demo"), "--count", "2", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["count"] == 2
    assert len(list(Path(printed["photos"]).iterdir())) == 2
    assert Path(printed["truth"]).is_file()
