"""The limits of pictures that are read: as the settings have them, in commands, from Python and in the service."""

import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from diptych import Scorer
from diptych_runtime.errors import PictureError


@pytest.fixture
def large(tmp_path):
    """A picture of 96 x 80 pixels of noise."""
    pixels = np.random.default_rng(0).integers(0, 256, (80, 96, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "large.png")
    return tmp_path / "large.png"


def test_without_settings_nothing_is_imported_for_them():
    # Their package takes half a second, which every command would wait for.
    command = "import sys, diptych; from diptych.pictures.sources import picture_limits; picture_limits()"
    command += "; from diptych.scoring.scorer import Scorer; print('pydantic_settings' in sys.modules)"
    plain = {name: value for name, value in os.environ.items() if not name.startswith("DIPTYCH_")}
    done = subprocess.run([sys.executable, "-c", command], env=plain, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("name", "least", "reason"),
    [
        ("PIXELS", 96 * 80, r"is 96x80, 0\.0 megapixels; at most 0\.0 are allowed \(DIPTYCH_PICTURE_PIXELS\)"),
        ("BYTES", None, r"bytes, more than the .* that are allowed \(DIPTYCH_PICTURE_BYTES\)"),
    ],
)
def test_a_picture_beyond_a_limit_is_refused_by_the_name_of_its_setting(
    name, least, reason, artifact, large, monkeypatch
):
    least = least or large.stat().st_size
    monkeypatch.setenv(f"DIPTYCH_PICTURE_{name}", str(least))
    assert Scorer.load(str(artifact), threads=1).encode([large]).shape[0] == 1
    monkeypatch.setenv(f"DIPTYCH_PICTURE_{name}", str(least - 1))
    with pytest.raises(PictureError, match=reason):
        Scorer.load(str(artifact), threads=1).encode([large])


def test_hashes_keep_to_the_limits(large, monkeypatch, capsys):
    from diptych.cli.main import main

    monkeypatch.setenv("DIPTYCH_PICTURE_PIXELS", "100")
    assert main(["dedupe", str(large.parent), "--method", "phash", "--json"]) == 1
    assert "DIPTYCH_PICTURE_PIXELS" in capsys.readouterr().out
