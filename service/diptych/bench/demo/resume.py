"""Pictures of an interrupted drawing that are kept: those that the same settings and the same program have drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from diptych_runtime.atomic import write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence

MARK = "drawing.json"  # the settings of a drawing, from before its first picture until it is complete


def missing(folder: Path, pictures: Sequence[Path], count: int, seed: int) -> list[Path]:
    """The `pictures` that are still to be drawn; those that something else has drawn are removed first.

    The mark in the folder says whose pictures they are. Each was written whole, so one that is there is complete.
    """
    mark, settings = folder / MARK, _settings(count, seed)
    if not mark.is_file() or mark.read_bytes() != settings:
        for picture in pictures:
            picture.unlink(missing_ok=True)
        write_atomic(mark, settings)
    return [picture for picture in pictures if not picture.exists()]


def _settings(count: int, seed: int) -> bytes:
    """All that the bytes of the pictures depend on: another version of any of it may draw others."""
    import hashlib

    import numpy as np
    from PIL import __version__, features

    sources = sorted(Path(__file__).parent.rglob("*.py"))
    code = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    versions = {"numpy": np.__version__, "pillow": __version__}
    versions |= {name: str(features.version(name)) for name in ("jpg", "freetype2")}
    return json.dumps({"count": count, "seed": seed, "program": code, **versions}, indent=2).encode()
