"""Photos in which one thing has another colour, as shops show an article: drawn from photos of one of them."""

from __future__ import annotations

import cv2
import numpy as np

VARIANTS = "variants"  # their kind, in collections and among pairs
COLOURS = (4, 6, 9)  # that a photo is made of, drawn from
SHARES = (0.01, 0.5)  # of a photo that has another colour
GROUND = 0.3  # the share of a photo's edge from which on a colour is the ground's
SHADED = 0.5  # the weight of lightness in what is one colour: folds and shadows do not part it
GREY, CHROMA = 12.0, (25.0, 60.0)  # distances in CIELAB from grey: what has less has no hue; of what is tinted
TURN, TIMES, LIGHTER = (40.0, 320.0), (0.7, 1.4), 25.0  # degrees of hue, times its chroma, and of lightness
BLEACHED = 0.15  # the share of those that lose their colour
SEEN, ALL = 25.0, 0.4  # mean differences, 0 to 255, of what changed and of the whole photo, at least
_SMALL = 96  # pixels a side in which colours are looked for


def recolour_part(photo: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
    """Recolour one part of a photo uint8 (h, w, 3).

    It gets another hue or lightness, or loses its colour, its shading as it was. None where there is no part to take:
    the ground stays, and so does what fills half of the photo.
    """
    lab = cv2.cvtColor(photo.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    flat = lab * np.array([SHADED, 1, 1], np.float32)
    small = cv2.resize(flat, (_SMALL, _SMALL), interpolation=cv2.INTER_AREA)
    cv2.setRNGSeed(int(rng.integers(2**30)))
    stop = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 15, 1.0)
    count = int(rng.choice(COLOURS))
    _, labels, centres = cv2.kmeans(small.reshape(-1, 3), count, np.empty(0, np.int32), stop, 1, cv2.KMEANS_PP_CENTERS)
    labels = labels.reshape(_SMALL, _SMALL)
    edge = np.concatenate([labels[0], labels[-1], labels[:, 0], labels[:, -1]])
    shares, ground = (np.bincount(part.ravel(), minlength=count) / part.size for part in (labels, edge))
    parts = np.flatnonzero((shares > SHARES[0]) & (shares < SHARES[1]) & (ground < GROUND))
    if not len(parts):
        return None
    nearest = np.linalg.norm(flat[:, :, None] - centres, axis=-1).argmin(-1)
    which = _find_largest(nearest == rng.choice(parts))
    if which.mean() < SHARES[0]:
        return None
    share = cv2.GaussianBlur(which.astype(np.float32), (0, 0), 1.0)[..., None]
    mixed = lab + share * (_change_colour(lab, lab[which].mean(0), rng) - lab)
    changed = cv2.cvtColor(mixed.astype(np.float32), cv2.COLOR_LAB2RGB)
    found = (changed.clip(0, 1) * 255).round().astype(np.uint8)
    off = np.abs(found.astype(int) - photo).max(-1)
    # Of white or black there may be no other shade in reach.
    return found if off[which].mean() >= SEEN and off.mean() >= ALL else None


def _find_largest(which: np.ndarray) -> np.ndarray:
    """The largest connected part of places, bool (h, w), small gaps closed."""
    closed = cv2.morphologyEx(which.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
    _, parts, sizes, _ = cv2.connectedComponentsWithStats(closed)
    return parts == 1 + sizes[1:, cv2.CC_STAT_AREA].argmax() if len(sizes) > 1 else closed > 0


def _change_colour(lab: np.ndarray, middle: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A photo in CIELAB (h, w, 3) all over in the new colour of a part whose mean is `middle`."""
    light, chroma = lab[..., :1], lab[..., 1:]
    light = light + rng.uniform(-LIGHTER, LIGHTER)
    if np.hypot(*middle[1:]) < GREY:  # black, white and grey are dyed
        angle, reach = rng.uniform(0, 2 * np.pi), rng.uniform(*CHROMA)
        light = light + rng.uniform(0, 2 * LIGHTER) * (1 if middle[0] < 50 else -1)
        return np.concatenate([light, chroma + reach * np.array([np.cos(angle), np.sin(angle)])], -1)
    if rng.random() < BLEACHED:
        return np.concatenate([light, 0.1 * chroma], -1)
    angle = np.deg2rad(rng.uniform(*TURN))
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return np.concatenate([light, rng.uniform(*TIMES) * chroma @ turn], -1)
