"""Versions of a picture, with what each kept of it: where its places went, its detail, hues and shades, and its marks.

An edit makes a version of another one, and notes what it did: so two versions of one picture tell what each shows that
the other lacks. With these a network is trained; none is an edit that measures (`data.edits`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageOps

from diptych_training.data.canvas import fit_text, load_font, save_as
from diptych_training.data.documents.words import draw_title, draw_words
from diptych_training.data.layers import draw_colour, draw_sticker

PLACES = 160  # along each side of the original, whose places are followed
LARGEST = 1000  # pixels of the longer side of a version
_SHARP = 0.5  # pixels of blur in what has none

Edit = Callable[["Version", np.random.Generator, "Props"], "Version"]
Paint = Callable[[Image.Image, np.random.Generator], Image.Image]
Ids = frozenset[int]
_NONE: Ids = frozenset()


@dataclass(frozen=True)
class Props:
    """Photos uint8 (h, w, 3), to paste parts of and to lay beside a picture."""

    photos: Sequence[np.ndarray]

    def photo(self, rng: np.random.Generator, size: tuple[int, int]) -> Image.Image:
        """One of the photos, squeezed to `size`."""
        return Image.fromarray(self.photos[int(rng.integers(len(self.photos)))]).resize(size)


@dataclass(frozen=True)
class Version:
    """A picture, the homography `place` from places in the original to places in it, and which of `PLACES` x `PLACES`
    of the original it shows. `blur` is the blur of its detail in pixels of the original, `colour` the share of its
    hues, `shades` how many a channel has, and `quality` that of JPEG. The rest are edits: what was drawn on it,
    changed its tones, sharpened it or made it noisy, took the detail of a part or replaced one, what put
    something around it, and what of that shows words or a scene.
    """

    picture: Image.Image
    place: np.ndarray
    shown: np.ndarray
    blur: float = _SHARP
    colour: float = 1.0
    shades: float = 256.0
    quality: float = 100.0
    marks: Ids = _NONE
    tones: Ids = _NONE
    grain: Ids = _NONE
    softened: Ids = _NONE
    parts: Ids = _NONE
    frames: Ids = _NONE
    scope: Ids = _NONE

    @property
    def scale(self) -> float:
        """Pixels for each pixel of the original."""
        return float(np.sqrt(abs(np.linalg.det(self.place[:2, :2]))))


def make_original(picture: Image.Image, blur: float = _SHARP) -> Version:
    """The version that all others are made of, with so many pixels of blur."""
    return Version(picture, np.eye(3), np.ones((PLACES, PLACES), bool), blur)


def edit_version(
    version: Version, edit: Edit, rng: np.random.Generator, props: Props, size: tuple[int, int]
) -> Version:
    """The version that an edit makes; `size` is that of the original."""
    edited = edit(version, rng, props)
    longest = max(edited.picture.size)
    if longest > LARGEST:
        edited = scale_version(edited, LARGEST / longest)
    x, y = ((np.arange(PLACES) + 0.5) / PLACES * side for side in size)
    places = np.stack([*(axis.ravel() for axis in np.meshgrid(x, y)), np.ones(PLACES * PLACES)])
    there = edited.place @ places
    there = there[:2] / there[2]
    inside = (there >= 0).all(0) & (there < np.array(edited.picture.size)[:, None]).all(0)
    return replace(edited, shown=edited.shown & inside.reshape(PLACES, PLACES))


def keep_as_file(version: Version, rng: np.random.Generator) -> Version:
    """The version as files keep it: without loss, or as JPEG or WebP of good quality."""
    chance = rng.random()
    return version if chance < 0.45 else save_version(version, int(rng.integers(78, 98)), webp=chance > 0.85)


def save_version(version: Version, quality: int, *, webp: bool = False) -> Version:
    """Save a version as JPEG, or WebP, and return what is left."""
    picture = save_as(version.picture, quality, "WEBP" if webp else "JPEG")
    return replace(version, picture=picture, quality=min(version.quality, quality))


def scale_version(version: Version, scale: float, how: Image.Resampling = Image.Resampling.LANCZOS) -> Version:
    """The version made smaller or larger."""
    old = version.picture.size
    size = max(24, round(old[0] * scale)), max(24, round(old[1] * scale))
    blur = max(version.blur, _SHARP / (version.scale * scale))
    return replace(
        _move_version(version, version.picture.resize(size, how), np.diag([size[0] / old[0], size[1] / old[1], 1])),
        blur=blur,
    )


def _move_version(version: Version, picture: Image.Image, moved: np.ndarray) -> Version:
    return replace(version, picture=picture, place=moved @ version.place)


def _soften_version(version: Version, picture: Image.Image, pixels: float) -> Version:
    return replace(version, picture=picture, blur=float(np.hypot(version.blur, pixels / version.scale)))


def _note_edit(version: Version, kind: str, rng: np.random.Generator, picture: Image.Image | None = None) -> Version:
    """The version, which shows `picture` now if there is one, after one more edit of a kind."""
    edits = getattr(version, kind) | {int(rng.integers(2**62))}
    return replace(version, picture=picture or version.picture, **{kind: edits})


def _paints(kind: str, *paints: Paint) -> tuple[Edit, ...]:
    """The edits of a kind that such paints are."""
    return tuple(
        lambda version, rng, props, paint=paint: _note_edit(version, kind, rng, paint(version.picture, rng))
        for paint in paints
    )


def _as_frame(edit: Edit) -> Edit:
    return lambda version, rng, props: _note_edit(edit(version, rng, props), "frames", rng)


# What is written or drawn on a picture.


def _caption(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    copy, (width, height) = picture.copy(), picture.size
    size, ink = width / rng.uniform(8, 26), draw_colour(rng) if rng.random() < 0.5 else (255, 255, 255)
    line = draw_words(rng, int(rng.integers(4, 34)))
    line = line.upper() if rng.random() < 0.4 else line
    place = rng.uniform(0.2, 0.8) * width, rng.choice([size, height - size, rng.uniform(0.1, 0.9) * height])
    rim = {"stroke_width": int(rng.choice([0, 0, 1, 2, 3])), "stroke_fill": tuple(255 - value for value in ink)}
    ImageDraw.Draw(copy).text(place, line, ink, load_font(max(9, round(size))), "mm", **rim)
    return copy


def _signature(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """A date, or a name half transparent, in a corner."""
    copy, (width, height) = picture.copy(), picture.size
    is_date = rng.random() < 0.5
    line = (
        f"{rng.integers(1, 29)} {rng.integers(1, 13)} '{rng.integers(80, 99)}"
        if is_date
        else "© " + draw_title(rng, 14)
    )
    mask = Image.new("L", picture.size)
    corner = width * rng.uniform(0.7, 0.98), height * rng.uniform(0.9, 0.98)
    typeface = load_font(max(9, round(width / rng.uniform(12, 30))))
    ImageDraw.Draw(mask).text(corner, line, 255 if is_date else int(rng.integers(70, 220)), typeface, "rs")
    copy.paste((255, int(rng.integers(80, 170)), 20) if is_date else (255, 255, 255), (0, 0, width, height), mask)
    return copy


def _large_word(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Rows of a word, half transparent."""
    mask, (width, height) = Image.new("L", picture.size), picture.size
    draw, line, strength = ImageDraw.Draw(mask), draw_title(rng, 0).upper(), int(rng.integers(60, 190))
    size = fit_text(line, rng.uniform(0.3, 0.9) * width, height / 3)
    rows = np.arange(size, height, size * rng.uniform(2, 4)) if rng.random() < 0.6 else [rng.uniform(0.2, 0.8) * height]
    for y in rows:
        draw.text((width / 2, y), line, strength, load_font(size), "mm")
    copy = picture.copy()
    copy.paste((255, 255, 255) if rng.random() < 0.7 else draw_colour(rng), (0, 0, width, height), mask)
    return copy


def _capitals(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """A line of capitals with a dark rim along the top or the bottom."""
    copy, (width, height) = picture.copy(), picture.size
    line, is_above = draw_title(rng, int(rng.integers(8, 30))).upper(), rng.random() < 0.4
    size = fit_text(line, rng.uniform(0.6, 0.97) * width, height / rng.uniform(5.5, 14))
    place = rng.uniform(0.47, 0.53) * width, (rng.uniform(0.01, 0.06) if is_above else rng.uniform(0.94, 0.99)) * height
    rim = {"stroke_width": max(1, round(rng.uniform(0.04, 0.14) * size)), "stroke_fill": (0, 0, 0)}
    ink = (255, 255, 255) if rng.random() < 0.8 else draw_colour(rng)
    ImageDraw.Draw(copy).text(place, line, ink, load_font(size), "ma" if is_above else "md", **rim)
    return copy


def _slanting_words(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Words again and again, half transparent, along slanting lines."""
    (width, height), size = picture.size, max(9, round(rng.uniform(0.05, 0.16) * picture.width))
    reach, strength = width + height, int(rng.integers(55, 200))
    mask, line = Image.new("L", (reach, reach)), "   ".join([draw_words(rng, int(rng.integers(6, 16)))] * 20)
    for row, y in enumerate(np.arange(0, reach, rng.uniform(2, 4.5) * size)):
        ImageDraw.Draw(mask).text((-2 * size * (row % 3), y), line, strength, load_font(size))
    left, top = (reach - width) // 2, (reach - height) // 2
    mask = mask.rotate(rng.uniform(-50, 50), Image.Resampling.BILINEAR).crop((left, top, left + width, top + height))
    copy = picture.copy()
    copy.paste((255, 255, 255) if rng.random() < 0.6 else draw_colour(rng), (0, 0, width, height), mask)
    return copy


def _pen(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    copy, (width, height) = picture.copy(), picture.size
    draw, ink, thick = ImageDraw.Draw(copy), draw_colour(rng), max(1, round(width / rng.uniform(40, 200)))
    for _ in range(rng.integers(1, 4)):
        (x, x2), (y, y2) = np.sort(rng.uniform(0, 0.9, (2, 2)), 1) * [[width], [height]]
        box = x, y, x2 + 0.05 * width, y2 + 0.05 * height
        kind = rng.integers(5)
        if kind == 0:
            draw.ellipse(box, outline=ink, width=thick)
        elif kind == 1:
            draw.rectangle(box, outline=ink, width=thick)
        elif kind == 2:
            draw.line(box, fill=ink, width=thick)
        else:  # a scrawl, or a line of handwriting
            step = 0.03 * width if kind == 3 else 0.012 * width
            along = [0 if kind == 3 else 0.8 * step, 0]
            line = np.cumsum(np.vstack([[x, y], rng.normal(along, step, (12 if kind == 3 else 30, 2))]), 0)
            draw.line([tuple(place) for place in line.tolist()], fill=ink, width=thick, joint="curve")
    return copy


def _bar(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    copy = picture.copy()
    rows, columns = _choose_region(picture, rng, 0.04, 0.35)
    ink = draw_colour(rng) if rng.random() < 0.5 else ((0, 0, 0), (255, 255, 255))[rng.integers(2)]
    ImageDraw.Draw(copy).rectangle((columns.start, rows.start, columns.stop, rows.stop), fill=ink)
    return copy


def _hide(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Show a part in squares, or blurred."""
    region = _choose_region(picture, rng, 0.12, 0.45)
    pixels = np.array(picture)
    if not _has_detail(pixels[region]):
        return _bar(picture, rng)
    part = Image.fromarray(pixels[region])
    if rng.random() < 0.5:
        block = max(3.0, rng.uniform(0.02, 0.06) * picture.width)
        few = max(1, int(part.width / block)), max(1, int(part.height / block))
        part = part.resize(few).resize(part.size, Image.Resampling.NEAREST)
    else:
        part = part.filter(ImageFilter.GaussianBlur(rng.uniform(3, 10)))
    pixels[region] = np.asarray(part)
    return Image.fromarray(pixels)


def _cover(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """A thing of one colour of the picture, shaded from one side, as flat as what is in it."""
    pixels, (width, height) = np.array(picture), picture.size
    mask = Image.new("L", picture.size)
    centre, reach = rng.uniform(0.1, 0.9, 2) * (width, height), rng.uniform(0.02, 0.12) * width
    angles = np.sort(rng.uniform(0, 2 * np.pi, int(rng.integers(3, 9))))
    rim = centre + reach * rng.uniform(0.6, 1, (len(angles), 1)) * np.stack([np.cos(angles), np.sin(angles)], 1)
    if rng.random() < 0.5:
        ImageDraw.Draw(mask).polygon([tuple(place) for place in rim.tolist()], 255)
    else:
        ImageDraw.Draw(mask).ellipse((*(centre - reach), *(centre + reach * rng.uniform(0.3, 1))), 255)
    inside = np.asarray(mask) > 0
    colour = pixels[rng.integers(height), rng.integers(width)].astype(np.float32)
    shade = 1 + rng.uniform(-0.3, 0.3) * np.linspace(-1, 1, width, dtype=np.float32)[None, :, None]
    other = np.clip(colour * np.repeat(shade, height, 0), 0, 255)
    if not inside.any() or np.abs(other - pixels)[inside].max(1).mean() < 12:
        return _bar(picture, rng)
    soft = cv2.GaussianBlur(inside.astype(np.float32), (0, 0), float(rng.uniform(0.4, 1.5)))[..., None]
    return Image.fromarray((pixels * (1 - soft) + other * soft).astype(np.uint8))


def _rule(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Parallel lines from side to side, straight or slanting."""
    layer, (width, height), gap = picture.copy(), picture.size, rng.uniform(0.04, 0.25) * picture.width
    draw, ink, thick = ImageDraw.Draw(layer), draw_colour(rng), max(1, round(rng.uniform(0.05, 0.3) * gap))
    slant, is_upright = rng.choice([0, 0, 1, -1]) * rng.uniform(0.1, 0.9) * min(width, height), rng.random() < 0.5
    for at in np.arange(-height + rng.uniform(0, gap), width + height, gap):
        draw.line((at, 0, at + slant, height) if is_upright else (0, at, width, at + slant), ink, thick)
    return Image.blend(picture, layer, rng.uniform(0.55, 1))


def _weather(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Streaks of rain, or flakes of snow."""
    copy, (width, height) = picture.copy(), picture.size
    draw, is_rain = ImageDraw.Draw(copy, "RGBA"), rng.random() < 0.5
    fall = rng.normal(0, 0.01) * width, rng.uniform(0.01, 0.06) * height
    for x, y in rng.uniform(0, 1, (int(rng.integers(60, 400)), 2)) * (width, height):
        if is_rain:
            ink = 210, 215, 225, int(rng.integers(90, 220))
            draw.line((x, y, x + fall[0], y + fall[1]), ink, int(rng.integers(1, 3)))
        else:
            reach = rng.uniform(0.5, width / 90)
            draw.ellipse((x - reach, y - reach, x + reach, y + reach), (240, 240, 245, 200))
    return copy


def _dot(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """A few dots of one pixel or two, as stars and full stops are."""
    pixels, (width, height) = np.array(picture), picture.size
    for _ in range(int(rng.choice([1, 3, 10, 30]))):
        side, left, top = int(rng.integers(1, 3)), rng.integers(width - 2), rng.integers(height - 2)
        part = pixels[top : top + side, left : left + side]
        part[:] = rng.integers(200, 256) if part.mean() < 128 else rng.integers(0, 56)
    return Image.fromarray(pixels)


def _round_corners(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    mask = Image.new("L", picture.size)
    box = 0, 0, picture.width - 1, picture.height - 1
    ImageDraw.Draw(mask).rounded_rectangle(box, picture.width // int(rng.integers(6, 25)), 255)
    return Image.composite(picture, Image.new("RGB", picture.size, draw_colour(rng)), mask)


def _stick(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Stickers, more often one than several, turned as far as they may be."""
    copy = picture.copy()
    for _ in range(int(rng.choice([1, 1, 2, 3, 4]))):
        side = max(10, round(rng.uniform(0.1, 0.45) * min(picture.size)))
        sticker = draw_sticker(rng, 64).resize((side, side)).rotate(rng.uniform(-60, 60), expand=True)
        corner = [round(rng.uniform(-0.05, 0.85) * length) for length in picture.size]
        copy.paste(sticker, (corner[0], corner[1]), sticker)
    return copy


def _choose_region(picture: Image.Image, rng: np.random.Generator, least: float, most: float) -> tuple[slice, slice]:
    """Rows and columns of a part of a picture, with sides of such shares of the picture's."""
    spans = []
    for side in (picture.height, picture.width):
        length = rng.uniform(least, most)
        start = rng.uniform(0, 1 - length)
        spans.append(slice(int(start * side), max(int(start * side) + 8, int((start + length) * side))))
    return spans[0], spans[1]


def _has_detail(pixels: np.ndarray) -> bool:
    return bool(pixels.shape[1] > 1 and np.abs(np.diff(pixels[..., 1].astype(int), axis=1)).mean() > 2)


# What replaces a part by another that looks as natural.


def _replace_part(version: Version, rng: np.random.Generator, props: Props) -> Version:
    """Paste a part of another photo, inpaint, or repeat another part of the same picture."""
    pixels, (width, height) = np.array(version.picture), version.picture.size
    mask = np.zeros((height, width), np.float32)
    centre = int(rng.uniform(0.15, 0.85) * width), int(rng.uniform(0.15, 0.85) * height)
    reach = max(4, int(rng.uniform(0.04, 0.2) * width)), max(4, int(rng.uniform(0.04, 0.2) * height))
    cv2.ellipse(mask, centre, reach, float(rng.uniform(0, 180)), 0, 360, 1.0, -1)
    kind = rng.integers(3)
    if kind == 0:
        other = cv2.inpaint(pixels, (mask > 0).astype(np.uint8), 4, cv2.INPAINT_TELEA)
    elif kind == 1:
        other = np.roll(pixels, [int(rng.uniform(0.2, 0.8) * side) for side in (height, width)], (0, 1))
    else:
        other = np.asarray(props.photo(rng, (width, height)))
    if np.abs(other.astype(int) - pixels)[mask > 0].mean() < 8:
        return _note_edit(version, "marks", rng, _stick(version.picture, rng))
    soft = cv2.GaussianBlur(mask, (0, 0), float(rng.uniform(0.6, 0.02 * width + 0.7)))[..., None]
    mixed = (pixels * (1 - soft) + other * soft).astype(np.uint8)
    return _note_edit(version, "parts", rng, Image.fromarray(mixed))


def _replace_detail(version: Version, rng: np.random.Generator, props: Props) -> Version:
    """Put something else in the place of a word, a digit, a line or another small thing, or nothing but its ground."""
    pixels, (width, height) = np.array(version.picture), version.picture.size
    for _ in range(40):
        sides = np.maximum(6, rng.uniform(0.012, 0.09, 2) * width).astype(int)
        if rng.random() < 0.3:
            sides[rng.integers(2)] = int(rng.uniform(0.15, 0.6) * min(width, height))
        (left, top), (x, y) = (rng.integers(1, np.maximum(2, np.array([width, height]) - sides - 1)) for _ in range(2))
        if rng.random() < 0.4:  # from beside it, as another letter of the same line
            x, y = int(np.clip(left + rng.uniform(-4, 4) * sides[0], 0, width - sides[0])), top
        part = pixels[top : top + sides[1], left : left + sides[0]]
        other = pixels[y : y + sides[1], x : x + sides[0]].copy()
        if rng.random() < 0.4:
            other[:] = np.median(np.concatenate([part[0], part[-1], part[:, 0], part[:, -1]]), axis=0)
        if np.abs(other.astype(int) - part).max(2).mean() > 20:
            part[:] = other
            return _note_edit(version, "parts", rng, Image.fromarray(pixels))
    return _replace_part(version, rng, props)


# What lies around.


def _pad_version(version: Version, sides: tuple[int, int, int, int], ground: tuple[int, ...]) -> Version:
    """Ground at the left, above, at the right and below."""
    left, above, right, below = sides
    width, height = version.picture.size
    canvas = Image.new("RGB", (width + left + right, height + above + below), ground)
    canvas.paste(version.picture, (left, above))
    return _move_version(version, canvas, np.array([[1, 0, left], [0, 1, above], [0, 0, 1.0]]))


def _frame(version: Version, rng: np.random.Generator, props: Props) -> Version:
    shares = [rng.uniform(0.02, 0.12)] * 4 if rng.random() < 0.5 else rng.uniform(0, 0.2, 4)
    left, above, right, below = (int(share * version.picture.width) for share in shares)
    return _pad_version(version, (left, above, right, below), _draw_ground(rng))


def _draw_ground(rng: np.random.Generator) -> tuple[int, ...]:
    return draw_colour(rng) if rng.random() < 0.4 else ((255, 255, 255), (0, 0, 0))[rng.integers(2)]


def _write_beside(version: Version, rng: np.random.Generator, props: Props) -> Version:
    """A bar with a line on it above or below, as memes have."""
    bar, above = int(version.picture.width * rng.uniform(0.12, 0.3)), rng.random() < 0.6
    ground = _draw_ground(rng)
    framed = _pad_version(version, (0, bar if above else 0, 0, 0 if above else bar), ground)
    line = draw_title(rng, int(rng.integers(10, 36)))
    size = fit_text(line, 0.9 * framed.picture.width, framed.picture.width / rng.uniform(12, 24))
    ink = (0, 0, 0) if sum(ground) > 380 else (255, 255, 255)
    place = 10, (0 if above else framed.picture.height - bar) + bar / 2
    ImageDraw.Draw(framed.picture).text(place, line, ink, load_font(size), "lm")
    return _note_edit(framed, "scope", rng)


def _screenshot(version: Version, rng: np.random.Generator, props: Props) -> Version:
    """The window of a program around it, with a few words in its title bar."""
    ground = (int(rng.integers(225, 256)),) * 3 if rng.random() < 0.6 else (int(rng.integers(15, 60)),) * 3
    shares = rng.uniform([0.02, 0.12, 0.02, 0.03], [0.35, 0.35, 0.35, 0.3])
    width, height = version.picture.size
    left, above, right, below = (int(share * side) for share, side in zip(shares, (width, height) * 2, strict=True))
    framed = _pad_version(version, (left, above, right, below), ground)
    draw, bar = ImageDraw.Draw(framed.picture), int(min(rng.uniform(0.04, 0.1) * framed.picture.height, 0.9 * above))
    draw.rectangle((0, 0, framed.picture.width, max(4, bar)), fill=draw_colour(rng))
    line = "  ".join(draw_title(rng, 0) for _ in range(rng.integers(2, 6)))
    draw.text((8, bar / 2), line, (255, 255, 255), load_font(max(5, bar // 2)), "lm")
    return _note_edit(framed, "scope", rng)


def _turn(version: Version, rng: np.random.Generator, props: Props) -> Version:
    """Turn it by 3 to 20 degrees, on a ground that fills the corners."""
    width, height = version.picture.size
    angle = float(rng.uniform(3, 20) * rng.choice([-1, 1]))
    moved = np.vstack([cv2.getRotationMatrix2D((width / 2, height / 2), angle, 1), [0, 0, 1]])
    size = width, height
    if rng.random() < 0.5:
        cosine, sine = abs(moved[0, 0]), abs(moved[0, 1])
        size = int(width * cosine + height * sine), int(height * cosine + width * sine)
        moved[:2, 2] += (size[0] - width) / 2, (size[1] - height) / 2
    half = np.array([[1, 0, -0.5], [0, 1, -0.5], [0, 0, 1]])
    inner = half @ moved @ np.linalg.inv(half)
    ground = (0, 0, 0) if rng.random() < 0.5 else _draw_ground(rng)
    pixels = cv2.warpPerspective(np.asarray(version.picture), inner, size, flags=cv2.INTER_CUBIC, borderValue=ground)
    turned = _move_version(version, Image.fromarray(pixels), moved)
    return _soften_version(turned, turned.picture, 0.35)


def _print_on_page(version: Version, rng: np.random.Generator, props: Props) -> Version:
    """Set it into a page of text, which is more than a frame."""
    width = version.picture.width
    left, right = (int(share * width) for share in rng.uniform(0.05, 0.3, 2))
    above, below = int(rng.uniform(0.15, 0.8) * width), int(rng.uniform(0.2, 0.8) * width)
    ground = (255, 255, 255) if rng.random() < 0.7 else draw_colour(rng)
    page = _pad_version(version, (left, above, right, below), ground)
    draw, size = ImageDraw.Draw(page.picture), page.picture.width / rng.uniform(28, 60)
    ink = (0, 0, 0) if sum(ground) > 380 else (255, 255, 255)
    for top, bottom in ((size, above - size / 2), (above + version.picture.height + size / 2, page.picture.height)):
        for y in np.arange(top, bottom - size, rng.uniform(1.3, 1.7) * size):
            letters = int(rng.uniform(0.5, 1) * (page.picture.width / size - 2) / 0.55)
            draw.text((size, y), draw_words(rng, letters), ink, load_font(max(5, round(size))))
    return _note_edit(page, "scope", rng)


def _set_beside(version: Version, rng: np.random.Generator, props: Props) -> Version:
    """Put another photo beside it, or below."""
    width, height = version.picture.size
    if rng.random() < 0.5:
        box = width, 0, width + int(width * rng.uniform(0.4, 1)), height
    else:
        box = 0, height, width, height + int(height * rng.uniform(0.4, 1))
    wider = _pad_version(version, (0, 0, box[2] - width, box[3] - height), (0, 0, 0))
    wider.picture.paste(props.photo(rng, (box[2] - box[0], box[3] - box[1])), box[:2])
    return _note_edit(wider, "scope", rng)


# What takes a part away, or pixels.


def _crop(version: Version, rng: np.random.Generator, props: Props) -> Version:
    shares = rng.uniform(0, 0.25, 4)
    shares[rng.integers(4)] += 0.06
    return _cut_sides(version, shares)


def _trim_sides(version: Version, rng: np.random.Generator, props: Props) -> Version:
    """Trim a little off one side of the picture, or several."""
    shares = np.zeros(4)
    sides = rng.choice(4, int(rng.choice([1, 1, 2, 4])), replace=False)
    shares[sides] = rng.uniform(0.008, 0.06, len(sides))
    return _cut_sides(version, shares)


def _cut_sides(version: Version, shares: np.ndarray) -> Version:
    """The version without such shares of it at the left, above, at the right and below."""
    width, height = version.picture.size
    left, top = round(shares[0] * width), round(shares[1] * height)
    box = left, top, round((1 - shares[2]) * width), round((1 - shares[3]) * height)
    return _move_version(version, version.picture.crop(box), np.array([[1, 0, -left], [0, 1, -top], [0, 0, 1.0]]))


def _shrink(version: Version, rng: np.random.Generator, props: Props) -> Version:
    return scale_version(version, rng.uniform(0.25, 0.85))


def _enlarge(version: Version, rng: np.random.Generator, props: Props) -> Version:
    how = (Image.Resampling.LANCZOS, Image.Resampling.BICUBIC, Image.Resampling.BILINEAR)[rng.integers(3)]
    return scale_version(version, rng.uniform(1.15, 2.2), how)


# What changes tones, hues and shades.


def _brighten(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    factor = rng.uniform(0.6, 0.87) if rng.random() < 0.5 else rng.uniform(1.13, 1.5)
    return ImageEnhance.Brightness(picture).enhance(factor)


def _contrast(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    factor = rng.uniform(0.5, 0.82) if rng.random() < 0.5 else rng.uniform(1.2, 1.8)
    return ImageEnhance.Contrast(picture).enhance(factor)


def _gamma(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    power = rng.uniform(0.5, 0.8) if rng.random() < 0.5 else rng.uniform(1.25, 2)
    return picture.point([round(255 * (level / 255) ** power) for level in range(256)] * 3)


def _warm(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    gains = rng.uniform(0.75, 1.2, 3)
    gains = gains if np.ptp(gains) > 0.15 else np.array([1.12, 1.0, 0.85])
    return Image.fromarray(np.clip(np.asarray(picture) * gains, 0, 255).astype(np.uint8))


def _equalise(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    made = ImageOps.equalize(picture) if rng.random() < 0.5 else ImageOps.autocontrast(picture, rng.uniform(1, 5))
    changed = np.abs(np.asarray(made, int) - np.asarray(picture)).mean()
    return made if changed > 3 else _gamma(picture, rng)


def _darken_edges(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Darken what lies away from a place near the middle."""
    middle = rng.uniform(0.35, 0.65, 2)
    x, y = (np.linspace(-at, 1 - at, side) for at, side in zip(middle, picture.size, strict=True))
    far = np.clip(1.8 * np.hypot(x, y[:, None]), 0, 1.2) ** rng.uniform(1.2, 3)
    light = np.clip(1 - rng.uniform(0.35, 0.8) * far, 0.05, 1)
    return Image.fromarray((np.asarray(picture) * light[..., None]).astype(np.uint8))


def _mix_channels(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Mix each channel with the others and move its levels, as filters of photo apps do."""
    rows = np.eye(3) * rng.uniform(0.55, 1.05, (3, 1)) + rng.uniform(-0.1, 0.35, (3, 3))
    matrix = np.concatenate([rows, rng.uniform(-25, 35, (3, 1))], 1).ravel().tolist()
    return picture.convert("RGB", tuple(matrix))


def _fog(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    grey = int(rng.integers(180, 240))
    return Image.blend(picture, Image.new("RGB", picture.size, (grey, grey, grey)), rng.uniform(0.25, 0.6))


def _gaudy(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    made = ImageEnhance.Color(picture).enhance(rng.uniform(1.4, 2.2))
    return made if np.abs(np.asarray(made, int) - np.asarray(picture)).mean() > 3 else _gamma(picture, rng)


def _grey(version: Version, rng: np.random.Generator, props: Props) -> Version:
    return replace(version, picture=ImageOps.grayscale(version.picture).convert("RGB"), colour=0.0)


def _duotone(version: Version, rng: np.random.Generator, props: Props) -> Version:
    dark, light = rng.integers(0, 110, 3), rng.integers(150, 256, 3)
    inks = ImageOps.colorize(version.picture.convert("L"), tuple(dark.tolist()), tuple(light.tolist()))
    return replace(_note_edit(version, "tones", rng, inks), colour=0.0)


def _fade(version: Version, rng: np.random.Generator, props: Props) -> Version:
    share = rng.uniform(0.15, 0.65)
    return replace(version, picture=ImageEnhance.Color(version.picture).enhance(share), colour=version.colour * share)


def _posterise(version: Version, rng: np.random.Generator, props: Props) -> Version:
    bits = int(rng.integers(2, 5))
    return replace(version, picture=ImageOps.posterize(version.picture, bits), shades=min(version.shades, 2.0**bits))


def _few_colours(version: Version, rng: np.random.Generator, props: Props) -> Version:
    count, dither = int(rng.choice([8, 16, 32, 64])), (Image.Dither.NONE, Image.Dither.FLOYDSTEINBERG)[rng.integers(2)]
    picture = version.picture.quantize(count, dither=dither).convert("RGB")
    return replace(version, picture=picture, shades=min(version.shades, count / 2))


def _two_colours(version: Version, rng: np.random.Generator, props: Props) -> Version:
    grey = version.picture.convert("L")
    level = int(rng.integers(90, 160))
    steps = [0] * level + [255] * (256 - level)
    one_bit = grey.convert("1") if rng.random() < 0.5 else grey.point(steps)
    return replace(version, picture=one_bit.convert("RGB"), shades=2.0, colour=0.0, blur=version.blur + 1)


# What takes detail, or adds what looks like it.


def _blur(version: Version, rng: np.random.Generator, props: Props) -> Version:
    pixels = rng.uniform(0.8, 4)
    return _soften_version(version, version.picture.filter(ImageFilter.GaussianBlur(pixels)), pixels)


def _median(version: Version, rng: np.random.Generator, props: Props) -> Version:
    size = int(rng.choice([3, 5]))
    return _soften_version(version, version.picture.filter(ImageFilter.MedianFilter(size)), 0.28 * size)


def _denoise(version: Version, rng: np.random.Generator, props: Props) -> Version:
    """Take what is fine and leave edges: stars, grain, the texture of skin and of cloth."""
    size, levels = int(rng.integers(5, 12)), float(rng.uniform(15, 80))
    pixels = np.asarray(version.picture)
    smooth = cv2.bilateralFilter(pixels, size, levels, size / 2)
    if np.abs(smooth.astype(int) - pixels).mean() < 1.5:
        return _blur(version, rng, props)
    return _soften_version(version, Image.fromarray(smooth), 0.2 * size)


def _move_camera(version: Version, rng: np.random.Generator, props: Props) -> Version:
    """Blur along a line."""
    length, angle = max(3.0, rng.uniform(0.02, 0.08) * min(version.picture.size)), rng.uniform(0, np.pi)
    kernel, middle = np.zeros((int(length) + 3,) * 2, np.float32), (int(length) + 3) / 2
    x, y = length / 2 * np.cos(angle), length / 2 * np.sin(angle)
    cv2.line(kernel, (int(middle - x), int(middle - y)), (int(middle + x), int(middle + y)), 1.0)
    moved = cv2.filter2D(np.asarray(version.picture), -1, kernel / kernel.sum(), borderType=cv2.BORDER_REPLICATE)
    return _soften_version(version, Image.fromarray(moved), 0.22 * length)


def _pixelate(version: Version, rng: np.random.Generator, props: Props) -> Version:
    """Squares of one colour, of a fiftieth of the shorter side or so."""
    size, block = version.picture.size, max(2.0, rng.uniform(0.012, 0.032) * min(version.picture.size))
    few = version.picture.resize([max(1, round(side / block)) for side in size], Image.Resampling.BOX)
    return _soften_version(version, few.resize(size, Image.Resampling.NEAREST), 0.5 * block)


def _blur_half(version: Version, rng: np.random.Generator, props: Props) -> Version:
    """Blur one side, as a lens does that is focused elsewhere."""
    pixels, (width, height) = np.asarray(version.picture), version.picture.size
    radius, share, kind = float(rng.uniform(1.2, 4)), rng.uniform(0.35, 0.65), rng.integers(4)
    part = (slice(None), slice(0, int(share * width))) if kind < 2 else (slice(0, int(share * height)), slice(None))
    mask = np.zeros((height, width), np.float32)
    mask[part] = 1
    mask = mask[::-1, ::-1] if kind % 2 else mask
    if not _has_detail(pixels[mask > 0].reshape(-1, 1, 3).repeat(2, 1)) and not _has_detail(pixels[part]):
        return _blur(version, rng, props)
    if radius / version.scale < 1.2 * version.blur:
        return _blur(version, rng, props)
    soft = cv2.GaussianBlur(np.ascontiguousarray(mask), (0, 0), float(rng.uniform(0.5, 0.04 * width + 0.6)))[..., None]
    mixed = cv2.GaussianBlur(pixels, (0, 0), radius) * soft + pixels * (1 - soft)
    return _note_edit(version, "softened", rng, Image.fromarray(mixed.astype(np.uint8)))


def _sharpen(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    mask = ImageFilter.UnsharpMask(rng.uniform(0.8, 3), int(rng.integers(60, 250)), 2)
    return picture.filter(mask)


def _grain(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    shape = (picture.height, picture.width, 3 if rng.random() < 0.6 else 1)
    noise = rng.standard_normal(shape, dtype=np.float32) * rng.uniform(4, 20)
    return Image.fromarray(np.clip(np.asarray(picture) + noise, 0, 255).astype(np.uint8))


def _compress(version: Version, rng: np.random.Generator, props: Props) -> Version:
    return save_version(version, int(rng.integers(12, 70)), webp=rng.random() < 0.2)


# By family, each of which a run may leave out to be measured on it; what is named twice is drawn twice as often.
FAMILIES: dict[str, tuple[Edit, ...]] = {
    "writing": _paints(
        "marks", *(_caption,) * 3, _capitals, *(_signature,) * 2, *(_large_word,) * 2, _slanting_words
    ),
    "covers": _paints(
        "marks", *(_pen,) * 4, _bar, *(_cover,) * 2, *(_stick,) * 2, _hide, _weather, _rule, _dot, _round_corners
    ),
    "parts": (_replace_part, _replace_detail, _replace_detail),
    "frames": tuple(map(_as_frame, (_frame, _frame, _write_beside, _screenshot, _screenshot, _turn))),
    "scenes": tuple(map(_as_frame, (_print_on_page, _set_beside))),
    "crops": (_crop, _trim_sides),
    "sizes": (_shrink, _shrink, _enlarge),
    "tones": _paints(
        "tones", _brighten, _contrast, _gamma, _warm, _equalise, _darken_edges, _fog, _gaudy, _mix_channels
    ),
    "hues": (_grey, _grey, _duotone, _fade),
    "shades": (_posterise, _posterise, _posterise, _few_colours, _two_colours),
    "blurs": (_blur, _blur, _median, _denoise, _denoise, _move_camera, _pixelate, _blur_half, _blur_half),
    "grain": _paints("grain", _sharpen, _grain),
    "saves": (_compress,),
}  # fmt: skip
CHANCES = {
    "writing": 2.2, "covers": 2.4, "parts": 2.6, "frames": 1.6, "scenes": 0.8, "crops": 1.2, "sizes": 1.6, "tones": 2.6,
    "hues": 1.0, "shades": 3.2, "blurs": 1.8, "grain": 1.0, "saves": 1.4,
}  # fmt: skip
