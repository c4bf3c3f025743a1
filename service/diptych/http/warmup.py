"""The proof behind /readyz: a golden pair is scored through everything that a request will pass."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

import numpy as np
from PIL import Image

from diptych.collection.registry import Collections
from diptych.errors import UnreachableError
from diptych.scoring.scorer import Scorer
from diptych_runtime.closer_look.verification import describe_pixels

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class WarmUp:
    """The result of the warm-up: raw scores of a picture with itself and another one; `fault` is None if all is well.

    `proven` says that the model scored as it should, whatever else is the matter, and `passing` that the fault may
    pass: then another warm-up is worth while.
    """

    seconds: float
    same: float
    other: float
    fault: str | None
    proven: bool
    passing: bool = False


def golden_pictures(side: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Two drawn pictures that cannot be confused, uint8 (side, side, 3): a disc on a slope, and stripes."""
    rows, columns = np.mgrid[0:side, 0:side].astype(np.float32) / side
    disc = ((rows - 0.4) ** 2 + (columns - 0.6) ** 2 < 0.06)[..., None]
    slope = np.stack([columns, rows, 1 - columns], axis=-1)
    stripes = np.sin(40 * (rows + columns))[..., None] > np.array([0.0, 0.5, -0.5])
    first = np.where(disc, [0.9, 0.2, 0.1], 0.2 + 0.6 * slope)
    return (first * 255).astype(np.uint8), (stripes * 200 + 20).astype(np.uint8)


def detailed_picture() -> np.ndarray:
    """A drawn picture with much to be matched, uint8 (192, 256, 3)."""
    blots = np.random.default_rng(0).integers(0, 256, (24, 32, 3), np.uint8)
    return np.asarray(Image.fromarray(blots).resize((256, 192), Image.Resampling.BICUBIC))


def warm_up(scorer: Scorer, collections: Collections) -> WarmUp:
    """Score the golden pair and search every collection once; never raises, a failure is the `fault`.

    Where there are several collections, one that cannot be searched is no fault of the service: it is logged.
    """
    began = time.monotonic()
    picture, another = golden_pictures()
    try:
        pairs = [(picture, picture), (picture, another), (another, picture)]
        same, other, turned = map(float, scorer.predict(pairs, activation_fn=np.asarray))
        if any(question.verification is not None for question in scorer.runtime.manifest.questions.values()):
            view = describe_pixels(detailed_picture())
            scorer.evidence([(view, view)])  # loads what the first closer look would wait for
    except Exception:
        logger.exception("the golden pair could not be scored")
        fault = "the golden pair could not be scored; the log has the reason"
        return WarmUp(time.monotonic() - began, np.nan, np.nan, fault, proven=False, passing=True)
    fault = _fault(same, other, turned)
    if fault is not None:
        return WarmUp(time.monotonic() - began, same, other, fault, proven=False)
    fault = _unsearched(collections, picture)
    return WarmUp(time.monotonic() - began, same, other, fault, proven=True, passing=fault is not None)


def _unsearched(collections: Collections, picture: np.ndarray) -> str | None:
    """Search every collection; why the service is not ready, if so."""
    fault = None
    for name in collections.open_ones():
        try:
            with collections.borrow(name) as collection:
                collection.search(picture, top=1, candidates=1)
        except UnreachableError as error:
            logger.warning("the collection %s was not searched: %s", name, error)  # /readyz asks it every time
        except Exception:
            logger.exception("the collection %s cannot be searched", name)
            if collections.fixed:
                fault = f"the collection {name} cannot be searched; the log has the reason"
    return fault


def _fault(same: float, other: float, turned: float) -> str | None:
    if not np.isfinite([same, other, turned]).all():
        return f"the model's scores are not finite ({same}, {other}, {turned})"
    if other != turned:
        return f"the order of two pictures changes their score ({other} and {turned})"
    if not same > other:
        return f"the model scores a picture with itself ({same:.4f}) no higher than with another ({other:.4f})"
    return None
