"""The sheet that a document is drawn on: its canvas, colours, text and content."""

import colorsys
import io
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

Colour = tuple[int, int, int]
Box = tuple[float, float, float, float]


class Content:
    """Random numbers for a document's content, one item at a time: a line, a number, a bubble.

    Every item draws from `shared`, but for the one numbered `swapped`, which draws from `own`.
    """

    def __init__(self, shared: np.random.Generator, own: np.random.Generator | None = None, swapped: int = -1) -> None:
        self._shared, self._own, self._swapped = shared, own, swapped
        self.items = 0

    def item(self) -> np.random.Generator:
        """Return the generator of the next item."""
        self.items += 1
        return self._own if self._own is not None and self.items - 1 == self._swapped else self._shared


@dataclass(frozen=True)
class Theme:
    """A family's colours: `ground` under `ink`, `soft` between them, and strong `accents`."""

    dark: bool
    ground: Colour
    panel: Colour
    soft: Colour
    ink: Colour
    accents: tuple[Colour, ...]


class Sheet:
    """A canvas of about side x side pixels, with the random numbers from which a document is drawn.

    `style` decides what the members of a family share, `content` what each has of its own; a document takes the same
    numbers from `style` whatever its content is.
    """

    def __init__(self, style: np.random.Generator, content: Content, side: float) -> None:
        self.style, self.content, self.side = style, content, side
        self.open(1.0, (255, 255, 255))

    def open(self, aspect: float, ground: Colour) -> tuple[int, int]:
        """Begin anew on an empty canvas, aspect = width / height; return its width and height in pixels."""
        width, height = round(self.side * aspect**0.5), round(self.side / aspect**0.5)
        return self.show(Image.new("RGB", (width, height), ground))

    def show(self, image: Image.Image) -> tuple[int, int]:
        """Take an RGB image as the canvas; return its width and height in pixels."""
        self.image, self.draw = image, ImageDraw.Draw(image)
        return image.size

    def item(self) -> np.random.Generator:
        """Return the generator of the next item of content."""
        return self.content.item()

    def plan(self) -> np.random.Generator:
        """Return the generator for how long the parts of a document are: in half of the families all have them."""
        own = self.item()
        seed = int(self.style.integers(2**31)), int(own.integers(2**31))
        return np.random.default_rng(seed[0] if self.style.random() < 0.5 else seed[1])

    def uniform(self, low: float, high: float) -> float:
        """Return a number of the family's style."""
        return float(self.style.uniform(low, high))

    def count(self, low: int, high: int) -> int:
        """Return a whole number of the family's style, from low to high, both among them."""
        return int(self.style.integers(low, high + 1))

    def chance(self, share: float) -> bool:
        """Return true in this share of the families."""
        return bool(self.style.random() < share)

    def theme(self, dark: float = 0.25) -> Theme:
        """Return colours, dark in this share of the families, over a ground that is tinted in most."""
        hue, strong = self.uniform(0, 1), self.uniform(0.3, 0.95)
        tint = self.uniform(0, 0.16) if self.chance(0.6) else 0.0
        accents = tuple(
            convert_hsv(hue + float(turn), strong, float(value))
            for turn, value in zip(self.style.uniform(0, 1, 6), self.style.uniform(0.45, 0.95, 6), strict=True)
        )
        if self.chance(dark):
            level = self.uniform(0.05, 0.22)
            ground, panel, soft = (convert_hsv(hue, 3 * tint, value) for value in (level, level + 0.08, 0.5))
            return Theme(True, ground, panel, soft, convert_hsv(hue, tint, self.uniform(0.75, 1)), accents)
        level = self.uniform(0.88, 1)
        shades = (
            convert_hsv(hue, tint, level),
            convert_hsv(hue, 1.4 * tint, level - 0.08),
            convert_hsv(hue, tint, 0.6),
        )
        return Theme(False, *shades, convert_hsv(hue, 0.5, self.uniform(0, 0.35)), accents)

    def text(
        self, x: float, y: float, line: str, size: float, fill: Colour, *, align: float = 0.0, bold: bool = False
    ) -> float:
        """Write a line with its top at y; x is its left end, with align 0.5 its middle, with 1 its right end.

        Return the line's width.
        """
        height = max(4, round(size) if size < 16 else 2 * round(size / 2))
        pieces = [
            piece for word in line.split(" ") for piece in (*([word] if word.isalpha() or len(word) < 2 else word), " ")
        ][:-1]
        drawn = [_render_piece(piece, height, bold) for piece in pieces]
        width = sum(advance for _, advance in drawn)
        x -= align * width
        for bitmap, advance in drawn:
            if bitmap is not None:
                self.draw.bitmap((round(x), round(y)), bitmap, fill)
            x += advance
        return width

    def mono(self, x: float, y: float, line: str, fill: Colour) -> float:
        """Write a line in letters of 6 x 11 pixels with its top left at (x, y); return the line's width."""
        self.draw.text((round(x), round(y)), line, fill=fill, font=_load_mono())
        return 6.0 * len(line)

    def picture(self, box: Box, rng: np.random.Generator) -> None:
        """Fill a box with something like a small photo: a cloud of colours."""
        left, top, right, bottom = (round(side) for side in box)
        if right > left and bottom > top:
            coarse = rng.integers(0, 256, (1, 1, 3)) * 0.7 + rng.integers(0, 256, (int(rng.integers(2, 6)), 4, 3)) * 0.3
            cloud = Image.fromarray(coarse.astype(np.uint8))
            self.image.paste(cloud.resize((right - left, bottom - top), Image.Resampling.BILINEAR), (left, top))


def convert_hsv(hue: float, saturation: float, value: float) -> Colour:
    """Return a colour from hue (turns), saturation and value (0 to 1, cut off there)."""
    red, green, blue = colorsys.hsv_to_rgb(hue % 1, min(1, max(0, saturation)), min(1, max(0, value)))
    return round(255 * red), round(255 * green), round(255 * blue)


@lru_cache(1)
def _load_mono() -> ImageFont.ImageFont:
    return ImageFont.load_default_imagefont()


@lru_cache(256)
def _load_font(size: int) -> ImageFont.FreeTypeFont:
    face = ImageFont.load_default(size)
    assert isinstance(face, ImageFont.FreeTypeFont)
    return ImageFont.truetype(io.BytesIO(face.font_bytes), size, layout_engine=ImageFont.Layout.BASIC)


# Rendering a word costs twenty times as much as copying it.
@lru_cache(40000)
def _render_piece(piece: str, size: int, bold: bool) -> tuple[Image.Image | None, float]:
    """Render a word or a letter in L and return it with its width; a space has no picture."""
    if piece in ("", " "):
        return None, 0.25 * size if piece else 0.0
    font, stroke = _load_font(size), size / 24 if bold else 0.0
    advance = font.getlength(piece) + 2 * stroke
    bitmap = Image.new("L", (int(advance) + 2, round(1.3 * size)))
    ImageDraw.Draw(bitmap).text((0, 0), piece, fill=255, font=font, stroke_width=stroke)
    return bitmap, advance
