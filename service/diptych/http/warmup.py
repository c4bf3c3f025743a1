"""The proof behind /readyz: a golden pair is scored through everything that a request will pass."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

import numpy as np

from diptych.collections import Collections
from diptych.errors import StoreError, UnreachableError
from diptych.scorer import Scorer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class WarmUp:
    """How the warm-up went: raw scores of a picture with itself and another one; `fault` is None if all is well."""

    seconds: float
    same: float
    other: float
    fault: str | None


def golden_pictures(side: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Two drawn pictures that nobody would confuse, uint8 (side, side, 3): a disc on a slope, and stripes."""
    rows, columns = np.mgrid[0:side, 0:side].astype(np.float32) / side
    disc = ((rows - 0.4) ** 2 + (columns - 0.6) ** 2 < 0.06)[..., None]
    slope = np.stack([columns, rows, 1 - columns], axis=-1)
    stripes = np.sin(40 * (rows + columns))[..., None] > np.array([0.0, 0.5, -0.5])
    first = np.where(disc, [0.9, 0.2, 0.1], 0.2 + 0.6 * slope)
    return (first * 255).astype(np.uint8), (stripes * 200 + 20).astype(np.uint8)


def warm_up(scorer: Scorer, collections: Collections) -> WarmUp:
    """Score the golden pair and search every collection once; never raises, a failure is the `fault`.

    Where there are several collections, one that cannot be searched is no fault of the service: it is logged.
    """
    began = time.monotonic()
    try:
        picture, another = golden_pictures()
        same, other, turned = (
            float(score)
            for score in scorer.predict([(picture, picture), (picture, another), (another, picture)], activation=False)
        )
        for name in collections.opened():
            try:
                with collections.using(name) as collection:
                    collection.search(picture, top=1, candidates=1)
            except UnreachableError as error:
                logger.warning("the collection %s was not searched: %s", name, error)  # /readyz asks it every time
            except StoreError:
                if collections.fixed:
                    raise
                logger.exception("the collection %s cannot be searched", name)
    except Exception as error:
        logger.exception("the warm-up failed")
        return WarmUp(time.monotonic() - began, np.nan, np.nan, f"the warm-up failed: {error}")
    return WarmUp(time.monotonic() - began, same, other, _fault(same, other, turned))


def _fault(same: float, other: float, turned: float) -> str | None:
    if not np.isfinite([same, other, turned]).all():
        return f"the model's scores are not finite ({same}, {other}, {turned})"
    if other != turned:
        return f"the order of two pictures changes their score ({other} and {turned})"
    if not same > other:
        return f"the model scores a picture with itself ({same:.4f}) no higher than with another ({other:.4f})"
    return None
