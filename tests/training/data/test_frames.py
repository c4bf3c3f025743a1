"""What the closer look takes for a frame, on photos of five kinds: the figures of docs/dedupe.md."""

from __future__ import annotations

import io
import os
from collections import Counter

import numpy as np
import pytest
from PIL import Image, ImageOps

from diptych_runtime.closer_look.verification import View, describe, verify
from diptych_training.data.archives import data_folder, list_photos, read_photos
from diptych_training.data.edits.easy import EDITS

KINDS = ("clothing", "goods", "cards_coins", "flowers", "trashnet")
EACH = 20
FRAMED = {"flowers/sunflowers/3846907701_e13b66aa87.jpg"}  # which the photographer has framed, so that it is told


def trimmed(picture: Image.Image) -> Image.Image:
    """The picture cut to what differs from the colour of its rim."""
    pixels = np.asarray(picture).astype(int)
    rim = np.median(np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]), 0)
    down, across = np.nonzero(np.abs(pixels - rim).max(2) > 25)
    if not len(down) or min(np.ptp(down), np.ptp(across)) < 60:
        return picture
    return picture.crop((int(across.min()), int(down.min()), int(across.max()) + 1, int(down.max()) + 1))


def copies(picture: Image.Image, rng: np.random.Generator) -> dict[str, Image.Image]:
    """Copies with a frame and without, by the edits that made them."""
    made = {name: EDITS[name](picture, rng) for name in ("border", "crop", "overlay", "rotate")}
    pixels = np.asarray(picture)
    edge = np.median(np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]), 0).astype(int).tolist()
    width = round(min(picture.size) * rng.uniform(0.06, 0.2))
    colours = {"black": "black", "white": "white", "its edge's colour": tuple(edge)}
    made |= {f"framed in {name}": ImageOps.expand(picture, width, colour) for name, colour in colours.items()}
    made |= {f"{name}, jpeg": EDITS["jpeg"](made[name], rng) for name in ("border", "crop")}
    return made | {"border, colour": EDITS["colour"](made["border"], rng), "trimmed": trimmed(picture)}


def seen(picture: Image.Image) -> View:
    file = io.BytesIO()
    picture.save(file, "PNG")
    return describe(file.getvalue())


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.skipif("DIPTYCH_DATA" not in os.environ, reason="needs the archives that DIPTYCH_DATA names")
def test_frames_are_told_and_no_crop_is_taken_for_an_original_without_its_frame() -> None:
    folder, rng = data_folder(), np.random.default_rng(11)
    laid, framed, wronged = Counter[str](), Counter[str](), Counter[str]()
    for kind in KINDS:
        photos = list_photos(folder, [kind])
        chosen = [photos[place] for place in sorted(rng.permutation(len(photos))[:EACH])]
        for photo, data in zip(chosen, read_photos(folder, chosen), strict=True):
            picture = Image.open(io.BytesIO(data)).convert("RGB")
            picture.thumbnail((800, 800))
            original = seen(picture)
            for name, copy in copies(picture, rng).items():
                found = verify(original, seen(copy))
                laid[name] += found.registered
                wronged[name] += found.framed > 0 and photo.name not in FRAMED
                framed[name] += found.framed < 0
    print("laid over", dict(laid), "framed", dict(framed), "wronged", dict(wronged))
    assert not +wronged
    in_colours = {"black": 0.9, "white": 0.75, "its edge's colour": 0.7}
    assert set(+framed) <= {
        "border",
        "border, jpeg",
        "border, colour",
        "rotate",
        *map("framed in {}".format, in_colours),
    }
    for colour, least in in_colours.items():
        assert framed[f"framed in {colour}"] >= least * laid[f"framed in {colour}"]
    assert framed["border"] >= 0.9 * laid["border"]
    assert framed["border, jpeg"] >= 0.7 * laid["border, jpeg"]
