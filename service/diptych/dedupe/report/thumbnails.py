"""Small WebP copies of pictures, as text for a page that has everything in itself."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import partial
from io import BytesIO

from PIL import Image

from diptych.scoring.threads import map_pictures
from diptych_runtime.decoder import PictureLimits, open_picture
from diptych_runtime.errors import PictureError

SIDE = 192  # pixels of the longer side
_QUALITY = 55
_BATCH = 64


def make_thumbnails(paths: Sequence[str], limits: PictureLimits, threads: int) -> Iterator[str]:
    """A WebP in base64 for each path, in order; empty where a file cannot be read any more."""
    for start in range(0, len(paths), _BATCH):
        made = map_pictures(partial(make_thumbnail, limits=limits), paths[start : start + _BATCH], threads)
        yield from ("" if isinstance(one, PictureError) else b64encode(one).decode() for one in made)


def make_thumbnail(path: str, limits: PictureLimits) -> bytes:
    """The picture as a WebP whose longer side has at most `SIDE` pixels. Raises PictureError."""
    picture = open_picture(path, limits, least=SIDE)
    picture.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS, reducing_gap=2.0)
    buffer = BytesIO()
    picture.save(buffer, "WEBP", quality=_QUALITY)
    return buffer.getvalue()
