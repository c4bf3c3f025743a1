"""Pairs of pictures laid over each other, as a closer look lays them: copies, and look-alikes that are none.

Copies are edited as training edits (`data.augment`), never as copies to measure with are. Look-alikes are drawn
documents of one layout, training photos that are nearest to each other, and edited copies of all of them. Only what
can be laid over each other counts.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import faiss
import numpy as np
import torch
from PIL import Image
from torch import Tensor

from diptych_runtime.closer_look.aligned import Laid
from diptych_runtime.closer_look.verification import View, describe_pixels, lay_pair
from diptych_runtime.runtime import Runtime
from diptych_training.data.archives import list_photos, read_photos
from diptych_training.data.augment import HARD, HEAVY, MILD, Layers, draw_layers, draw_sprites, edit_photos
from diptych_training.data.documents import KINDS, MEMBERS, TEXTURES, draw_documents

SIDE, SIDES = 640, (192, 256, 320, 384, 480, 640)  # pixels of a drawn document, and of its edited copies
SQUARE, SQUARES = 256, (128, 192, 224, 256, 320)  # of a photo to be edited, and of its edited copies
SPRITES, LAYERS = 512, 64
HEAVILY, HARDLY = 0.35, 0.5  # shares of the edits that are such; the others are mild
RESHAPED = 0.25  # the share of edited copies that get another ratio of their sides
EDITED, NEAREST = 2, 4  # copies of a photo, and look-alikes
THUMBNAIL, SAME, SAME_SCREEN = 64, 4.0, 0.5  # pixels, and the mean difference of two of one photo, 0 to 255
LEAST = 400  # pixels that both pictures have to show


@dataclass(frozen=True)
class AlignedPair:
    """Two pictures on one grid, whether they are a `copy` of one photo, and the `kind` of pictures they are."""

    laid: Laid
    copy: bool
    kind: str


def edit_as_files(
    pixels: np.ndarray, size: int, rng: np.random.Generator, seed: int, grounds: np.ndarray | None = None
) -> list[np.ndarray]:
    """Edit copies of pictures, and compress them as files are.

    Pictures are uint8 (n, H, H, 3), their copies uint8 (h, w, 3) each. Overlays are drawn from the seed; `grounds` are
    pasted into.
    """
    generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
    photos, drawn = torch.from_numpy(pixels), rng.random()
    sprites, layers = _draw_overlays(seed)
    if drawn < HARDLY:
        backgrounds = None if grounds is None else torch.from_numpy(grounds)
        views = edit_photos(photos, size, HARD, generator, sprites, backgrounds=backgrounds, layers=layers)
    else:
        views = edit_photos(photos, size, HEAVY if drawn < HARDLY + HEAVILY else MILD, generator, sprites)
    return [_save_as_jpeg(picture, rng) for picture in views.pictures]


def document_pairs(family: int, seed: int) -> Iterator[AlignedPair]:
    """The pairs of one family of drawn documents: every member and its edited copy, which the others are held against;
    members, and edited copies, among themselves.
    """
    rng = np.random.default_rng([seed, 1, family])
    kind = str(rng.choice(list(KINDS)))
    members = draw_documents(MEMBERS, SIDE, int(rng.integers(2**31)), [kind])
    originals = [describe_pixels(picture) for picture in members]
    copies = [describe_pixels(p) for p in edit_as_files(members, int(rng.choice(SIDES)), rng, seed)]
    for place, copy in enumerate(copies):
        yield from make_pair(originals[place], copy, True, kind)
        for other in (1, 2):
            yield from make_pair(originals[(place + other) % MEMBERS], copy, False, kind)
    if kind not in TEXTURES:
        yield from make_pair(originals[0], originals[2], False, kind)
        yield from make_pair(originals[1], originals[3], False, kind)
    yield from make_pair(copies[0], copies[1], False, kind)


def photo_pairs(archive: str, most: int, seed: int, folder: Path) -> Iterator[AlignedPair]:
    """The pairs of up to so many training photos of an archive: each with two edited copies, and its nearest with the
    first of them and with itself.
    """
    rng = np.random.default_rng([seed, 2])
    photos = training_photos(archive, most, rng, folder)
    squares, views = resize_photos(photos, SQUARE), [describe_pixels(photo) for photo in photos]
    near = _find_lookalikes(photos, SAME_SCREEN if archive == "screens" else SAME)
    for place in range(len(photos)):
        rng = np.random.default_rng([seed, 2, place])
        grounds = squares[rng.integers(len(photos), size=1)]
        changing = partial(edit_as_files, size=int(rng.choice(SQUARES)), rng=rng, seed=seed, grounds=grounds)
        copies = [describe_pixels(changing(squares[place : place + 1])[0]) for _ in range(EDITED)]
        for copy in copies:
            yield from make_pair(views[place], copy, True, archive)
        for other in near[place]:
            yield from make_pair(views[other], copies[0], False, archive)
            if other > place:
                yield from make_pair(views[other], views[place], False, archive)


def training_photos(archive: str, most: int, rng: np.random.Generator, folder: Path) -> list[np.ndarray]:
    """Up to so many training photos of an archive, by chance, each uint8 (h, w, 3)."""
    rows = [photo for photo in list_photos(folder, [archive]) if photo.split == "train"]
    rows = [rows[place] for place in np.sort(rng.permutation(len(rows))[:most])]
    return [np.asarray(Image.open(io.BytesIO(data)).convert("RGB")) for data in read_photos(folder, rows)]


@cache
def _draw_overlays(seed: int) -> tuple[Tensor, Layers]:
    return draw_sprites(SPRITES, seed), draw_layers(LAYERS, seed)


def make_pair(a: View, b: View, copy: bool, kind: str) -> Iterator[AlignedPair]:
    """Lay two pictures over each other, and yield the pair if possible."""
    found = lay_pair(a, b)
    if found is not None and np.count_nonzero(found.shown) >= LEAST:
        yield AlignedPair(found, copy, kind)


def _find_lookalikes(photos: list[np.ndarray], same: float) -> list[list[int]]:
    """Find each photo's nearest, as the released model embeds them.

    They are places, without those that show the same photo.
    """
    runtime = Runtime.open("photo", provider="cpu", threads=1)
    embeddings = runtime.encode(resize_photos(photos, runtime.panel_size)).embeddings
    index = faiss.IndexFlatIP(embeddings.shape[1])
    index.add(embeddings)
    near = index.search(embeddings, min(2 * NEAREST + 1, len(photos)))[1]
    thumbnails = resize_photos(photos, THUMBNAIL).reshape(len(photos), -1).astype(np.float32)

    def list_others(place: int) -> list[int]:
        off = np.abs(thumbnails[near[place]] - thumbnails[place]).mean(1)
        return [int(other) for other in near[place][off > same] if other != place][:NEAREST]

    return [list_others(place) for place in range(len(photos))]


def resize_photos(photos: list[np.ndarray], size: int) -> np.ndarray:
    """Resize photos to squares of one size, uint8 (n, S, S, 3)."""
    return np.stack([np.asarray(Image.fromarray(photo).resize((size, size))) for photo in photos])


def _save_as_jpeg(picture: Tensor, rng: np.random.Generator) -> np.ndarray:
    """Save a picture as JPEG, and return what the file shows.

    (3, S, S) from 0 to 1 -> uint8 (h, w, 3), some with another ratio of sides.
    """
    image = Image.fromarray((picture.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy())
    if rng.random() < RESHAPED:
        image = image.resize((max(64, round(image.width * rng.uniform(0.75, 1.33))), image.height))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=int(rng.integers(50, 96)))
    return np.asarray(Image.open(file))
