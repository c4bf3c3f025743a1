"""Edits of pictures as tensors, a whole batch at a time: how training makes two views of one photo.

Every function takes and returns pictures (B, 3, S, S) in [0, 1] and draws from the generator it is given, so that a
step of training is the same whenever it is run again; all of it happens on the generator's device. The edits people
make with files (Pillow) stand in `edits`, for measuring.
"""

import io
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFont
from torch import Generator, Tensor


@dataclass(frozen=True)
class Strength:
    """How far an edit may go; every number is a probability unless it says otherwise.

    `area` is the smallest share of the photo that a crop keeps.
    """

    area: float = 0.2
    crop: float = 0.7
    flip: float = 0.4
    rotate: float = 0.4
    perspective: float = 0.25
    shrink: float = 0.2
    colour: float = 0.6
    grey: float = 0.08
    blur: float = 0.2
    noise: float = 0.2
    overlay: float = 0.35
    jpeg: float = 0.3


HEAVY = Strength()
MILD = Strength(0.7, 0.4, 0.0, 0.15, 0.1, 0.05, 0.3, 0.0, 0.1, 0.1, 0.05, 0.2)
SHOT = Strength(0.4, 0.7, 0.3, 0.4, 0.3, 0.15, 0.6, 0.02, 0.2, 0.15, 0.05, 0.2)


class Views(NamedTuple):
    """Edited pictures (B, 3, S, S), and for each pixel its place (x, y) in the photo, (B, S, S, 2); the photo spans
    [-1, 1].
    """

    pictures: Tensor
    places: Tensor


def edit(photos: Tensor, size: int, strength: Strength, generator: Generator, sprites: Tensor) -> Views:
    """Return one edited view of each photo: uint8 (B, H, H, 3) -> pictures (B, 3, size, size)."""
    sources = photos.permute(0, 3, 1, 2).float() / 255
    views, places = reframe(sources, size, strength, generator)
    views = recolour(views, strength, generator)
    views = overlay(views, sprites, strength, generator)
    views = degrade(views, strength, generator)
    return Views(recompress(views, strength, generator).clamp_(0, 1), places)


def plain(photos: Tensor, size: int) -> Tensor:
    """Return the photos as they are served, unedited: uint8 (B, H, H, 3) -> float (B, 3, size, size)."""
    return F.interpolate(photos.permute(0, 3, 1, 2).float() / 255, (size, size), mode="bilinear", antialias=True)


def unmoved(count: int, size: int) -> Tensor:
    """The places (count, size, size, 2) of a picture that shows its photo as it is."""
    line = (torch.arange(size) + 0.5) * (2 / size) - 1
    return torch.stack(torch.meshgrid(line, line, indexing="xy"), -1).expand(count, -1, -1, -1)


def reframe(sources: Tensor, size: int, strength: Strength, generator: Generator) -> Views:
    """Crop, flip, rotate, tilt and shrink in one resampling; what falls outside is a colour or another photo."""
    count = len(sources)
    draw = _Draw(count, generator)
    ones, zeros = torch.ones(count, device=generator.device), torch.zeros(count, device=generator.device)
    cropped = draw.chance(strength.crop)
    area = torch.where(cropped, draw.between(strength.area, 1.0), ones)
    aspect = torch.where(cropped, draw.between(-0.3, 0.3), zeros).exp()
    width, height = (area * aspect).sqrt().clamp(max=1), (area / aspect).sqrt().clamp(max=1)
    x = draw.between(-1, 1) * (1 - width)
    y = draw.between(-1, 1) * (1 - height)
    turned = draw.chance(strength.rotate)
    small, quarter = draw.between(-0.35, 0.35), draw.among(3) * (math.pi / 2) + math.pi / 2
    free = draw.between(-math.pi, math.pi)
    which = draw.between(0, 1)
    angle = torch.where(which < 0.5, small, torch.where(which < 0.75, quarter, free)) * turned
    # Panels are squashed photos: a turn of the photo is a turn between two stretches of the panel.
    stretch = draw.between(-0.4, 0.4).exp()
    shrunk = torch.where(draw.chance(strength.shrink), draw.between(1.1, 2.2), ones)
    flip = torch.where(draw.chance(strength.flip), -ones, ones)
    upside = torch.where(draw.chance(strength.flip * 0.2), -ones, ones)
    cos, sin = angle.cos() * shrunk, angle.sin() * shrunk
    tilt = draw.chance(strength.perspective).float()
    matrix = torch.stack(
        [
            torch.stack([width * flip * cos, -width * flip * sin * stretch, x], -1),
            torch.stack([height * upside * sin / stretch, height * upside * cos, y], -1),
            torch.stack([draw.between(-0.25, 0.25) * tilt, draw.between(-0.25, 0.25) * tilt, ones], -1),
        ],
        1,
    )
    points = F.pad(unmoved(1, size)[0], (0, 1), value=1.0).flatten(0, 1).to(generator.device)
    mapped = (points @ matrix.transpose(1, 2)).unflatten(1, (size, size))
    grid = mapped[..., :2] / mapped[..., 2:].clamp(min=0.2)
    inside = (grid.abs() <= 1).all(-1).float().unsqueeze(1)
    views = F.grid_sample(sources, grid, padding_mode="border", align_corners=False)
    colour = draw.uniform(3, 1, 1) * draw.chance(0.7).view(-1, 1, 1, 1)
    others = F.interpolate(sources.roll(1, 0), (size, size), mode="bilinear")
    ground = torch.where(draw.chance(0.3).view(-1, 1, 1, 1), others, colour.expand(-1, -1, size, size))
    # A smear of the border, as some editors leave it, is what `padding_mode` gave.
    smeared = draw.chance(0.2).float().view(-1, 1, 1, 1)
    keep = torch.maximum(inside, smeared)
    return Views(views * keep + ground * (1 - keep), grid)


def recolour(views: Tensor, strength: Strength, generator: Generator) -> Tensor:
    """Brightness, contrast, saturation, a colour cast, gamma; sometimes grey."""
    draw = _Draw(len(views), generator)
    used = draw.chance(strength.colour)

    def factor(reach: float) -> Tensor:
        return (draw.between(-reach, reach) * used).exp().view(-1, 1, 1, 1)

    red, green, blue = views.split(1, 1)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    saturation = factor(0.7) * ~draw.chance(strength.grey).view(-1, 1, 1, 1)
    views = luma + (views - luma) * saturation
    mean = views.mean((1, 2, 3), keepdim=True)
    views = (mean + (views - mean) * factor(0.5)) * factor(0.35)
    cast = (draw.normal(3, 1, 1) * 0.1 * used.view(-1, 1, 1, 1)).exp()
    return (views * cast).clamp(1e-4, 1) ** factor(0.35)


def overlay(views: Tensor, sprites: Tensor, strength: Strength, generator: Generator) -> Tensor:
    """Lay one or two sprites (text, stickers, bars) over some of the views, at any place, size and tilt."""
    views = views.clone()
    for _ in range(2):
        (chosen,) = torch.where(_Draw(len(views), generator).chance(strength.overlay * 0.7))
        if not len(chosen):
            continue
        draw = _Draw(len(chosen), generator)
        scale, angle = draw.between(0.15, 0.7), draw.between(-0.6, 0.6) * draw.chance(0.5)
        squash = draw.between(-0.5, 0.5).exp()
        x, y = draw.between(-0.9, 0.9), draw.between(-0.9, 0.9)
        cos, sin = angle.cos() / scale, angle.sin() / scale
        matrix = torch.stack(
            [
                torch.stack([cos, sin, -(cos * x + sin * y)], -1),
                torch.stack([-sin * squash, cos * squash, (sin * x - cos * y) * squash], -1),
            ],
            1,
        )
        grid = F.affine_grid(matrix, [len(chosen), 4, *views.shape[2:]], align_corners=False)
        drawn = sprites[draw.among(len(sprites))].float() / 255
        sprite = F.grid_sample(drawn, grid, align_corners=False)
        alpha = sprite[:, 3:] * draw.between(0.6, 1.0).view(-1, 1, 1, 1)
        views[chosen] = views[chosen] * (1 - alpha) + sprite[:, :3] * alpha
    return views


def degrade(views: Tensor, strength: Strength, generator: Generator) -> Tensor:
    """Blur some of the views, add noise to some."""
    draw = _Draw(len(views), generator)
    small = F.avg_pool2d(views, 2)
    blurred = F.interpolate(small, views.shape[2:], mode="bilinear")
    amount = (draw.chance(strength.blur).float() * draw.between(0.3, 1)).view(-1, 1, 1, 1)
    views = views * (1 - amount) + blurred * amount
    deviation = (draw.chance(strength.noise).float() * draw.between(0.01, 0.08)).view(-1, 1, 1, 1)
    return views + draw.normal(*views.shape[1:]) * deviation


def recompress(views: Tensor, strength: Strength, generator: Generator) -> Tensor:
    """Save some of the views as JPEG of quality 15 to 80 and read them again."""
    draw = _Draw(len(views), generator)
    qualities = draw.among(66) + 15
    (chosen,) = torch.where(draw.chance(strength.jpeg))
    if not len(chosen):
        return views
    views = views.clone()
    read = _compressed_there if views.is_cuda else _compressed_here
    views[chosen] = read(views[chosen].clamp(0, 1), qualities[chosen])
    return views


def _compressed_here(views: Tensor, qualities: Tensor) -> Tensor:
    read = []
    for picture, quality in zip((views * 255).round().byte().permute(0, 2, 3, 1).numpy(), qualities, strict=True):
        file = io.BytesIO()
        Image.fromarray(picture).save(file, "JPEG", quality=int(quality))
        read.append(torch.from_numpy(np.asarray(Image.open(file)).copy()))
    return torch.stack(read).permute(0, 3, 1, 2).float() / 255


def _compressed_there(views: Tensor, qualities: Tensor) -> Tensor:
    """The same on an accelerator: quantised in place, without a file and without a trip to the host."""
    from kornia.enhance import jpeg_codec_differentiable

    return jpeg_codec_differentiable(views, qualities.float())


def draw_sprites(count: int, seed: int, size: int = 64) -> Tensor:
    """Draw the overlays of training: uint8 (count, 4, size, size) RGBA; letters, stickers with faces, frames and
    bars.
    """
    rng = np.random.default_rng(seed)
    return torch.stack([torch.from_numpy(_sprite(rng, size)).permute(2, 0, 1) for _ in range(count)])


def _sprite(rng: np.random.Generator, size: int) -> np.ndarray:
    picture = Image.new("RGBA", (size, size))
    draw = ImageDraw.Draw(picture)
    colour, second = (tuple(int(c) for c in rng.integers(0, 256, 3)) for _ in range(2))
    ink = [(255, 255, 255), (0, 0, 0), colour][rng.integers(3)]
    match rng.integers(5):
        case 0 | 1:
            font = ImageFont.load_default(float(rng.integers(10, 30)))
            letters = "".join(chr(c) for c in rng.choice([*range(48, 58), *range(65, 91), *range(97, 123)], 12))
            for line in range(rng.integers(1, 4)):
                draw.text((2, 2 + line * 20), letters[line * 4 : line * 4 + 8], font=font, fill=ink)
        case 2:
            draw.ellipse((2, 2, size - 3, size - 3), fill=colour, outline=second, width=2)
            for eye in (0.33, 0.66):
                draw.ellipse((size * eye - 5, 18, size * eye + 5, 30), fill=second)
            draw.arc((16, 20, size - 16, size - 12), 20, 160, fill=second, width=4)
        case 3:
            corners = [tuple(float(v) for v in point) for point in rng.uniform(0, size, (int(rng.integers(3, 8)), 2))]
            draw.polygon(corners, fill=colour, outline=second)
        case _:
            height = int(rng.integers(size // 6, size))
            draw.rectangle((0, 0, size, height), fill=colour)
            draw.text((4, height / 3), "".join(chr(c) for c in rng.integers(65, 91, 6)), fill=ink)
    return np.asarray(picture).copy()


class _Draw:
    """Random numbers for a batch, one a picture or a whole shape of them, on the generator's device."""

    def __init__(self, count: int, generator: Generator) -> None:
        self.count, self.generator = count, generator

    def uniform(self, *shape: int) -> Tensor:
        return torch.rand(self.count, *shape, generator=self.generator, device=self.generator.device)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(self.count, *shape, generator=self.generator, device=self.generator.device)

    def between(self, low: float, high: float) -> Tensor:
        return self.uniform() * (high - low) + low

    def chance(self, probability: float) -> Tensor:
        return self.uniform() < probability

    def among(self, choices: int) -> Tensor:
        return torch.randint(choices, (self.count,), generator=self.generator, device=self.generator.device)
