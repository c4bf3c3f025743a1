"""The command line of training, its wrong turns first."""

import sys
from pathlib import Path

import pytest

from diptych.cli.main import main
from diptych_training.cli import OF_STUDIES


def test_training_without_data_says_where_it_is_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "run.toml"
    recipe.write_text("[[tasks]]\nkind = 'copy'\n[[stages]]\npixels = 128\nsteps = 1\n")
    monkeypatch.setenv("DIPTYCH_DATA", str(tmp_path / "nowhere"))
    assert main(["train", str(recipe), "-o", str(tmp_path / "out")]) == 1
    assert "DIPTYCH_DATA" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_only_a_checkout_trains_says_so_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.toml").write_text("[aligned]\nfamilies = 1\n")
    monkeypatch.setitem(sys.modules, OF_STUDIES["aligned"], None)
    assert main(["train", str(tmp_path / "run.toml"), "-o", str(tmp_path / "out")]) == 1
    assert "training needs a checkout of Diptych" in capsys.readouterr().err
