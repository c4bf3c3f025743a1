"""The health of the service: a golden pair that is scored, a picture that is decoded, and the error where one fails."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.to_thread
import numpy as np
from PIL import Image
from starlette.concurrency import run_in_threadpool

from diptych.collection.registry import Collections
from diptych.errors import DeadlineError, StoreError, UnreachableError
from diptych.http.middleware.errors import RequestError
from diptych.scoring.deadline import Deadline, deadline_scope
from diptych.scoring.scorer import Scorer
from diptych_runtime.closer_look.verification import describe_pixels
from diptych_runtime.decoder import panel_pixels

PROBE_SECONDS = 3.0  # that a tiny picture has to be decoded in
_FRESH = 1.0  # seconds for which no other picture is decoded
# A PNG of eight by eight grey pixels, the least that is taken.
_PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000008000000080800000000e164e157"
    "0000000e4944415478da6368800206ca18008084200110e86a170000000049454e"
    "44ae426082"
)

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


class Health:
    """The health of a service over these collections, in which `longest_running()` seconds are computed at a time."""

    def __init__(
        self, scorer: Scorer, collections: Collections, stuck_seconds: float, longest_running: Callable[[], float]
    ) -> None:
        self.warm_up: WarmUp | None = None  # once it is done
        self.draining = False  # somebody has told the process to end
        self._scorer, self._collections = scorer, collections
        self._stuck_seconds, self._longest_running = stuck_seconds, longest_running
        self._probing, self._probed, self._decodes = asyncio.Lock(), -math.inf, False
        self._own_thread = anyio.CapacityLimiter(1)  # whatever else the others wait for

    def check_model(self) -> WarmUp:
        """The result of the warm-up; 503 until the model has scored the golden pair as it should."""
        done = self.warm_up
        if done is None:
            raise _refuse_unready("the model is warming up")
        if not done.proven:
            raise _refuse_unready(str(done.fault), seconds=30)
        return done

    async def check_service(self) -> WarmUp:
        """The result of the warm-up; 503 if that failed, a computation is stuck, or the service is about to end.

        Also where no picture can be decoded, or a server of a collection does not answer.
        """
        if self.draining:
            raise RequestError(503, "draining", "The service is ending; ask another one.")
        done, oldest = self.check_model(), self._longest_running()
        if done.fault is not None:
            raise _refuse_unready(done.fault, seconds=30)
        if oldest > self._stuck_seconds:
            raise RequestError(503, "stuck", f"A computation has been running for {oldest:.0f} s.")
        async with self._probing:  # of many who ask, one decodes for all
            if time.monotonic() - self._probed >= _FRESH:
                self._decodes = False
                with anyio.move_on_after(PROBE_SECONDS + 1):
                    self._decodes = await anyio.to_thread.run_sync(
                        self._try_decoding, abandon_on_cancel=True, limiter=self._own_thread
                    )
                self._probed = time.monotonic()
        if not self._decodes:
            raise _refuse_unready(f"no picture could be decoded within {PROBE_SECONDS:g} s")
        if any(collection.backend.folder is None for collection in self._collections.open_ones().values()):
            await run_in_threadpool(self._check_servers)  # which may be away for a while
        return done

    async def is_ready(self) -> bool:
        """True if `check_service` finds no fault."""
        try:
            await self.check_service()
            return True
        except RequestError:
            return False

    def _try_decoding(self) -> bool:
        """Decode a tiny picture where those of requests are decoded; True if that went well in time."""
        decoder, began = self._scorer.decoder, time.monotonic()
        try:
            with deadline_scope(Deadline(began + PROBE_SECONDS)):
                decoder.run(partial(panel_pixels, _PICTURE, 8))
            return True
        except Exception as error:
            # A pool that is busy with the pictures of others decodes too.
            busy = isinstance(error, DeadlineError) and decoder.answered > began
            logger.log(logging.INFO if busy else logging.WARNING, "a probe of the decoding failed: %s", error)
            return busy

    def _check_servers(self) -> None:
        """Ask the servers that collections are on; 503 if one does not answer."""
        for collection in self._collections.open_ones().values():
            if collection.backend.folder is None:
                try:
                    collection.backend.check()
                except StoreError as error:
                    raise _refuse_unready(str(error), seconds=5) from None


def _refuse_unready(fault: str, *, seconds: int = 1) -> RequestError:
    return RequestError(503, "not_ready", f"Not ready: {fault}.", headers={"Retry-After": str(seconds)})


def draw_golden_pair(side: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Two drawn pictures that cannot be confused, uint8 (side, side, 3): a disc on a slope, and stripes."""
    rows, columns = np.mgrid[0:side, 0:side].astype(np.float32) / side
    disc = ((rows - 0.4) ** 2 + (columns - 0.6) ** 2 < 0.06)[..., None]
    slope = np.stack([columns, rows, 1 - columns], axis=-1)
    stripes = np.sin(40 * (rows + columns))[..., None] > np.array([0.0, 0.5, -0.5])
    first = np.where(disc, [0.9, 0.2, 0.1], 0.2 + 0.6 * slope)
    return (first * 255).astype(np.uint8), (stripes * 200 + 20).astype(np.uint8)


def draw_details() -> np.ndarray:
    """A drawn picture with much to be matched, uint8 (192, 256, 3)."""
    blots = np.random.default_rng(0).integers(0, 256, (24, 32, 3), np.uint8)
    return np.asarray(Image.fromarray(blots).resize((256, 192), Image.Resampling.BICUBIC))


def warm_up(scorer: Scorer, collections: Collections) -> WarmUp:
    """Score the golden pair and search every collection once; never raises, a failure is the `fault`.

    Where there are several collections, one that cannot be searched is no fault of the service: it is logged.
    """
    began = time.monotonic()
    picture, another = draw_golden_pair()
    try:
        pairs = [(picture, picture), (picture, another), (another, picture)]
        same, other, turned = map(float, scorer.predict(pairs, activation_fn=np.asarray))
        if any(question.verification is not None for question in scorer.runtime.manifest.questions.values()):
            view = describe_pixels(draw_details())
            scorer.evidence([(view, view)])  # loads what the first closer look would wait for
    except Exception:
        logger.exception("the golden pair could not be scored")
        fault = "the golden pair could not be scored; the log has the reason"
        return WarmUp(time.monotonic() - began, np.nan, np.nan, fault, proven=False, passing=True)
    # Also where one of them is no number.
    if not (same > other == turned and np.isfinite(same - other)):
        fault = f"the model scores a picture with itself {same:.4f}, and with another {other:.4f} or {turned:.4f}"
        return WarmUp(time.monotonic() - began, same, other, fault, proven=False)
    fault = _search_all(collections, picture)
    return WarmUp(time.monotonic() - began, same, other, fault, proven=True, passing=fault is not None)


def _search_all(collections: Collections, picture: np.ndarray) -> str | None:
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
            if collections.is_fixed:
                fault = f"the collection {name} cannot be searched; the log has the reason"
    return fault
