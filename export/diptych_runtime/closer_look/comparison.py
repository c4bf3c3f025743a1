"""What each of two copies shows that the other lacks, as a network says that sees one laid over the other.

Nothing here knows files or formats. A picture that would go is seen on its own grid, as a whole and in four windows of
its own pixels, beside what the one that would stay shows there; the network gives the log-odds that something is lost,
and of what (`diptych train training/recipes/losses.toml`).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from diptych_runtime.closer_look.homography import import_opencv
from diptych_runtime.session import open_session, run_session

# What may be lost: what only it shows; that nothing is drawn on it; detail; hues; steps between tones; what JPEG takes;
# the tones themselves; that it was neither sharpened nor made noisy; what it shows otherwise; that nothing lies around
# it; and any of these.
LOSSES = (
    "scope", "cleanness", "sharpness", "colours", "shades", "quality", "tones", "grain", "part", "frame", "anything",
)  # fmt: skip
GRAPH = "losses.onnx"
SIDE = 192  # pixels of the sides of both views, the whole and the windows
TILE = SIDE // 2  # pixels of a window
WHOLE = 0.02  # by which the corners of a picture may miss those of the other that shows the same frame
_CUT = 0.005  # by which what they show may lie off the same frame: beyond, one is cut a little
_LEAST = 300  # pixels of either, as a whole, that the other has to show
_SHIFT = 4.0  # pixels by which a registration may be off in a window
_DECIMALS = 3  # processors differ in the last bits
_FINDING = 768  # pixels of the longer side on which windows are chosen
_FOURTH_POWERS = np.arange(256.0) ** 4
_POSITIONS = 24  # of windows along a side, at most
_CORNERS = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], np.float64)
_HALF = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])  # from the centres of pixels to their edges
_A, _B = slice(0, 3), slice(3, 6)  # the channels of the picture that goes, and of the other


@dataclass(frozen=True)
class Side:
    """One of two pictures: the log-odds of each of the `LOSSES` where it goes and the other stays, the deviation of its
    hues where both show something, in levels (`hues`), and the pixels it has for each pixel of the other along the
    direction in which it has fewest.
    """

    losses: dict[str, float]
    hues: float = 0.0
    pixels: float = 1.0


NOTHING = Side(dict.fromkeys(LOSSES, -9.0))


@dataclass(frozen=True)
class Comparison:
    """Both sides of a pair.

    `equal` says that all pixels agree, perhaps turned by quarters or mirrored. `angle` is by how many degrees the
    second is turned, clockwise.
    """

    a: Side
    b: Side
    equal: bool = False
    mirrored: bool = False
    angle: float = 0.0

    @property
    def is_turned(self) -> bool:
        """True for a mirror image, and for one that lies on its side or on its head."""
        return self.mirrored or abs(self.angle) > 45

    @property
    def with_sides_swapped(self) -> Comparison:
        """The comparison of the same pair in the other order."""
        turned = self.angle if self.mirrored else -self.angle
        return Comparison(self.b, self.a, self.equal, self.mirrored, turned)

    def as_json(self) -> dict[str, Any]:
        """The measurements as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Comparison:
        """The comparison that `as_json` made values of. Raises TypeError for others."""
        rest = {name: value for name, value in values.items() if name not in ("a", "b")}
        return cls(Side(**values["a"]), Side(**values["b"]), **rest)


def compare_pixels(a: np.ndarray, b: np.ndarray, corners: np.ndarray | None) -> Comparison | None:
    """Compare two pictures, uint8 (h, w, 3), the first of which has its corners float64 (4, 2) at these places in the
    second, as `verification.placement` gives them.

    None where they cannot be laid over each other.
    """
    if a.shape == b.shape and np.array_equal(a, b):
        return Comparison(NOTHING, NOTHING, equal=True)
    if corners is None:
        return None
    corners, is_whole = _snap_corners(corners)
    mirrored, angle = _orientation(corners, a.shape[1::-1], b.shape[1::-1])
    if is_whole and _is_equal(a, b):
        return Comparison(NOTHING, NOTHING, equal=True, mirrored=mirrored, angle=angle)
    views, moved = _lay_views(a, b, corners, is_whole)
    if min(int((whole[..., 6] > 0).sum()) for whole in views[:, 0]) < _LEAST:
        return None
    fewest, most = _magnification_range(moved, a.shape[1::-1])
    sides = [
        Side(losses, _measure_hues(whole), pixels)
        for losses, whole, pixels in zip(estimate_losses(views), views[:, 0], (1 / most, fewest), strict=True)
    ]
    return Comparison(sides[0], sides[1], mirrored=mirrored, angle=angle)


def see_pair(a: np.ndarray, b: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """What the network sees where the first of two pictures goes, and where the second does, uint8 (2, 2, SIDE, SIDE,
    8): the whole of the one that goes on its own grid, and four windows of its own pixels. The channels are its red,
    green and blue, those of the other there, 255 where the other shows something, and 255 within the picture.
    """
    return _lay_views(a, b, *_snap_corners(corners))[0]


def estimate_losses(views: np.ndarray) -> list[dict[str, float]]:
    """The log-odds of the `LOSSES` for what `see_pair` gives, uint8 (2, 2, SIDE, SIDE, 8)."""
    found = run_session(_open_graph(), {"views": views[None]})[0][0]
    return [{loss: round(float(odds), _DECIMALS) for loss, odds in zip(LOSSES, row, strict=True)} for row in found]


def _lay_views(a: np.ndarray, b: np.ndarray, corners: np.ndarray, is_whole: bool) -> tuple[np.ndarray, np.ndarray]:
    """What `see_pair` gives, and the homography from the first picture to the second that it was laid by."""
    moved = _corner_homography(corners, a.shape[1::-1], b.shape[1::-1])
    refined = _refine_homography(a, b, moved)
    is_exact = is_whole and _farthest_corner(np.linalg.inv(moved) @ refined, a.shape[1::-1]) < _CUT
    moved = moved if is_exact else refined
    views = []
    for going, kept, onto in ((a, b, np.linalg.inv(moved)), (b, a, moved)):
        whole = _lay_whole(going, kept, onto)
        views.append(np.stack([whole, _lay_windows(going, kept, onto, whole, is_exact)]))
    return np.stack(views), moved


def _farthest_corner(moved: np.ndarray, size: tuple[int, int]) -> float:
    """The share of a side that a homography moves a picture's farthest corner by."""
    corners = _CORNERS * size
    there = import_opencv().perspectiveTransform(corners[None], moved)[0]
    return float((np.abs(there - corners) / size).max())


def _lay_whole(going: np.ndarray, kept: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """The whole of a picture and what another shows there, uint8 (SIDE, SIDE, 8). `moved` leads from places in `kept`
    to places in `going`.
    """
    view = np.zeros((SIDE, SIDE, 8), np.uint8)
    both = _lay_both(going, kept, moved, SIDE)
    _fill_view(view[: len(both[0]), : len(both[0][0])], *both)
    return view


def _lay_both(
    going: np.ndarray, kept: np.ndarray, moved: np.ndarray, side: int, *, quickly: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A picture on a grid of at most this side, what another shows there, and where it does, bool (h, w)."""
    onto, size = _grid_of_whole(going.shape, side)
    one, other = _shrink_for_grid(going, onto, quickly=quickly), _shrink_for_grid(kept, onto @ moved, quickly=quickly)
    return _warp_picture(*one, size), *_lay_picture(*other, size)


def _grid_of_whole(shape: tuple[int, ...], side: int = SIDE) -> tuple[np.ndarray, tuple[int, int]]:
    """The homography from a picture of this shape onto a view of its whole, and its width and height there."""
    height, width = shape[:2]
    scale = min(1.0, side / max(height, width))
    size = max(16, round(width * scale)), max(16, round(height * scale))
    return np.diag([size[0] / width, size[1] / height, 1]), size


def _lay_windows(
    going: np.ndarray, kept: np.ndarray, moved: np.ndarray, whole: np.ndarray, is_exact: bool
) -> np.ndarray:
    """Four windows of a picture in its own pixels, and what another shows there, uint8 (SIDE, SIDE, 8) as `_lay_whole`
    made it of the `whole`; what a registration that is not exact is off is undone.
    """
    view = np.zeros((SIDE, SIDE, 8), np.uint8)
    kept, moved = _shrink_for_grid(kept, moved)
    for place, (left, top) in enumerate(_choose_windows(going, kept, moved, whole)):
        window = going[top : top + TILE, left : left + TILE]
        size = window.shape[1::-1]
        other, shown = _lay_picture(kept, np.array([[1, 0, -left], [0, 1, -top], [0, 0, 1.0]]) @ moved, size)
        if not is_exact and min(size) >= 32 and shown.mean() > 0.5:
            other = _undo_shift(window, other, shown)
        row, column = place // 2 * TILE, place % 2 * TILE
        _fill_view(view[row : row + size[1], column : column + size[0]], window, other, shown)
    return view


def _fill_view(view: np.ndarray, going: np.ndarray, kept: np.ndarray, shown: np.ndarray) -> None:
    view[..., :3], view[..., 3:6] = going, kept * shown[..., None]
    view[..., 6], view[..., 7] = shown * 255, 255


def _choose_windows(going: np.ndarray, kept: np.ndarray, moved: np.ndarray, whole: np.ndarray) -> list[tuple[int, int]]:
    """Left and top of four windows in a picture: two where the other differs most, two where there is most detail,
    apart from each other where they can be. They begin at every eighth pixel, as JPEG's blocks do.
    """
    shape, view = going.shape, _crop_to_picture(whole)
    shown = view[..., 6] > 0
    differing = _measure_difference(going, kept, moved)
    detail = _gradient_size(view[..., _A]) * (0.1 + shown)
    across, down = _window_positions(shape[1]), _window_positions(shape[0])
    totals = [_window_totals(measure, shape, across, down) for measure in (differing, detail)]
    free, found = np.ones(totals[0].shape), list[tuple[int, int]]()
    for measure in (0, 1, 0, 1):
        row, column = np.unravel_index(int(np.argmax(totals[measure] * free + 1e-6 * (free > 0))), free.shape)
        top, left = down[row], across[column]
        near = np.abs(np.subtract(down, top))[:, None] < TILE, np.abs(np.subtract(across, left))[None] < TILE
        free = np.where(near[0] & near[1], np.minimum(free, 0.3), free)
        free[row, column] = 0
        found.append((left, top))
    return found


def _measure_difference(going: np.ndarray, kept: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """How far each pixel of either lies from all of the other near its place, to the fourth power: a digit counts for
    more than what sampling left of a page.
    """
    cv2 = import_opencv()
    one, other, shown = _lay_both(going, kept, moved, _FINDING, quickly=True)
    soft = [cv2.blur(rgb, (3, 3)) for rgb in (one, other)]
    near = np.ones((3, 3), np.uint8)
    off = [
        cv2.max(cv2.subtract(a, cv2.dilate(b, near)), cv2.subtract(cv2.erode(b, near), a))
        for a, b in (soft, soft[::-1])
    ]
    inner = cv2.erode(shown.astype(np.uint8), near)
    red, green, blue = cv2.split(cv2.max(*off))
    return _FOURTH_POWERS[cv2.max(cv2.max(red, green), blue) * inner]


def _window_positions(side: int) -> list[int]:
    """The places where windows may begin along a side of so many pixels."""
    if side <= TILE:
        return [0]
    steps = min(_POSITIONS, math.ceil((side - TILE) / (TILE / 2)))
    return sorted({round(step * (side - TILE) / steps) // 8 * 8 for step in range(steps + 1)})


def _window_totals(measure: np.ndarray, shape: tuple[int, ...], across: list[int], down: list[int]) -> np.ndarray:
    """The sum of a measure of the whole view in each window, (rows of windows, columns of windows)."""
    sums = import_opencv().integral(measure.astype(np.float64))
    ends = []
    for starts, side, length in ((down, shape[0], measure.shape[0]), (across, shape[1], measure.shape[1])):
        first = np.minimum(np.array(starts) * length // side, length - 1)
        last = np.clip(np.round((np.array(starts) + TILE) * length / side).astype(int), first + 1, length)
        ends.append((first, last))
    (top, bottom), (left, right) = ends
    return sums[np.ix_(bottom, right)] - sums[np.ix_(top, right)] - sums[np.ix_(bottom, left)] + sums[np.ix_(top, left)]


def _crop_to_picture(whole: np.ndarray) -> np.ndarray:
    """The part of the view of the whole in which the picture lies."""
    rows, columns = (int(whole[..., 7].any(axis).sum()) for axis in (1, 0))
    return whole[:rows, :columns]


def _measure_hues(whole: np.ndarray) -> float:
    """The deviation of the hues of a picture: less what its brightness explains, so that sepia has none."""
    pixels = import_opencv().blur(np.ascontiguousarray(whole[..., _A]), (3, 3))[whole[..., 6] > 0].astype(np.float64)
    grey = pixels.mean(1)
    known, left = np.column_stack([grey, np.ones(len(grey))]), pixels - grey[:, None]
    left -= known @ np.linalg.lstsq(known, left, rcond=None)[0]
    return float(np.sqrt((left**2).mean()))


def _snap_corners(corners: np.ndarray) -> tuple[np.ndarray, bool]:
    """The corners, exactly those of the other picture where both show the same frame, and whether they do."""
    for mirrored in (_CORNERS, _CORNERS[::-1]):
        for turn in range(4):
            whole = np.roll(mirrored, -turn, 0)
            if np.abs(corners - whole).max() < WHOLE:
                return whole, True
    return corners, False


def _is_equal(a: np.ndarray, b: np.ndarray) -> bool:
    """True if the first picture, turned by quarters or mirrored, has the very pixels of the second."""
    for flipped in (a, a[:, ::-1]):
        for turn in range(4):
            turned = np.rot90(flipped, turn)
            if turned.shape == b.shape and np.array_equal(turned, b):
                return True
    return False


def _corner_homography(corners: np.ndarray, size_a: tuple[int, int], size_b: tuple[int, int]) -> np.ndarray:
    """The homography float64 (3, 3) from places in the first picture to places in the second, edges at 0 and size."""
    source, target = _CORNERS * size_a, corners * size_b
    return (
        import_opencv().getPerspectiveTransform(source.astype(np.float32), target.astype(np.float32)).astype(np.float64)
    )


def _jacobian(moved: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The derivative float64 (2, 2) of a homography in the middle of a picture of this size."""
    x, y, depth = moved @ np.array([size[0] / 2, size[1] / 2, 1])
    return (moved[:2, :2] - np.outer([x / depth, y / depth], moved[2, :2])) / depth


def _magnification_range(moved: np.ndarray, size: tuple[int, int]) -> tuple[float, float]:
    """The pixels that one pixel becomes along the direction of fewest and of most."""
    most, fewest = np.linalg.svd(_jacobian(moved, size), compute_uv=False)
    return float(fewest), float(most)


def _orientation(corners: np.ndarray, size_a: tuple[int, int], size_b: tuple[int, int]) -> tuple[bool, float]:
    """True for a mirror image, and the angle in degrees by which the second picture is turned."""
    derivative = _jacobian(_corner_homography(corners, size_a, size_b), size_a)
    across = derivative[:, 0]
    mirrored = bool(np.linalg.det(derivative) < 0)
    return mirrored, float(np.degrees(math.atan2(across[1], -across[0] if mirrored else across[0])))


def _shrink_for_grid(rgb: np.ndarray, moved: np.ndarray, *, quickly: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """A picture about as large as it becomes on a grid, and its homography onto that: warping picks single pixels.

    By Lanczos, or `quickly` by means of areas.
    """
    shrunk = math.sqrt(abs(np.linalg.det(_jacobian(moved, rgb.shape[1::-1]))))
    if shrunk < 1 / 1.2:
        width, height = rgb.shape[1::-1]
        smaller = max(8, round(width * shrunk)), max(8, round(height * shrunk))
        if quickly:
            rgb = import_opencv().resize(rgb, smaller, interpolation=import_opencv().INTER_AREA)
        else:
            rgb = np.asarray(Image.fromarray(rgb).resize(smaller, Image.Resampling.LANCZOS, reducing_gap=2.0))
        moved = moved @ np.diag([width / smaller[0], height / smaller[1], 1])
    return rgb, moved


def _warp_picture(rgb: np.ndarray, moved: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The picture warped onto a grid of this size."""
    if rgb.shape[1::-1] == size and np.abs(moved - np.eye(3)).max() < 1e-6:
        return rgb
    how = {"flags": import_opencv().INTER_CUBIC, "borderMode": import_opencv().BORDER_REPLICATE}
    return import_opencv().warpPerspective(rgb, _of_centres(moved), size, **how)


def _lay_picture(rgb: np.ndarray, moved: np.ndarray, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The picture warped onto a grid of this size, and where it is shown, bool (h, w)."""
    full = np.full(rgb.shape[:2], 255, np.uint8)
    return _warp_picture(rgb, moved, size), import_opencv().warpPerspective(full, _of_centres(moved), size) > 250


def _of_centres(moved: np.ndarray) -> np.ndarray:
    """A homography between places as one between pixels, whose centres lie half a pixel from their edges."""
    return np.linalg.inv(_HALF) @ moved @ _HALF


def _refine_homography(a: np.ndarray, b: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """The homography from the first picture to the second, corrected by an affine movement."""
    cv2, view = import_opencv(), _lay_whole(b, a, moved)
    grey_b, grey_a = (_to_luma(view[..., part]) for part in (_A, _B))
    rest = np.eye(2, 3, dtype=np.float32)
    until = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 15, 1e-4)
    inner = cv2.erode(view[..., 6], np.ones((5, 5)))
    try:
        _, rest = cv2.findTransformECC(grey_b, grey_a, rest, cv2.MOTION_AFFINE, until, inner, 3)
    except cv2.error:  # nothing to hold on to
        return moved
    onto, _ = _grid_of_whole(b.shape)
    back = np.linalg.inv(_HALF @ np.vstack([rest, [0, 0, 1]]) @ np.linalg.inv(_HALF))
    return np.linalg.inv(onto) @ back @ onto @ moved


def _to_luma(rgb: np.ndarray) -> np.ndarray:
    return import_opencv().cvtColor(np.ascontiguousarray(rgb), import_opencv().COLOR_RGB2GRAY).astype(np.float32)


def _gradient_size(rgb: np.ndarray) -> np.ndarray:
    cv2, grey = import_opencv(), _to_luma(rgb)
    return cv2.magnitude(*(cv2.Sobel(grey, cv2.CV_32F, x, 1 - x, ksize=3) for x in (1, 0)))


def _undo_shift(one: np.ndarray, other: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """The second of two windows moved by the fraction of a pixel, or the few pixels, that it is off."""
    cv2 = import_opencv()
    grey = [_to_luma(rgb) for rgb in (one, other)]
    bands = [np.where(shown, part - cv2.GaussianBlur(part, (0, 0), 2), 0).astype(np.float64) for part in grey]
    (x, y), _ = cv2.phaseCorrelate(*bands)
    if max(abs(x), abs(y)) > _SHIFT:
        return other
    how = {"flags": cv2.INTER_CUBIC, "borderMode": cv2.BORDER_REPLICATE}
    return cv2.warpAffine(other, np.array([[1, 0, -x], [0, 1, -y]]), other.shape[1::-1], **how)


@cache
def _open_graph() -> Any:
    return open_session(Path(__file__).with_name(GRAPH).read_bytes())
