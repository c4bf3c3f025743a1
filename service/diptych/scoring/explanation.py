"""The explanation of a score: which patches of two pictures match, and where one picture lies in the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from PIL import Image, ImageColor, ImageDraw

from diptych.console import format_count
from diptych.scoring.scorer import Original, Scorer, have_one_content
from diptych_runtime.attention_links import Link, strongest_links
from diptych_runtime.calibration.evidence import Corners, Evidence
from diptych_runtime.calibration.recalibration import sigmoid
from diptych_runtime.judgement import Judgement, judge_pairs, needs_closer_look

SIDE = 480  # pixels, of a picture in an overlay
_GAP, _SCALE = 24, 2  # drawn twice as large, so that lines are smooth
_WHITE = (255, 255, 255)
_OUTLINE = (18, 165, 138)


@dataclass(frozen=True)
class Explanation:
    """The explanation of a pair's score.

    `answers` are to all questions, of which `question` was asked. `attention` float32 (T, T), T = N N patches of the
    `grid` (N, N), says how surely each patch is found where in the other picture (`PairPart.attention`); `crossing` in
    [0, 1] is its sum over T, and `links` are the strongest entries.
    """

    question: str
    answers: dict[str, Judgement]
    grid: tuple[int, int]
    crossing: float
    links: list[Link]
    attention: np.ndarray
    evidence: Evidence | None = None

    @property
    def answer(self) -> Judgement:
        """The one to the question that was asked."""
        return self.answers[self.question]

    @property
    def corners(self) -> tuple[Corners, Corners]:
        """The corners of the first picture in the second, and of the second in the first; none without a place."""
        return ((), ()) if self.evidence is None else (self.evidence.corners, self.evidence.with_sides_swapped.corners)

    def place(self, patch: int) -> tuple[int, int]:
        """The row and column of a patch by its number."""
        return divmod(patch, self.grid[1])


def explain_pair(
    scorer: Scorer,
    tokens_a: np.ndarray,
    tokens_b: np.ndarray,
    *,
    links: int = 24,
    original: Original = lambda number: None,
    contents: Sequence[str | None] = (None, None),
) -> Explanation:
    """The explanation of the score of two pictures with tokens float16 (N, M, d).

    For a closer look `original` returns the file of the first, 0, and of the second, 1; `contents` are the ids of both,
    as far as they are known. Raises ArtifactError where the model cannot show it.
    """
    (attention,) = scorer.runtime.attention(tokens_a[None], tokens_b[None])
    logits = scorer.all_logits(tokens_a[None], tokens_b[None])
    questions = scorer.runtime.manifest.questions
    evidence = None
    if needs_closer_look(questions, logits).any():
        first, second = scorer.views([original(0), original(1)])
        (evidence,) = scorer.evidence([(first, second)])
    judged = judge_pairs(questions, logits, [evidence], same=have_one_content(np.array([[0, 1]]), contents))
    side = math.isqrt(len(attention))
    return Explanation(
        scorer.runtime.question,
        {question: one for question, (one,) in judged.items()},
        (side, side),
        float(attention.sum() / len(attention)),
        strongest_links(attention, links),
        attention,
        evidence,
    )


def list_corners(found: Explanation) -> dict[str, list[list[float]]] | None:
    """The corners of each picture in the other, as JSON has them; None where they cannot be laid over each other."""
    first, second = found.corners
    return {"first_in_second": [*map(list, first)], "second_in_first": [*map(list, second)]} if first else None


def look_in_words(found: Explanation) -> str:
    """The findings of a closer look in a sentence; empty where there was none."""
    seen = found.evidence
    if seen is None:
        return ""
    others = "; what they show behind the first frame or page differs" if seen.frames_differ else ""
    if seen.identical or seen.equal:
        return f"both pictures have the same pixels{others}"
    if seen.highest_probability < 1:
        return f"there is too little in them to be matched; their colours are {seen.apart:.0f} of 255 levels apart"
    if not seen.is_registered:
        matches, keypoints = format_count(seen.matches, "match", "matches"), format_count(seen.keypoints, "keypoint")
        return f"one picture cannot be laid over the other: {keypoints}, {matches}, and too few that agree"
    return (
        f"{seen.inliers:,} of {format_count(seen.matches, 'matching keypoint')} agree how one lies over the other; "
        f"they overlap in {seen.containment:.0%} of the smaller and {seen.coverage:.0%} of the larger, and what "
        f"overlaps is one picture with a probability of {float(sigmoid(np.array(seen.aligned_odds))):.0%}{others}"
    )


def draw_overlay(found: Explanation, picture_a: Image.Image, picture_b: Image.Image, *, side: int = SIDE) -> bytes:
    """Draw both pictures side by side as a PNG, with links and outlines; `side` pixels is the longer side of each."""
    large = _SCALE * side
    shown = [_fit_picture(picture, large) for picture in (picture_a, picture_b)]
    for picture, corners in zip(shown, reversed(found.corners), strict=True):
        if corners:
            _draw_outline(picture, corners)
    height = max(picture.height for picture in shown)
    canvas = Image.new("RGB", (2 * large + _SCALE * _GAP, height), _WHITE)
    corners = [
        (n * (large + _SCALE * _GAP) + (large - picture.width) // 2, (height - picture.height) // 2)
        for n, picture in enumerate(shown)
    ]
    for picture, corner in zip(shown, corners, strict=True):
        canvas.paste(picture, corner)
    draw = ImageDraw.Draw(canvas)
    most = max([1e-12, *(link.share for link in found.links)])
    for number, link in reversed(list(enumerate(found.links))):
        # A colour each: lines of one row of patches lie upon each other.
        colour = ImageColor.getrgb(f"hsl({360 * number / len(found.links):.0f}, 85%, 45%)")
        ends = []
        for patch, (x, y), picture in zip((link.first, link.second), corners, shown, strict=True):
            row, column = found.place(patch)
            across, down = (column + 0.5) / found.grid[1], (row + 0.5) / found.grid[0]
            ends.append((x + across * picture.width, y + down * picture.height))
        width = _SCALE * (1 + 2.5 * link.share / most)
        draw.line(ends, _WHITE, round(width + 2 * _SCALE))
        draw.line(ends, colour, round(width))
        for x, y in ends:
            draw.circle((x, y), 1.5 * width, colour, _WHITE)
    buffer = BytesIO()
    canvas.reduce(_SCALE).save(buffer, "PNG")
    return buffer.getvalue()


def _draw_outline(picture: Image.Image, corners: Corners) -> None:
    """Draw the outline of a polygon of shares of the picture's sides, which may reach beyond them."""
    places = [(x * picture.width, y * picture.height) for x, y in corners]
    draw = ImageDraw.Draw(picture)
    for colour, width in ((_WHITE, 6), (_OUTLINE, 3)):
        draw.line([*places, *places[:2]], colour, width * _SCALE, joint="curve")


def _fit_picture(picture: Image.Image, side: int) -> Image.Image:
    """Copy a picture in RGB with a longer side of so many pixels."""
    scale = side / max(picture.size)
    width, height = (max(1, round(length * scale)) for length in picture.size)
    return picture.convert("RGB").resize((width, height), Image.Resampling.BICUBIC)
