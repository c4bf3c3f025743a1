"""Pairs laid over each other: what is drawn, what is edited, and which of them are copies."""

import io
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diptych_studies.aligned.pairs import LEAST, document_pairs, photo_pairs
from diptych_training.data.documents import KINDS


def test_a_family_of_documents_gives_copies_and_look_alikes_and_the_same_again() -> None:
    families = range(3)
    found = [pair for family in families for pair in document_pairs(family, 5)]
    assert {pair.copy for pair in found} == {True, False}
    assert {pair.kind for pair in found} <= set(KINDS)
    for pair in found:
        assert pair.laid.a.shape == pair.laid.b.shape == (*pair.laid.shown.shape, 3)
        assert np.count_nonzero(pair.laid.shown) >= LEAST
        assert pair.laid.shown[0].any()
        assert pair.laid.shown[:, -1].any()
    again = list(document_pairs(0, 5))
    assert all((one.laid.a == other.laid.a).all() for one, other in zip(found, again, strict=False))
    others = document_pairs(0, 6)
    assert any(one.laid.a.shape != other.laid.a.shape for one, other in zip(again, others, strict=False))


def photograph(seed: int) -> np.ndarray:
    """Blots of colour: enough for keypoints."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (24, 32, 3), np.uint8))
    return np.asarray(coarse.resize((256, 192), Image.Resampling.BICUBIC))


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    """An archive of twelve photos, each of which is there once."""
    with zipfile.ZipFile(tmp_path / "trashnet.zip", "w") as file:
        for number in range(12):
            data = io.BytesIO()
            Image.fromarray(photograph(number)).save(data, "PNG")
            file.writestr(f"class_blots/{number}.png", data.getvalue())
    return tmp_path


def test_photos_give_their_edited_copies_and_their_nearest_are_none(archives: Path) -> None:
    found = list(photo_pairs("trashnet", 6, 0, archives))
    counted = Counter((pair.kind, pair.copy) for pair in found)
    assert counted["trashnet", True] >= 6
    assert counted["trashnet", False] <= 2  # different blots can hardly be laid over each other
    assert all(np.abs(pair.laid.a.astype(int) - pair.laid.b).mean() > 0.2 for pair in found)
