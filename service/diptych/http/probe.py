"""The probe of the decoder, which decodes a picture."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future
from functools import partial
from threading import Lock, Thread

from diptych.errors import DeadlineError
from diptych.scoring.deadline import Deadline, deadline_scope
from diptych.scoring.scorer import Scorer
from diptych_runtime.decoder import panel_pixels

PROBE_SECONDS = 3.0  # that a tiny picture has to be decoded in
_FRESH = 1.0  # seconds for which a probe that went well is not repeated

logger = logging.getLogger(__name__)


class Probe:
    """Decodes a tiny picture where those of requests are decoded: one at a time and at most once a second, whatever
    the number of those who ask.
    """

    # A PNG of eight by eight grey pixels, the least that is taken.
    PICTURE = bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000008000000080800000000e164e157"
        "0000000e4944415478da6368800206ca18008084200110e86a170000000049454e"
        "44ae426082"
    )

    def __init__(self, scorer: Scorer) -> None:
        self._scorer, self._lock, self._began = scorer, Lock(), 0.0
        self._last: Future[bool] | None = None

    def begun(self) -> Future[bool]:
        """The probe in flight, a recent one that went well, or a new one: whether the picture was decoded."""
        with self._lock:
            last, now = self._last, time.monotonic()
            if last is not None and (not last.done() or (last.result() and now - self._began < _FRESH)):
                return last
            self._last, self._began = Future(), now
            Thread(target=self._decode, args=(self._last,), name="diptych-probe", daemon=True).start()
            return self._last

    def _decode(self, answer: Future[bool]) -> None:
        decoder, began = self._scorer.decoder, time.monotonic()
        try:
            with deadline_scope(Deadline(began + PROBE_SECONDS)):
                decoder.run(partial(panel_pixels, self.PICTURE, 8))
        except DeadlineError as error:
            # A pool that is busy with the pictures of others decodes too.
            if busy := decoder.answered > began:
                logger.info("a probe of the decoding waited in vain, while others were answered")
            else:
                logger.warning("a probe of the decoding failed: %s", error)
            answer.set_result(busy)
        except Exception as error:
            logger.warning("a probe of the decoding failed: %s", error)
            answer.set_result(False)
        else:
            answer.set_result(True)
