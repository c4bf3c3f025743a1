"""What one of two copies shows that the other lacks, measured where one is laid over the other.

Nothing here knows files or formats: two arrays of pixels and the place of the one in the other give, for each picture,
how much more it shows, how fine, sharp, colourful and clean it is. `replacement` decides by that which one may go.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from diptych_runtime.closer_look.homography import opencv

WHOLE = 0.02  # by which the corners of a picture may miss those of the other that shows the same frame
_SMALL = 384  # pixels of the longer side where tones, colours and marks are compared
_WINDOW = 320  # pixels of the sides of the windows in which detail is compared, at the density of the coarser picture
_LEVELS = 3  # octaves of detail
_SAMPLE = 6000  # pixels of which tones are fitted
_SIGNAL = 2.0  # variance of a band, in squared levels of 0 to 255, below which it has no detail
_VIVID = 16.0  # variance of a band where surely something is
_FEW = 3  # colours of what is drawn
_WEIGHTS = np.array([-1.33, 0.26, 0.45, 1.99, 1.8, 3.53, -1.7, 0.27, 11.35])
_SURE = 2.0  # log-odds, of which 1.5 % are wrong on kinds of pictures that the weights were not fitted to
_BLOCKY = 0.5  # how far blocks stand out that a change of size or place does not hide
_LEAST = 0.0005  # of the overlap, in which two show something else
_LUMA = np.array([0.299, 0.587, 0.114])
_CORNERS = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], np.float64)


@dataclass(frozen=True)
class Side:
    """Measurements of one of two pictures.

    `outside` is the share of it that the other does not show, and `drawn_around` says that this is a frame, a bar or
    the window of a program. `pixels` are the pixels it has for each pixel of the other along the direction in which it
    has fewest. `lack` is the share of the other's detail that is missing in it, below 0 where it has more contrast,
    `noise` the deviation of its flat parts, `colour` that of its hues, `flattened` that of the other's shades where it
    has a single one, and `blocks` how far JPEG's blocks stand out. `is_marked` says that something was drawn on it or
    covers a part of it, and `margin` is the share of it that the other does not show and that is as good as plain.
    `soft` is the share of the other's blocks with most detail that have next to none here.
    """

    outside: float = 0.0
    drawn_around: bool = False
    pixels: float = 1.0
    lack: float = 0.0
    noise: float = 0.0
    colour: float = 0.0
    flattened: float = 0.0
    blocks: float = 0.0
    is_marked: bool = False
    margin: float = 0.0
    soft: float = 0.0


@dataclass(frozen=True)
class Comparison:
    """Both sides of a pair, and what they have in common.

    `equal` says that all pixels agree, perhaps turned by quarters or mirrored; `tone` is the median difference of
    levels, 0 to 255; `differing` the share of the overlap in which the two show something else; `coherence` the share
    of the finest detail that both have alike. `angle` is by how many degrees the second is turned, clockwise.
    """

    a: Side
    b: Side
    equal: bool = False
    tone: float = 0.0
    differing: float = 0.0
    coherence: float = 1.0
    mirrored: bool = False
    angle: float = 0.0

    @property
    def is_turned(self) -> bool:
        """True for a mirror image, and for one that lies on its side or on its head."""
        return self.mirrored or abs(self.angle) > 45

    @property
    def swapped(self) -> Comparison:
        """The comparison of the same pair in the other order."""
        turned = self.angle if self.mirrored else -self.angle
        return Comparison(self.b, self.a, self.equal, self.tone, self.differing, self.coherence, self.mirrored, turned)

    def as_json(self) -> dict[str, Any]:
        """The measurements as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Comparison:
        """The comparison that `as_json` made values of. Raises TypeError for others."""
        rest = {name: value for name, value in values.items() if name not in ("a", "b")}
        return cls(Side(**values["a"]), Side(**values["b"]), **rest)


class _Laid(NamedTuple):
    """Two pictures on one grid, uint8 (h, w, 3), and where both are shown, bool (h, w)."""

    a: np.ndarray
    b: np.ndarray
    shown: np.ndarray


def compare_pixels(a: np.ndarray, b: np.ndarray, corners: np.ndarray | None) -> Comparison | None:
    """Compare two pictures, uint8 (h, w, 3), the first of which has its corners float64 (4, 2) at these places in the
    second, as `closer_look.verification.placement` gives them.

    None where they cannot be laid over each other.
    """
    if a.shape == b.shape and np.array_equal(a, b):
        return Comparison(Side(), Side(), equal=True)
    if corners is None:
        return None
    corners, is_whole = _snap_corners(corners)
    mirrored, angle = _orientation(corners, a.shape[1::-1], b.shape[1::-1])
    if is_whole and _is_equal(a, b):
        return Comparison(Side(), Side(), equal=True, mirrored=mirrored, angle=angle)
    moved = _homography(corners, a.shape[1::-1], b.shape[1::-1])
    small = _lay_small(a, b, moved)
    if small.shown.mean() < 0.02 or small.shown.sum() < 400:
        return None
    if not is_whole:
        moved, small = _refine(a, b, moved, small)
    onto_a, onto_b, _ = _grid_of_coarser(a, b, moved, _SMALL)
    natives = [(a, onto_a), (b, onto_b)]
    marks = _Marks.of(small, 1.0, natives)
    bands = _Bands.of(a, b, moved, is_whole, _gain(small, marks.clean), marks.clean)
    if bands.equal_from:
        marks = _Marks.of(small, 2.0**bands.equal_from, natives)
    marked = marks.who_is_marked(bands)
    clean = small.shown & (opencv().erode(marks.clean.astype(np.uint8), np.ones((7, 7))) > 0)
    clean = clean if clean.sum() > 400 else small.shown
    fewest, most = _magnification(moved, a.shape[1::-1])
    back = np.linalg.inv(moved)
    around = [(0.0, False, 0.0)] * 2 if is_whole else [_outside(a, b, moved), _outside(b, a, back)]
    blocks = [_blockiness(rgb) for rgb in (a, b)]
    comparable = is_whole and a.shape == b.shape and not mirrored and abs(angle) < 1  # JPEG's blocks lie alike
    smooth = [opencv().GaussianBlur(rgb, (0, 0), 2) for rgb in small[:2]]
    sides = [
        Side(
            *around[place][:2],
            margin=around[place][2],
            pixels=(1 / most, fewest)[place],
            lack=bands.lack[place],
            noise=bands.noise[place],
            colour=_colour(smooth[place][clean]),
            flattened=bands.flattened[place],
            blocks=blocks[place] if comparable or blocks[place] > _BLOCKY else 0.0,
            soft=bands.soft[place],
            is_marked=marked[place],
        )
        for place in (0, 1)
    ]
    return Comparison(sides[0], sides[1], False, marks.tone, marks.share, bands.coherence, mirrored, angle)


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


def _homography(corners: np.ndarray, size_a: tuple[int, int], size_b: tuple[int, int]) -> np.ndarray:
    """The homography float64 (3, 3) from places in the first picture to places in the second, edges at 0 and size."""
    source, target = _CORNERS * size_a, corners * size_b
    return opencv().getPerspectiveTransform(source.astype(np.float32), target.astype(np.float32)).astype(np.float64)


def _jacobian(moved: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The derivative float64 (2, 2) of a homography in the middle of a picture of this size."""
    x, y, depth = moved @ np.array([size[0] / 2, size[1] / 2, 1])
    return (moved[:2, :2] - np.outer([x / depth, y / depth], moved[2, :2])) / depth


def _magnification(moved: np.ndarray, size: tuple[int, int]) -> tuple[float, float]:
    """The pixels that one pixel becomes along the direction of fewest and of most."""
    most, fewest = np.linalg.svd(_jacobian(moved, size), compute_uv=False)
    return float(fewest), float(most)


def _orientation(corners: np.ndarray, size_a: tuple[int, int], size_b: tuple[int, int]) -> tuple[bool, float]:
    """True for a mirror image, and the angle in degrees by which the second picture is turned."""
    derivative = _jacobian(_homography(corners, size_a, size_b), size_a)
    across = derivative[:, 0]
    mirrored = bool(np.linalg.det(derivative) < 0)
    return mirrored, float(np.degrees(math.atan2(across[1], -across[0] if mirrored else across[0])))


def _shrink(rgb: np.ndarray, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A picture about as large as it becomes on a grid, and its homography onto that: warping picks single pixels."""
    shrunk = math.sqrt(abs(np.linalg.det(_jacobian(moved, rgb.shape[1::-1]))))
    if shrunk < 1 / 1.2:
        width, height = rgb.shape[1::-1]
        smaller = max(8, round(width * shrunk)), max(8, round(height * shrunk))
        rgb = np.asarray(Image.fromarray(rgb).resize(smaller, Image.Resampling.LANCZOS, reducing_gap=2.0))
        moved = moved @ np.diag([width / smaller[0], height / smaller[1], 1])
    return rgb, moved


def _put(rgb: np.ndarray, moved: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """A picture on a grid of this size."""
    if rgb.shape[1::-1] == size and np.abs(moved - np.eye(3)).max() < 1e-6:
        return rgb
    how = {"flags": opencv().INTER_CUBIC, "borderMode": opencv().BORDER_REPLICATE}
    return opencv().warpPerspective(rgb, _of_centres(moved), size, **how)


def _cover(shape: tuple[int, ...], moved: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Where a picture of this shape is shown on a grid, bool (h, w)."""
    full = np.full(shape[:2], 255, np.uint8)
    return opencv().warpPerspective(full, _of_centres(moved), size) > 250


def _of_centres(moved: np.ndarray) -> np.ndarray:
    """A homography between places as one between pixels, whose centres lie half a pixel from their edges."""
    half = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
    return np.linalg.inv(half) @ moved @ half


def _grid_of_coarser(
    a: np.ndarray, b: np.ndarray, moved: np.ndarray, longest: float
) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    """The homographies of both pictures onto the grid of the coarser one, and its size, at most so long."""
    finer_b = abs(np.linalg.det(_jacobian(moved, a.shape[1::-1]))) > 1
    width, height = (a if finer_b else b).shape[1::-1]
    scale = min(1.0, longest / max(width, height))
    size = max(16, round(width * scale)), max(16, round(height * scale))
    onto = np.diag([size[0] / width, size[1] / height, 1])
    return (onto, onto @ np.linalg.inv(moved), size) if finer_b else (onto @ moved, onto, size)


def _lay(a: np.ndarray, b: np.ndarray, onto_a: np.ndarray, onto_b: np.ndarray, size: tuple[int, int]) -> _Laid:
    cv2 = opencv()
    shown = _cover(a.shape, onto_a, size) & _cover(b.shape, onto_b, size)
    inner = cv2.erode(shown.astype(np.uint8), np.ones((5, 5)), borderType=cv2.BORDER_CONSTANT, borderValue=1)
    return _Laid(_put(a, onto_a, size), _put(b, onto_b, size), inner > 0)


def _lay_small(a: np.ndarray, b: np.ndarray, moved: np.ndarray) -> _Laid:
    onto_a, onto_b, size = _grid_of_coarser(a, b, moved, _SMALL)
    (a, onto_a), (b, onto_b) = _shrink(a, onto_a), _shrink(b, onto_b)
    return _lay(a, b, onto_a, onto_b, size)


def _refine(a: np.ndarray, b: np.ndarray, moved: np.ndarray, small: _Laid) -> tuple[np.ndarray, _Laid]:
    """The homography, and the small pictures, after what is left of an affine movement between these is undone."""
    cv2 = opencv()
    grey_a, grey_b = (cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY) for rgb in small[:2])
    rest = np.eye(2, 3, dtype=np.float32)
    until = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 15, 1e-4)
    try:
        _, rest = cv2.findTransformECC(
            grey_b, grey_a, rest, cv2.MOTION_AFFINE, until, small.shown.astype(np.uint8) * 255, 3
        )
    except cv2.error:  # nothing to hold on to
        return moved, small
    onto_a, onto_b, _ = _grid_of_coarser(a, b, moved, _SMALL)
    half = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
    back = np.linalg.inv(half @ np.vstack([rest, [0, 0, 1]]) @ np.linalg.inv(half))
    better = np.linalg.inv(onto_b) @ back @ onto_a
    return better, _lay_small(a, b, better)


def _luma(rgb: np.ndarray) -> np.ndarray:
    return opencv().cvtColor(rgb, opencv().COLOR_RGB2GRAY).astype(np.float32)


@dataclass(frozen=True)
class _Bands:
    """The detail of both pictures: the share of the other's that each lacks, the noise of their flat parts, the
    deviation of the other's shades where each has one, the coherence of the finest octave, the octave from which on
    they are equally sharp, and the share of blocks in which each has next to none of the other's detail (`soft`).
    """

    lack: tuple[float, float]
    noise: tuple[float, float]
    flattened: tuple[float, float]
    coherence: float
    equal_from: int
    soft: tuple[float, float]

    @classmethod
    def of(
        cls, a: np.ndarray, b: np.ndarray, moved: np.ndarray, is_whole: bool, gain: float, clean: np.ndarray
    ) -> _Bands:
        """Compare the octaves at the density of the coarser picture, the second with so much less contrast, where the
        grid of `_lay_small` is `clean`.

        Medians over blocks of 8 x 8, so that what is drawn on one of them does not count.
        """
        powers: list[list[np.ndarray]] = [[] for _ in range(_LEVELS)]
        shades = [np.empty((2, 0))]
        for laid in _windows(a, b, moved, is_whole, clean):
            shades.append(np.stack([rgb[..., 1][laid.shown][:: 1 + laid.shown.sum() // 50_000] for rgb in laid[:2]]))
            for level, (one, other, ok) in enumerate(_octaves(laid, is_whole)):
                other = other / gain
                powers[level].append(
                    np.stack([_block_means(part)[ok] for part in (one * one, other * other, one * other)])
                )
        lack, noise, soft, coherence, equal_from = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0], 1.0, 0
        for level, parts in enumerate(powers):
            blocks = np.concatenate(parts, 1) if parts else np.empty((3, 0))
            if blocks.shape[1] < 8:
                break
            blocks = blocks[:, np.argsort(blocks[0] + blocks[1])]
            flat = blocks[:, : max(3, blocks.shape[1] // 10)]
            shared = float(np.median(flat[2] ** 2 / np.maximum(flat[0] * flat[1], 1e-6)))
            powers_of_flat = np.median(flat, 1)[:2]
            floors = powers_of_flat * (1 - min(1.0, shared))  # what both have alike is detail, and no noise
            rich = blocks[:, blocks.shape[1] // 2 :]
            alike = float(np.median(rich[2] ** 2 / np.maximum(rich[0] * rich[1], 1e-6)))
            if level == 0:
                noise, coherence = np.sqrt(powers_of_flat).tolist(), alike
            for place in (0, 1) if level < 2 else ():
                fine, here = rich[1 - place, len(rich[0]) // 2 :], rich[place, len(rich[0]) // 2 :]
                soft[place] = max(soft[place], float(((fine > _VIVID) & (fine > 8 * here)).mean()))
            for place in (0, 1):  # what of the other's detail is missing here
                own = np.median(rich[1 - place]) - floors[1 - place]
                if own > _SIGNAL and (alike > 0.5 or own > 2 * floors[1 - place]):
                    missing = float(np.median(1 - rich[2] / np.maximum(rich[1 - place] - floors[1 - place], 1e-3)))
                    lack[place] = missing if abs(missing) > abs(lack[place]) else lack[place]
                    if missing > 0.3:
                        equal_from = level + 1
        one, other = np.concatenate(shades, 1)
        flattened = _measure_lost_shades(one, other), _measure_lost_shades(other, one)
        return cls((lack[0], lack[1]), (noise[0], noise[1]), flattened, coherence, equal_from, (soft[0], soft[1]))


def _gain(small: _Laid, clean: np.ndarray) -> float:
    """By how much more contrast the second picture has in its coarse shapes, where they are `clean` if any part is."""
    shown = small.shown & clean
    shown = shown if shown.sum() > 400 else small.shown
    one, other = (opencv().GaussianBlur(_luma(rgb), (0, 0), 4)[shown] for rgb in small[:2])
    spread = one.std(), other.std()
    if min(spread) < 3:
        return 1.0
    return float(np.clip(((one - one.mean()) * (other - other.mean())).mean() / spread[0] ** 2, 0.25, 4))


def _windows(a: np.ndarray, b: np.ndarray, moved: np.ndarray, is_whole: bool, clean: np.ndarray) -> Iterator[_Laid]:
    """Both pictures on the grid of the coarser one, where they are clean: all of it, or four windows if it is large.

    Where one has to be interpolated the grid lies between the pixels, so that both are.
    """
    onto_a, onto_b, (width, height) = _grid_of_coarser(a, b, moved, math.inf)
    (a, onto_a), (b, onto_b) = _shrink(a, onto_a), _shrink(b, onto_b)
    across, down = (_WINDOW if side > 1.5 * _WINDOW else side for side in (width, height))
    between = 0.0 if is_whole else 0.5
    lefts = {0} if across == width else {width // 4 - across // 4, width - width // 4 - 3 * across // 4}
    tops = {0} if down == height else {height // 4 - down // 4, height - height // 4 - 3 * down // 4}
    scale = np.diag([width / clean.shape[1], height / clean.shape[0], 1])
    for left in sorted(lefts):
        for top in sorted(tops):
            shift = np.array([[1, 0, between - left], [0, 1, between - top], [0, 0, 1.0]])
            laid = _lay(a, b, shift @ onto_a, shift @ onto_b, (across, down))
            kept = opencv().warpPerspective(clean.astype(np.uint8), _of_centres(shift @ scale), (across, down)) > 0
            if (shown := laid.shown & kept).sum() > 1000:
                yield laid._replace(shown=shown)


def _octaves(laid: _Laid, is_whole: bool) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The bands of both pictures, an octave each, and which blocks of 8 x 8 of them are shown."""
    cv2 = opencv()
    one, other = _luma(laid.a), _luma(laid.b)
    if not is_whole:
        other = _undo_shift(one, other, laid.shown)
    shown, found = laid.shown.astype(np.float32), []
    for _ in range(_LEVELS):
        if min(one.shape) < 24:
            break
        low_one, low_other = (cv2.GaussianBlur(part, (0, 0), 1.2) for part in (one, other))
        found.append((one - low_one, other - low_other, _block_means(shown) > 0.999))
        one, other = low_one[::2, ::2], low_other[::2, ::2]
        shown = cv2.resize(shown, one.shape[::-1], interpolation=cv2.INTER_AREA)
    return found


def _undo_shift(one: np.ndarray, other: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """The second picture moved by the fraction of a pixel that it is off."""
    cv2 = opencv()
    band = [np.where(shown, part - cv2.GaussianBlur(part, (0, 0), 2), 0) for part in (one, other)]
    (x, y), _ = cv2.phaseCorrelate(band[0].astype(np.float64), band[1].astype(np.float64))
    if max(abs(x), abs(y)) > 2.5:
        return other
    how = {"flags": cv2.INTER_CUBIC, "borderMode": cv2.BORDER_REPLICATE}
    return cv2.warpAffine(other, np.array([[1, 0, -x], [0, 1, -y]]), other.shape[::-1], **how)


def _block_means(values: np.ndarray) -> np.ndarray:
    rows, columns = values.shape[0] // 8, values.shape[1] // 8
    return values[: rows * 8, : columns * 8].reshape(rows, 8, columns, 8).mean((1, 3))


@dataclass(frozen=True)
class _Marks:
    """The places where two pictures show something else: their `share`, where there is none (`clean`), the mean
    difference of the tones elsewhere, and the log-odds that it is the second picture that was edited there.
    """

    share: float
    clean: np.ndarray
    tone: float
    evidence: float = 0.0
    is_drawn: bool = False

    @classmethod
    def of(cls, small: _Laid, blur: float, natives: Sequence[tuple[np.ndarray, np.ndarray]]) -> _Marks:
        """Find them in small pictures after a blur of so many pixels; `natives` are the large ones, each with its
        homography onto the small ones.

        What is drawn has few colours and begins abruptly; what covers a part has no detail where the other picture has.
        """
        cv2 = opencv()
        a, b = (cv2.GaussianBlur(rgb.astype(np.float32), (0, 0), blur) for rgb in small[:2])
        if min(float(np.quantile(np.ptp(one, axis=2), 0.99)) for one in (a, b)) < 6:  # one has no colours
            a, b = (np.repeat((one @ _LUMA.astype(np.float32))[..., None], 3, 2) for one in (a, b))
        errors = [_measure_residual(one, other, small.shown) for one, other in ((a, b), (b, a))]
        error = min(errors, key=lambda part: float(np.median(part[small.shown])))
        edges = [_gradient(part) for part in (a, b)]
        allowed = 14 + 1.5 * cv2.blur(np.minimum(*edges), (5, 5)) + 4 * np.median(error[small.shown])
        where = ((error > allowed) & small.shown).astype(np.uint8)
        where = cv2.morphologyEx(where, cv2.MORPH_OPEN, np.ones((2, 2)))
        clean = cv2.dilate(where, np.ones((9, 9))) == 0
        calm = small.shown & clean
        differences = [_largest(cv2.blur(a, (9, 9)) - cv2.blur(b, (9, 9)))[part] for part in (calm, small.shown)]
        tone = float(differences[0 if calm.any() else 1].mean())
        if where.sum() < max(12, _LEAST * small.shown.sum()):
            return cls(0.0, np.ones_like(small.shown), tone)
        traces = [
            _traces(where > 0, rgb.astype(np.float32), edge, small.shown, _pixels_at(where > 0, *native))
            for rgb, edge, native in zip(small[:2], edges, natives, strict=True)
        ]
        features = np.append(traces[1] - traces[0], _veil(b[where > 0], a[where > 0]))
        evidence = float(features @ _WEIGHTS)
        is_drawn = max(_few_colours(rgb[calm], 6) for rgb in small[:2]) > 0.5  # as a page is, on which ink says nothing
        return cls(float(where.sum() / small.shown.sum()), clean, tone, evidence, is_drawn)

    def who_is_marked(self, bands: _Bands) -> tuple[bool, bool]:
        """In which picture something was drawn or covered. Only where both have the same detail and tones elsewhere:
        two exposures of one scene differ by what moved.
        """
        if self.is_drawn or self.tone > 2.5 or bands.coherence < 0.75 or abs(self.evidence) < _SURE:
            return False, False
        return self.evidence < 0 and bands.lack[1] < 0.2, self.evidence > 0 and bands.lack[0] < 0.2


def _traces(where: np.ndarray, rgb: np.ndarray, edge: np.ndarray, shown: np.ndarray, pixels: np.ndarray) -> np.ndarray:
    """Traces of editing at some places of a picture, float64 (8,): how steep their rim is and how much detail they
    have, against their surroundings and in themselves, how far off their colour is, and how few exact colours they
    have.
    """
    cv2, around = opencv(), where.astype(np.uint8)
    grown = cv2.dilate(around, np.ones((3, 3))) > 0
    rim = grown & ~(cv2.erode(around, np.ones((3, 3))) > 0) & shown
    beside = (cv2.dilate(around, np.ones((15, 15))) > 0) & ~(cv2.dilate(around, np.ones((5, 5))) > 0) & shown
    beside = beside if beside.sum() > 20 else shown & ~grown
    steep, detail = float(edge[rim].mean()), float(edge[where].mean())
    usual = float(edge[beside].mean()) if beside.any() else 0.0
    off = float(np.abs(rgb[where].mean(0) - rgb[beside].mean(0)).max()) if beside.any() else 0.0
    few = [_few_colours(pixels, step) for step in (6, 24)]
    extreme = float(((pixels < 12) | (pixels > 243)).all(1).mean())
    return np.array(
        [
            np.log1p(steep),
            np.log1p(detail),
            np.log((steep + 1) / (usual + 1)),
            np.log((detail + 1) / (usual + 1)),
            off / 64,
            *few,
            extreme,
        ]
    )


def _largest(difference: np.ndarray) -> np.ndarray:
    """The largest absolute value of three channels, (h, w)."""
    red, green, blue = (np.abs(difference[..., channel]) for channel in range(3))
    return np.maximum(np.maximum(red, green), blue)


def _gradient(rgb: np.ndarray) -> np.ndarray:
    cv2 = opencv()
    grey = rgb @ _LUMA.astype(np.float32)
    return cv2.magnitude(*(cv2.Sobel(grey, cv2.CV_32F, x, 1 - x, ksize=3) / 8 for x in (1, 0)))


def _pixels_at(where: np.ndarray, rgb: np.ndarray, onto: np.ndarray) -> np.ndarray:
    """The pixels uint8 (P, 3) of a picture at places on a grid, bool (h, w), onto which a homography lays it."""
    cv2, back = opencv(), np.linalg.inv(_of_centres(onto))
    there = cv2.warpPerspective(where.astype(np.uint8), back, rgb.shape[1::-1], flags=cv2.INTER_NEAREST)
    return rgb[there > 0] if there.any() else rgb[:1, :1].reshape(1, 3)


def _few_colours(pixels: np.ndarray, step: int = 24) -> float:
    """The share of pixels uint8 (P, 3) that have one of the few most frequent colours, in steps of so many levels."""
    count = 255 // step + 1
    bins = (pixels // step).astype(np.int64) @ np.array([count * count, count, 1])
    counts = np.sort(np.unique(bins, return_counts=True)[1])[::-1]
    return float(counts[:_FEW].sum() / counts.sum())


def _veil(pixels: np.ndarray, other: np.ndarray) -> float:
    """By how much less contrast pixels (P, 3) have than those of another picture that show the same, as what lies below
    something half transparent: the logarithm of the ratio, as far as they correlate.
    """
    here, there = pixels.mean(1), other.mean(1)
    ratio = np.log((float(there.std()) + 2) / (float(here.std()) + 2))
    return float(np.clip(ratio, -1.5, 1.5) * max(0.0, _correlation(here, there)) ** 2)


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    """The correlation of two lists of values, 0 if one is constant."""
    product = float(one.std()) * float(other.std())
    return float(((one - one.mean()) * (other - other.mean())).mean()) / product if product > 1e-6 else 0.0


def _measure_residual(a: np.ndarray, b: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """By how much `b` differs, (h, w), from the best that a change of colours and tones makes of `a`."""
    x, y = a[shown], b[shown]
    step = max(1, len(x) // _SAMPLE)
    few = np.column_stack([x[::step], np.ones(len(x[::step]))]).astype(np.float64)
    wanted = y[::step].astype(np.float64)
    kept, fitted = np.ones(len(few), bool), np.zeros((4, 3))
    for _ in range(3):
        fitted = np.linalg.lstsq(few[kept], wanted[kept], rcond=None)[0]
        error = np.abs(wanted - few @ fitted).max(1)
        kept = error <= max(np.quantile(error, 0.8), 1.0)
    mixed = a @ fitted[:3].astype(np.float32) + fitted[3].astype(np.float32)
    errors = [_off_curves(known, b, shown) for known in (mixed, a)]
    return min(errors, key=lambda error: float(np.median(error[shown])))


def _off_curves(a: np.ndarray, b: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """By how much `b` differs, (h, w), from curves of the channels of `a`, fitted again without what is far off."""
    kept, error = shown, np.zeros(shown.shape)
    for _ in range(2):
        error = _largest(b - np.stack([_curve(a[..., c], b[..., c], kept) for c in range(3)], 2))
        kept = shown & (error <= max(float(np.quantile(error[shown], 0.9)), 8.0))
    return error


def _curve(x: np.ndarray, y: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """The mean of `y` by the level of `x`, in 64 steps, as a picture."""
    steps = np.clip(x / 4, 0, 63).astype(np.int64)
    counts = np.bincount(steps[shown], minlength=64)
    means = np.bincount(steps[shown], y[shown], 64) / np.maximum(counts, 1)
    used = np.flatnonzero(counts)
    return np.interp(np.arange(64), used, means[used])[steps].astype(np.float32)


def _colour(pixels: np.ndarray) -> float:
    """The deviation of the hues of pixels (P, 3): less what their brightness explains, so that sepia has none."""
    pixels = pixels.astype(np.float64)
    grey = pixels @ _LUMA
    known = np.column_stack([grey, np.ones(len(grey))])
    left = pixels - grey[:, None]
    left -= known @ np.linalg.lstsq(known, left, rcond=None)[0]
    return float(np.sqrt((left**2).mean()))


def _measure_lost_shades(shades: np.ndarray, other: np.ndarray) -> float:
    """The deviation of the shades of `other` (P,) among pixels that have one shade here: of steps and clipped parts it
    is large.
    """
    if not len(shades):
        return 0.0
    steps = shades.astype(np.int64) // 2
    counts = np.maximum(np.bincount(steps, minlength=128), 1)
    mean = np.bincount(steps, other, 128) / counts
    return float(np.abs(other - mean[steps]).mean())


def _blockiness(rgb: np.ndarray) -> float:
    """How far the steps at every eighth pixel stand out from those between, as JPEG's blocks make them."""
    found = []
    for grey in (_luma(rgb), _luma(rgb).T):
        steps = np.diff(grey, axis=1)
        jumps = np.abs(steps[:, 1:-1] - (steps[:, :-2] + steps[:, 2:]) / 2).mean(0)
        if len(jumps) < 24:
            return 0.0
        phases = jumps[: len(jumps) // 8 * 8].reshape(-1, 8).mean(0)
        others = np.delete(phases, 6)
        found.append((phases[6] - others.max()) / (others.mean() + 0.5))
    return float(max(0.0, np.mean(found)))


def _outside(rgb: np.ndarray, other: np.ndarray, moved: np.ndarray) -> tuple[float, bool, float]:
    """The share of a picture that the other does not show, whether that is drawn around, and, in place of the share,
    the `margin` that is as good as plain and may or may not be drawn.

    What is drawn around has few exact colours and begins abruptly, as no photographed ground does.
    """
    cv2 = opencv()
    width, height = rgb.shape[1::-1]
    scale = min(1.0, _SMALL / max(width, height))
    size = max(16, round(width * scale)), max(16, round(height * scale))
    onto = np.diag([size[0] / width, size[1] / height, 1])
    picture = cv2.resize(rgb, size, interpolation=cv2.INTER_AREA)
    inside = _cover(other.shape, onto @ np.linalg.inv(moved), size).astype(np.uint8)
    share = float(1 - inside.mean())
    beyond = cv2.dilate(inside, np.ones((7, 7))) == 0
    if share < 0.01 or beyond.sum() < 50:
        return share if beyond.sum() >= 50 else 0.0, False, 0.0
    few = _few_colours(picture[beyond])
    if few < 0.85 or share > 0.6:  # as of a page with the picture on it
        return share, False, 0.0
    return (share, True, 0.0) if _is_abrupt(picture, inside, beyond) else (0.0, False, share)


def _is_abrupt(picture: np.ndarray, inside: np.ndarray, beyond: np.ndarray) -> bool:
    """True if most pixels just `beyond` the part of a picture that is `inside` differ from the nearest ones there."""
    cv2 = opencv()
    edge = (cv2.dilate(inside, np.ones((9, 9))) > 0) & beyond
    inner = cv2.erode(inside, np.ones((7, 7)), borderType=cv2.BORDER_REPLICATE)
    _, nearest = cv2.distanceTransformWithLabels(1 - inner, cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL)
    colours = np.zeros((nearest.max() + 1, 3), np.float32)
    colours[nearest[inner > 0]] = picture[inner > 0]
    jumps = np.abs(picture[edge].astype(np.float32) - colours[nearest[edge]]).max(1)
    return bool(len(jumps) and (jumps > 12).mean() > 0.7)
