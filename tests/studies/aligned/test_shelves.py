"""Pairs on the disk: made once, side by side, and read as they were."""

from functools import partial
from pathlib import Path

import numpy as np

from diptych_studies.aligned.pairs import document_pairs
from diptych_studies.aligned.shelves import Origins, make_shelves, pair_documents, read_shelf, sources_of


def test_origins_are_archives_things_and_families_in_parts(tmp_path: Path) -> None:
    found = sources_of(Origins(families=120, things=150, archives=("goods", "flowers")), 5, tmp_path)
    things = ["things-00000", "things-00100"]
    assert list(found) == ["goods", "flowers", *things, "documents-00000", "documents-00050", "documents-00100"]
    assert list(sources_of(Origins(families=50), 5, None)) == ["documents-00000"]


def test_pairs_are_kept_as_they_were_made_and_made_once(tmp_path: Path) -> None:
    sources = {
        "few": partial(pair_documents, 0, 2, 5),
        "more": partial(pair_documents, 2, 3, 5),
        "none": partial(pair_documents, 0, 0, 5),
    }
    ticks = []

    def make() -> None:
        make_shelves(sources, tmp_path, processes=2, tick=lambda: ticks.append(1))

    (tmp_path / ".few-killed").mkdir()
    make()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["few", "more", "none"]
    made = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.bin")}
    assert len(made) == len(ticks) == 3
    expected = [pair for family in range(3) for pair in document_pairs(family, 5)]
    found = [pair for name in sources for pair in read_shelf(tmp_path / name)]
    assert [(pair.copy, pair.kind) for pair in found] == [(pair.copy, pair.kind) for pair in expected]
    for pair, one in zip(found, expected, strict=True):
        assert (pair.pixels[..., :3] == one.laid.a).all()
        assert (pair.pixels[..., 3:6] == one.laid.b).all()
        assert (pair.pixels[..., 6].astype(bool) == one.laid.shown).all()
        assert not isinstance(pair.pixels, np.ndarray) or pair.pixels.base is not None  # mapped, not read
    make()
    assert len(ticks) == 6
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.bin")} == made
