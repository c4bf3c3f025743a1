"""Pictures in a folder that is followed, and limits that are others from one run to the next."""

import os
from io import BytesIO

import numpy as np
from folders import counts, put
from PIL import Image


def noise(seed: int) -> bytes:
    """A picture of 19 kB."""
    pixels = np.random.default_rng(seed).integers(0, 256, (64, 96, 3), np.uint8)
    Image.fromarray(pixels).save(buffer := BytesIO(), "PNG")
    return buffer.getvalue()


def test_what_is_larger_than_the_limits_of_now_is_refused_and_its_picture_stays(sync, folder, monkeypatch):
    large = put(folder / "large.png", noise(9))
    assert counts(sync(folder)) == {"new": 9}
    least = large.stat().st_size - 1
    assert max(path.stat().st_size for path in folder.rglob("*.jpg")) < least
    monkeypatch.setenv("DIPTYCH_PICTURE_BYTES", str(least))
    for words in ((), ("--checksum",)):
        os.utime(large)
        found = sync(folder, *words)
        assert (found.code, counts(found)) == (0, {"refused": 1, "unchanged": 9})
        reason = f"has {large.stat().st_size:,} bytes, more than the {least:,} that are allowed (DIPTYCH_PICTURE_BYTES)"
        assert reason in found.json["refused"][0]["reason"]
    put(folder / "new.png", noise(10))
    assert counts(sync(folder))["refused"] == 2
    monkeypatch.delenv("DIPTYCH_PICTURE_BYTES")
    assert counts(sync(folder)) == {"new": 1, "unchanged": 9}
