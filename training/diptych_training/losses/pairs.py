"""Pairs of versions of one picture, as the network sees them, with what is lost where one goes and the other stays."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image

from diptych_runtime.closer_look.comparison import LOSSES, see_pair
from diptych_training.data.archives import generated_sources, list_photos, read_photos
from diptych_training.losses.versions import (
    CHANCES,
    FAMILIES,
    PLACES,
    Props,
    Version,
    edit_version,
    keep_as_file,
    make_original,
)

ENLARGED = (1.0, 1.4, 1.8, 2.2, 2.8)  # times that the photos of the archives are made larger
NOISY = 0.2  # chance of an original that a camera made noisy
LONGEST = 620  # pixels of an original
DRAWN = 480  # pixels a side of what a program draws
COUNTS = (0.1, 0.58, 0.26, 0.06)  # chances of a version of no, one, two and three edits
OFF = (0.0005, 0.0015, 0.003)  # of the longer side, by which a registration misses the corners
_PAIRS, _CHANCES = ((0, 1), (0, 2), (1, 2)), (0.5, 0.25, 0.25)  # of the original and two versions of it


class Example(NamedTuple):
    """What the network sees, uint8 (2, 2, SIDE, SIDE, 8), and where either picture goes the answer to each of the
    `LOSSES`, 0 or 1, and how much it counts, (2, 11): 0 where nobody could say.
    """

    views: np.ndarray
    answers: np.ndarray
    weights: np.ndarray


def draw_examples(
    count: int,
    seed: Sequence[int],
    archives: tuple[str, ...],
    most: int,
    without: tuple[str, ...],
    folder: Path,
    split: str,
) -> list[Example]:
    """Draw examples of pictures of archives, of which those that a program draws have a quarter of `most`; up to `most`
    photos of the `split` of an archive are used, and no edit of the families `without`.
    """
    pools, props = _read_pools(archives, most, folder, split)
    rng = np.random.default_rng(seed)
    found: list[Example] = []
    while len(found) < count:
        pool = pools[int(rng.integers(len(pools)))]
        found.extend(draw_pairs(pool[int(rng.integers(len(pool)))], rng, props, without))
    return found[:count]


def draw_pairs(
    pixels: np.ndarray, rng: np.random.Generator, props: Props, without: Sequence[str] = ()
) -> Iterator[Example]:
    """Examples of three versions of a picture uint8 (h, w, 3): it, and two that were edited."""
    first = _draw_original(pixels, rng)
    size = first.picture.size
    files = [keep_as_file(first, rng)]
    for start in (files[0] if rng.random() < 0.6 else first, first):
        files.append(keep_as_file(_edit_often(start, rng, props, without, size), rng))
    detail = _measure_detail(first.picture)
    has_hues = np.ptp(np.asarray(first.picture).astype(np.int16), axis=2).mean() > 8
    for place in rng.choice(len(_PAIRS), 2, replace=False, p=_CHANCES):
        one, other = (files[which] for which in _PAIRS[place])
        views = _misplace_corners(one, other, rng)
        if views is not None:
            both = [find_losses(*pair, detail, has_hues=bool(has_hues)) for pair in ((other, one), (one, other))]
            yield Example(views, *(np.stack(part) for part in zip(*both, strict=True)))


def find_losses(kept: Version, going: Version, detail: np.ndarray, *, has_hues: bool) -> tuple[np.ndarray, np.ndarray]:
    """The answers and weights of one side of an `Example`: what `going` has and `kept` lacks, of an original with so
    much `detail` (PLACES, PLACES) at each place.
    """
    gone = going.shown & ~kept.shown
    missing = gone.sum() / max(1, going.shown.sum())
    is_rich = bool(gone.any() and detail[gone].mean() > 0.25 * detail.mean())
    blurred = np.hypot(kept.blur, 0.3) / np.hypot(going.blur, 0.3)
    paler, stepped = going.colour - kept.colour, kept.shades / going.shades
    is_worse = kept.quality <= 62 and going.quality >= kept.quality + 15
    answers = {
        "scope": (missing > 0.011, missing < 0.004 or (missing > 0.011 and is_rich)),
        "cleanness": (bool(kept.marks - going.marks), True),
        "sharpness": (blurred > 1.3, blurred > 1.3 or blurred < 1.1),
        "colours": (paler > 0.2, paler < 0.03 or (paler > 0.2 and has_hues)),
        "shades": (stepped <= 0.5, stepped <= 0.5 or stepped >= 1),
        "quality": (is_worse, is_worse or kept.quality >= min(76, going.quality - 4)),
        "tones": (bool(kept.tones - going.tones), True),
        "grain": (bool(kept.grain - going.grain), True),
        "part": (bool(kept.parts ^ going.parts or going.marks - kept.marks), True),
        "frame": (bool(kept.frames - going.frames), True),
    }
    answers |= {"scope": (True, True)} if going.scope - kept.scope else {}
    answers |= {"sharpness": (True, True)} if kept.softened - going.softened else {}
    is_lost = any(lost and counts for lost, counts in answers.values())
    answers["anything"] = is_lost, is_lost or all(counts for _, counts in answers.values())
    rows = np.array([answers[loss] for loss in LOSSES], np.float32)
    return rows[:, 0], rows[:, 1]


def _draw_original(pixels: np.ndarray, rng: np.random.Generator) -> Version:
    """A picture as large as it is, or larger and not sharp, and some with the noise of a camera."""
    height, width = pixels.shape[:2]
    scale = min(float(rng.choice(ENLARGED)), LONGEST / max(height, width))
    size = round(width * scale), round(height * scale)
    picture = Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS)
    if rng.random() < NOISY:
        noise = rng.standard_normal((size[1], size[0], 3), dtype=np.float32) * rng.uniform(1.5, 7)
        picture = Image.fromarray(np.clip(np.asarray(picture) + noise, 0, 255).astype(np.uint8))
    return make_original(picture, 0.5 * max(1.0, scale))


def _edit_often(
    version: Version, rng: np.random.Generator, props: Props, without: Sequence[str], size: tuple[int, int]
) -> Version:
    names = [name for name in FAMILIES if name not in without]
    chances = np.array([CHANCES[name] for name in names])
    for _ in range(int(rng.choice(len(COUNTS), p=COUNTS))):
        edits = FAMILIES[str(rng.choice(names, p=chances / chances.sum()))]
        version = edit_version(version, edits[int(rng.integers(len(edits)))], rng, props, size)
    return version


def _misplace_corners(one: Version, other: Version, rng: np.random.Generator) -> np.ndarray | None:
    """What the network sees of a pair of which the corners are found with an error, as registering leaves it; None for
    the same pixels.
    """
    a, b = np.asarray(one.picture), np.asarray(other.picture)
    if a.shape == b.shape and np.array_equal(a, b):
        return None
    edges = np.array([[[0, 0], [1, 0], [1, 1], [0, 1]]], np.float64)
    moved = other.place @ np.linalg.inv(one.place)
    there = cv2.perspectiveTransform(edges * one.picture.size, moved)[0]
    there += rng.normal(0, float(rng.choice(OFF)) * max(other.picture.size), there.shape)
    return see_pair(a, b, there / other.picture.size)


def _measure_detail(picture: Image.Image) -> np.ndarray:
    """The mean steepness at each of the places of an original, (PLACES, PLACES)."""
    grey = np.asarray(picture.convert("L"), np.float32)
    steep = cv2.magnitude(cv2.Sobel(grey, cv2.CV_32F, 1, 0), cv2.Sobel(grey, cv2.CV_32F, 0, 1))
    return cv2.resize(steep, (PLACES, PLACES), interpolation=cv2.INTER_AREA)


@cache
def _read_pools(archives: tuple[str, ...], most: int, folder: Path, split: str) -> tuple[list[list[np.ndarray]], Props]:
    """Photos of the split of each archive, or what a program draws; and what is stuck on or pasted."""
    pools = []
    for archive in archives:
        if archive in generated_sources():
            draw, _, _ = generated_sources()[archive]
            pools.append(list(draw(most // 4, DRAWN)))
            continue
        rows = [photo for photo in list_photos(folder, [archive]) if photo.split == split]
        rows = rows[:: max(1, len(rows) // most)][:most]
        pools.append([np.asarray(Image.open(io.BytesIO(data)).convert("RGB")) for data in read_photos(folder, rows)])
    return pools, Props([photo for pool in pools for photo in pool[:40]])
