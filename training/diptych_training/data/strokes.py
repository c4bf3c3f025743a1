"""Invented alphabets: characters made of strokes that their alphabet shares, each drawn anew by every hand.

A stroke is a path of a pen whose heading turns at a steady rate along each of its parts, with corners between them; a
character is a few strokes, each begun at a place of its own or on the stroke before, as in the programs of Lake et al.
(2015), "Human-level concept learning through probabilistic program induction". Half of an alphabet's characters are
another one of it changed in one stroke, so that rivals differ in a detail.
"""

from dataclasses import dataclass, replace

import numpy as np
from PIL import Image, ImageDraw

CANVAS = 105  # pixels of a sheet's side, as Omniglot's
PEN = (3, 3, 3, 4)  # widths, of which one is drawn
PARTS = 3  # of a stroke at most
POINTS = 12  # of a part
STROKES = (0.2, 0.35, 0.3, 0.15)  # the shares of characters of one stroke, two, three and four


@dataclass(frozen=True)
class Stroke:
    """A pen's path: `heading` in radians where it begins; `lengths` of its parts, as shares of the character's side;
    `turns` along each and `corners` before each but the first, in radians. It begins at `place`, (2,) in the unit
    square, or, if `along` is not None, at that share of the stroke before.
    """

    heading: float
    lengths: np.ndarray
    turns: np.ndarray
    corners: np.ndarray
    place: np.ndarray
    along: float | None = None

    def redraw(self, rng: np.random.Generator, unsteady: float) -> "Stroke":
        """The same stroke as one hand draws it, `unsteady` of it left to chance."""
        noise = unsteady * rng.standard_normal((3, len(self.lengths)))
        return replace(
            self,
            heading=self.heading + unsteady * rng.normal(),
            lengths=self.lengths * np.exp(noise[0]),
            turns=self.turns * (1 + noise[1]) + 0.7 * noise[2],
            corners=self.corners + unsteady * rng.standard_normal(len(self.corners)),
            place=self.place + 0.3 * unsteady * rng.standard_normal(2),
            # What hangs at an end goes on hanging there, nearly.
            along=None if self.along is None else float(np.clip(self.along + 0.4 * unsteady * rng.normal(), 0, 1)),
        )

    def path(self, before: np.ndarray | None) -> np.ndarray:
        """Points (n, 2), x to the right and y down, in units of the character's side."""
        steps = np.repeat(self.lengths / POINTS, POINTS)
        heading = self.heading + np.cumsum(np.repeat(self.turns / POINTS, POINTS))
        heading = heading + np.repeat(np.concatenate([[0.0], np.cumsum(self.corners)]), POINTS)
        moves = np.stack([np.cos(heading), np.sin(heading)], -1) * steps[:, None]
        path = np.concatenate([np.zeros((1, 2)), np.cumsum(moves, 0)])
        if before is None or self.along is None:
            return path - path.mean(0) + self.place
        return path + before[round(self.along * (len(before) - 1))]


Strokes = tuple[Stroke, ...]


class Alphabet:
    """Characters that share strokes and a way of writing: round or angular, simple or rich, joined or apart."""

    def __init__(self, rng: np.random.Generator, size: int) -> None:
        self._round, self._corner, self._joined = rng.beta(1, 1), 0.1 + 0.6 * rng.random(), rng.random()
        self._known = [self._draw_stroke(rng) for _ in range(rng.integers(3, 9))]
        self.characters: list[Strokes] = []
        for _ in range(size):
            kin = rng.random() < 0.5 and len(self.characters) > 0
            self.characters.append(self._change_character(rng) if kin else self._make_character(rng))

    def _draw_stroke(self, rng: np.random.Generator) -> Stroke:
        parts = int(rng.integers(1, PARTS + 1))
        curved = rng.random(parts) < self._round
        angular = rng.random(parts - 1) < self._corner
        sides = np.where(rng.random(parts - 1) < 0.5, -1, 1)
        return Stroke(
            heading=_draw_direction(rng),
            lengths=rng.choice([0.1, 0.3, 0.5, 0.8], parts, p=[0.1, 0.3, 0.3, 0.3]) / parts**0.5,
            turns=np.where(curved, rng.choice([-3.5, -2, -1, -0.5, 0.5, 1, 2, 3.5], parts) * np.pi / 2, 0.0),
            corners=angular * sides * rng.choice([0.5, 1.0, 1.0, 1.5], parts - 1) * np.pi / 2,
            place=np.zeros(2),
        )

    def _place_stroke(self, rng: np.random.Generator, *, first: bool) -> Stroke:
        """One of the alphabet's strokes, or now and then a new one, somewhere."""
        stroke = self._known[rng.integers(len(self._known))] if rng.random() < 0.85 else self._draw_stroke(rng)
        joined = not first and rng.random() < self._joined
        return replace(
            stroke,
            heading=stroke.heading + (_draw_direction(rng) if rng.random() < 0.3 else 0.0),
            place=rng.uniform(-0.35, 0.35, 2),
            along=float(rng.choice([0.0, 0.5, 1.0])) if joined else None,
        )

    def _make_character(self, rng: np.random.Generator) -> Strokes:
        count = 1 + int(rng.choice(len(STROKES), p=STROKES))
        return tuple(self._place_stroke(rng, first=not at) for at in range(count))

    def _change_character(self, rng: np.random.Generator) -> Strokes:
        """One of the characters with a stroke more, a stroke fewer or another stroke."""
        kin = list(self.characters[rng.integers(len(self.characters))])
        at = int(rng.integers(len(kin)))
        change = rng.random()
        if change < 0.4 and len(kin) < len(STROKES):
            kin.append(self._place_stroke(rng, first=False))
        elif change < 0.6 and len(kin) > 1:
            del kin[at]
        else:
            kin[at] = self._place_stroke(rng, first=not at)
        return tuple(kin)


def _draw_direction(rng: np.random.Generator) -> float:
    """A heading: level or upright three times in four, else slanting."""
    return float(rng.integers(0, 4) + (0.5 if rng.random() < 0.25 else 0.0)) * np.pi / 2


def draw_by_hand(strokes: Strokes, rng: np.random.Generator, size: int) -> np.ndarray:
    """One hand's drawing of a character: ink uint8 (size, size), 255 where there is ink."""
    unsteady = rng.uniform(0.04, 0.16)
    paths: list[np.ndarray] = []
    for stroke in strokes:
        paths.append(stroke.redraw(rng, unsteady).path(paths[-1] if paths else None))
    points = np.concatenate(paths)
    low, high = points.min(0), points.max(0)
    # The longer side fills half of the sheet or more.
    scale = CANVAS * rng.uniform(0.5, 0.85) / max(*(high - low), 0.3)
    offset = CANVAS / 2 - scale * (low + high) / 2 + rng.uniform(-8, 8, 2)
    sheet = Image.new("1", (CANVAS, CANVAS))
    pen, width = ImageDraw.Draw(sheet), int(rng.choice(PEN))
    for path in paths:
        pen.line([(x, y) for x, y in (path * scale + offset).tolist()], fill=1, width=width, joint="curve")
    return np.asarray(sheet.convert("L").resize((size, size), Image.Resampling.BOX))
