"""The health of the service, and the error to answer where it is not ready."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fastapi import Depends

from diptych.errors import StoreError
from diptych.http.context import Context, Here
from diptych.http.middleware.errors import RequestError
from diptych.http.probe import PROBE_SECONDS
from diptych.http.warmup import WarmUp


async def decoding(here: Context) -> None:
    """503 unless a picture can be decoded within PROBE_SECONDS."""
    decoded = False
    with suppress(TimeoutError):  # a probe ends by itself, by its deadline; this is for one that does not
        decoded = await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(here.probe.begun())), PROBE_SECONDS + 1)
    if not decoded:
        message = f"Not ready: no picture could be decoded within {PROBE_SECONDS:g} s."
        raise RequestError(503, "not_ready", message, headers={"Retry-After": "1"})


def proven(here: Context) -> WarmUp:
    """The result of the warm-up; 503 until the model has scored the golden pair as it should."""
    done = here.warm_up
    if done is None:
        message = "The model is warming up; try again in a moment."
        raise RequestError(503, "not_ready", message, headers={"Retry-After": "1"})
    if not done.proven:
        raise _not_ready(done)
    return done


def ready(here: Context) -> WarmUp:
    """The result of the warm-up; 503 if that failed, a computation is stuck or the service is about to end."""
    if here.work.draining:
        raise RequestError(503, "draining", "The service is ending; ask another one.")
    done, oldest = proven(here), here.longest_running()
    if done.fault is not None:
        raise _not_ready(done)
    if oldest > here.settings.stuck_seconds:
        raise RequestError(503, "stuck", f"A computation has been running for {oldest:.0f} s.")
    return done


def _not_ready(done: WarmUp) -> RequestError:
    return RequestError(503, "not_ready", f"Not ready: {done.fault}.", headers={"Retry-After": "30"})


def reachable(here: Context) -> None:
    """Ask the servers that collections are on; 503 if one does not answer."""
    for collection in here.collections.open_ones().values():
        if collection.backend.folder is None:
            try:
                collection.backend.check()
            except StoreError as error:
                raise RequestError(503, "not_ready", f"Not ready: {error}.", headers={"Retry-After": "5"}) from None


def is_ready(here: Context) -> bool:
    """True if the service is `ready`, its collections are `reachable`, and it decodes."""
    try:
        ready(here)
        reachable(here)
        return here.probe.begun().result(PROBE_SECONDS + 1)
    except (RequestError, TimeoutError):
        return False


async def _proven(here: Here) -> None:
    proven(here)


Proven = Depends(_proven)  # of every route that asks the model
