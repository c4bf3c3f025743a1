"""Edits of shape, as changes of where each pixel is read: crop, stretch, flip, rotate, tilt, shrink, pad."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from diptych_training.data.augment.views import OUTSIDE, Draw, Views, make_identity_places

GEOMETRY = ("crop", "stretch", "flip", "rotate", "perspective", "shrink", "pad")
Row = tuple[Tensor | float, Tensor | float, Tensor | float]


def crop_matrices(chosen: dict[str, Tensor], area: Tensor, draw: Draw) -> Tensor:
    """Matrices (n, 3, 3) from a crop's coordinates to the photo's; both are [-1, 1] across.

    `area` (n,) is the smallest share of each photo that is kept.
    """
    side = torch.where(chosen["crop"], torch.lerp(area.sqrt(), torch.ones_like(area), draw.uniform()), 1.0)
    aspect = torch.where(chosen["crop"], draw.between(-0.3, 0.3), 0.0).exp()
    ratio = torch.where(chosen["stretch"], draw.between(-0.7, 0.7), 0.0).exp()
    width = (side * aspect.sqrt()).clamp(max=1) * ratio.clamp(max=1)
    height = (side / aspect.sqrt()).clamp(max=1) / ratio.clamp(min=1)
    # A crop that is narrow by both is widened again to the smallest area.
    small = (area / (width * height)).clamp(min=1).sqrt()
    width, height = (width * small).clamp(max=1), (height * small).clamp(max=1)
    x, y = draw.between(-1, 1) * (1 - width), draw.between(-1, 1) * (1 - height)
    return stack_matrices((width, 0, x), (0, height, y))


def canvas_matrices(chosen: dict[str, Tensor], draw: Draw) -> Tensor:
    """Matrices (n, 3, 3) from a view's coordinates to the crop's."""
    ones = torch.ones(draw.count, device=draw.generator.device)
    flip = torch.where(chosen["flip"], draw.chance(0.8) * -2.0 + 1, ones)
    upside = torch.where(chosen["flip"] & (flip > 0), -ones, ones)
    small, quarter = draw.between(-0.35, 0.35), draw.among(3) * (math.pi / 2) + math.pi / 2
    free, which = draw.between(-math.pi, math.pi), draw.uniform()
    angle = torch.where(which < 0.45, small, torch.where(which < 0.65, quarter, free)) * chosen["rotate"]
    # Panels are squashed photos: a turn of the photo is a turn between two stretches of the panel.
    squash = (draw.between(-0.4, 0.4) * chosen["rotate"]).exp()
    # Half of the turned photos are shown whole, with their corners, the others fill the view.
    zoom = torch.where(draw.chance(0.5), angle.cos().abs() + angle.sin().abs(), ones)
    cos, sin = angle.cos() * zoom, angle.sin() * zoom
    turn = stack_matrices((flip * cos, -flip * sin * squash, 0), (upside * sin / squash, upside * cos, 0))
    shrunk = 1 + draw.within(0.2, 1.5) * chosen["shrink"]
    free_room = (shrunk - 1) * 0.8
    pad, upright = torch.where(chosen["pad"], draw.between(1.2, 2.2), ones), draw.chance(0.5)
    room = stack_matrices(
        (shrunk * torch.where(upright, pad, ones), 0, draw.between(-1, 1) * free_room),
        (0, shrunk * torch.where(upright, ones, pad), draw.between(-1, 1) * free_room),
    )
    tilt = [draw.within(-0.35, 0.35) * chosen["perspective"] for _ in range(2)]
    return turn @ room @ stack_matrices((1, 0, 0), (0, 1, 0), (tilt[0], tilt[1], 1))


def stack_matrices(first: Row, second: Row, third: Row = (0, 0, 1)) -> Tensor:
    """Matrices (n, 3, 3) from rows of numbers for each picture, or of one for all."""
    given = next(value for row in (first, second, third) for value in row if isinstance(value, Tensor))

    def spread(value: Tensor | float) -> Tensor:
        return torch.as_tensor(value, dtype=given.dtype, device=given.device).expand_as(given)

    return torch.stack([torch.stack([spread(value) for value in row], -1) for row in (first, second, third)], 1)


def place_matrices(x: Tensor, y: Tensor, width: Tensor, height: Tensor, angle: Tensor | None = None) -> Tensor:
    """Matrices from a view to a sprite at (x, y), of sides `width` and `height` (1: the view's), turned by `angle`."""
    angle = torch.zeros_like(width) if angle is None else angle
    cos, sin = angle.cos(), angle.sin()
    return stack_matrices(
        (cos / width, sin / width, -(cos * x + sin * y) / width),
        (-sin / height, cos / height, (sin * x - cos * y) / height),
    )


def project_pixels(matrix: Tensor, size: int) -> Tensor:
    """The coordinates (n, size, size, 2) that matrices (n, 3, 3) give to each pixel of a view."""
    line = make_identity_places(1, size)[0, 0, :, 0].to(matrix.device)
    scale_x, scale_y, shift = (part.unsqueeze(-1) for part in matrix.unbind(2))
    across, down = scale_x * line, scale_y * line + shift
    grid = torch.empty(len(matrix), size, size, 2, device=matrix.device)
    for axis in (0, 1):
        torch.add(across[:, axis].unsqueeze(1), down[:, axis].unsqueeze(2), out=grid[..., axis])
    (tilted,) = torch.where(matrix[:, 2, :2].abs().sum(1) > 0)
    if len(tilted):
        depth = across[tilted, 2].unsqueeze(1) + down[tilted, 2].unsqueeze(2)
        grid[tilted] = grid[tilted] / depth.clamp_(min=0.2).unsqueeze(-1)
    return grid


def is_inside(grid: Tensor) -> Tensor:
    """Which pixels read within the picture: (n, S, S, 2) -> bool (n, S, S)."""
    x, y = grid.abs().unbind(-1)
    return (x <= 1) & (y <= 1)


def read_at(pictures: Tensor, grid: Tensor) -> Tensor:
    """Read pictures (n, 3, H, H) at a grid (n, S, S, 2); those that get much smaller from a copy of half their size."""
    middle = grid.shape[1] // 2
    step = (grid[:, middle, middle] - grid[:, middle - 1, middle - 1]).abs().amax(-1) * (pictures.shape[-1] / 2)
    (small,), (large,) = torch.where(step > 1.7), torch.where(step <= 1.7)
    drawn = torch.empty(len(grid), 3, *grid.shape[1:3], device=grid.device)
    for some, halved in ((large, False), (small, True)):
        if len(some):
            read = F.avg_pool2d(pictures[some], 2, ceil_mode=True) if halved else pictures[some]
            drawn[some] = F.grid_sample(read, grid[some], padding_mode="border", align_corners=False)
    return drawn


def warp_views(views: Views, grid: Tensor) -> Views:
    """Read views, and their places, at a grid; pixels beyond a view smear its border, and their place is outside."""
    pictures = read_at(views.pictures, grid)
    # The nearest place, for a mean with one outside would be a wrong place inside.
    moved = (views.places - OUTSIDE).permute(0, 3, 1, 2)
    places = F.grid_sample(moved, grid, mode="nearest", align_corners=False).permute(0, 2, 3, 1) + OUTSIDE
    return Views(pictures, places.masked_fill_(~is_inside(grid).unsqueeze(-1), OUTSIDE))
