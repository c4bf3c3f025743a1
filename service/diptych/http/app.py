"""The service as an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig

from diptych.collection import Collection
from diptych.collections import Collections
from diptych.http.context import Context
from diptych.http.edge import OPEN, Edge
from diptych.http.errors import install_handlers
from diptych.http.metrics import Metrics
from diptych.http.openapi import complete_openapi
from diptych.http.routes import collections, duplicates, images, pairs, search, status
from diptych.http.routes.page import install_page
from diptych.http.settings import Settings
from diptych.http.warmup import warm_up
from diptych.http.work import Work
from diptych.remote import Remote
from diptych.scorer import Scorer

_ABOUT = "Scores how alike two pictures are by looking at both at once."

# Traces go where OTEL_EXPORTER_OTLP_ENDPOINT says, and nowhere without it. Figures are at `/metrics` and errors in the
# log already; FastAPI's own records of errors would carry what was sent.
_TELEMETRY: TelemetryConfig = {
    "auto_configure": True,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "exclude": lambda scope: scope["path"] in OPEN or scope["path"] == "/metrics",
}


def create_app(stored: Collections | Collection | None, scorer: Scorer, *, settings: Settings | None = None) -> FastAPI:
    """The HTTP face of a scorer and, if given, of one or more collections: `uvicorn.run(create_app(stored, scorer))`.

    Warming up starts with the server and runs beside it: `/healthz` answers at once, `/readyz` when it is done. What is
    stored stays the caller's to close.
    """
    kept = Collections.of(stored)
    settings = settings or Settings()
    scorer.engine.capacity = settings.pairs
    metrics = Metrics(scorer, kept)
    work = Work(settings.workers, settings.waiting, settings.seconds, lambda waited: metrics.stage("queue", waited))
    # A thumbnail decodes a whole picture, which may be large: more than a few at once would cost too much memory.
    reads = Work(workers=4, waiting=1024, seconds=settings.seconds)
    remote = None if settings.remote is None else Remote(settings.remote)
    context = Context(scorer, kept, settings, work, reads, metrics, fetch=remote and remote.fetch)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async def warm() -> None:
            context.warm_up = await context.work.run(lambda: warm_up(scorer, kept))

        warming = asyncio.create_task(warm())
        yield
        if remote is not None:
            remote.close()
        await warming

    # FastAPI's own documentation pages load their parts from another host, so only the document is served.
    app = FastAPI(
        title="Diptych",
        description=_ABOUT,
        version=version("diptych"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        telemetry=_TELEMETRY,
    )
    app.state.context = context
    app.add_middleware(Edge, body_bytes=settings.body_bytes, keys=settings.keys, metrics=metrics)
    install_handlers(app)
    for part in (pairs, search, duplicates, images, collections, status):
        app.include_router(part.router)
    install_page(app)
    complete_openapi(app, settings)
    return app
