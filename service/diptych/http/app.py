"""The service as an ASGI application, with its page and its OpenAPI document."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from pydantic.json_schema import models_json_schema
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

from diptych.collection.collection import Collection
from diptych.collection.registry import Collections
from diptych.errors import OverloadedError
from diptych.http.bodies import REFERENCE, omit_null
from diptych.http.context import Context
from diptych.http.health import warm_up
from diptych.http.metrics import Metrics
from diptych.http.middleware.body_limits import BodyLimits
from diptych.http.middleware.errors import ErrorEnvelope, install_handlers
from diptych.http.middleware.outer import OPEN, OuterMiddleware
from diptych.http.request_pool import RequestPool
from diptych.http.routes import collections, images, labels, pairs, search, status
from diptych.http.schemas import requests
from diptych.http.settings import Settings
from diptych.pictures.fetch import Fetcher
from diptych.scoring.scorer import Scorer
from diptych.store.filters import SCHEMA as FILTER
from diptych_runtime.calibration.questions import askable_questions

WARM_AGAIN = 30.0  # seconds after a warm-up that failed and may succeed

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

# Of routes, as the interface's page shows them: those for clients of other services last but one.
_GROUPS = ("pictures in the request", "collection", "collections", "where other services have it", "service")


def create_app(stored: Collections | Collection | None, scorer: Scorer, *, settings: Settings | None = None) -> FastAPI:
    """The HTTP face of a scorer and, if given, of one or more collections: `uvicorn.run(create_app(stored, scorer))`.

    Warming up starts with the server and runs beside it: `/healthz` answers at once, `/readyz` when it is done. What is
    stored stays the caller's to close.
    """
    kept = Collections.of(stored)
    settings = settings or Settings()
    for one in (scorer, *kept.scorers()):
        one.scheduler.capacity = settings.pairs
    metrics = Metrics(scorer, kept)
    work = RequestPool(
        settings.workers, settings.waiting, settings.seconds, lambda waited: metrics.add_stages({"queue": waited})
    )
    # What asks no model. A thumbnail decodes a whole picture, which may be large: more than a few at once would cost
    # too much memory.
    reads = RequestPool(workers=4, waiting=1024, seconds=settings.seconds)
    remote = None if settings.remote is None else Fetcher(settings.remote)
    # Python reads one body at a time, whatever it is given; two, so that small ones need not wait for a large one.
    parsing = RequestPool(workers=2, waiting=1024, seconds=settings.seconds)
    context = Context(scorer, kept, settings, work, reads, parsing, metrics, fetch=remote and remote.fetch)
    body_limits = BodyLimits(settings.body_bytes, settings.bodies_bytes, settings.body_seconds)
    metrics.add_gauge("diptych_body_bytes", "Bytes of the bodies of requests being answered.", lambda: body_limits.held)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        ending = asyncio.Event()

        async def keep_warming() -> None:
            while not ending.is_set():
                with suppress(OverloadedError):
                    # However long it takes: what is not ready at the deadline of a request may be so a little later.
                    context.health.warm_up = await work.run(lambda: warm_up(scorer, kept), seconds=math.inf)
                if (done := context.health.warm_up) is not None and not done.passing:
                    return
                with suppress(TimeoutError):
                    await asyncio.wait_for(ending.wait(), WARM_AGAIN)

        warming = asyncio.create_task(keep_warming())
        yield
        ending.set()
        if remote is not None:
            remote.close()
        await warming

    app = FastAPI(
        title="Diptych",
        description=_ABOUT,
        version=version("diptych"),
        lifespan=lifespan,
        openapi_tags=[{"name": name} for name in _GROUPS],
        docs_url=None,  # `_install_page` has it
        redoc_url=None,
        telemetry=_TELEMETRY,
    )
    app.state.context, app.state.body_limits = context, body_limits
    app.add_middleware(
        OuterMiddleware, body_limits=body_limits, keys=settings.keys, hosts=settings.hosts, metrics=metrics
    )
    install_handlers(app)
    for part in (pairs, search, labels, images, collections, status):
        # As `include_router` would, which makes each of them anew at the first request: that would wait 80 ms for it.
        app.router.routes.extend(part.router.routes)
    _install_page(app)
    _complete_document(app, settings, askable_questions(scorer.runtime.questions))
    return app


_PAGE = Path(__file__).parent / "page"
# A browser asks each time whether its copy still holds: after an update, old and new modules would not fit together.
_FRESH = {"Cache-Control": "no-cache"}


class _Parts(StaticFiles):
    def file_response(self, full_path: str | os.PathLike[str], *rest: Any, **options: Any) -> Response:
        response = super().file_response(full_path, *rest, **options)
        response.headers.update(_FRESH)
        return response


def _install_page(app: FastAPI) -> None:
    """Serve the page at `/`, the interface's at `/docs`, and their parts under `/page/` and `/swagger/`.

    FastAPI's own `/docs` has a script in its text, which our policy forbids, and loads Swagger UI from another host.
    """
    app.mount("/page", _Parts(directory=_PAGE), name="page")
    app.mount("/swagger", _Parts(packages=[("fastapi_offline", "static")]), name="swagger")

    @app.get("/", include_in_schema=False)
    async def index() -> FileResponse:
        return FileResponse(_PAGE / "index.html", headers=_FRESH)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> FileResponse:
        return FileResponse(_PAGE / "docs.html", headers=_FRESH)


_BODIES = (
    *(requests.AddRequest, requests.DuplicatesRequest, requests.EmbeddingRequest, requests.ExplainRequest),
    *(requests.LabelRequest, requests.NewCollection, requests.PairsRequest, requests.RerankRequest),
    *(requests.ScoreRequest, requests.SearchRequest),
)
_WAYS = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic", "description": "Any user; the key is the password."},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}


def _complete_document(app: FastAPI, settings: Settings, questions: Sequence[str]) -> None:
    """Let `app.openapi()` also define the bodies that come as JSON or as a form, the body of errors, the limits of a
    search, the questions of the model and, if there are any, the keys.
    """
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        document = plain()
        schemas = document["components"]["schemas"]
        _, extra = models_json_schema(
            [*((body, "validation") for body in _BODIES), (ErrorEnvelope, "serialization")], ref_template=REFERENCE
        )
        for name, schema in extra["$defs"].items():
            schemas.setdefault(name, schema)
        schemas["Filter"] = FILTER
        for schema in _find_fields(document, "question"):
            for kind in schema.get("anyOf", [schema]):
                if kind["type"] == "string":
                    kind["enum"] = [*questions]
        for name, limit in (("top", settings.top), ("candidates", settings.candidates)):
            for schema in _find_fields(document, name):
                schema["maximum"] = limit
        if settings.keys:
            document["components"]["securitySchemes"] = _WAYS
            document["security"] = [{way: []} for way in _WAYS]
            for path in OPEN & set(document["paths"]):
                for operation in document["paths"][path].values():
                    operation["security"] = []
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _find_fields(document: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """The schemas of what requests bring under a name: in JSON, in a form or in the address."""
    bodies = [document["components"]["schemas"][body.__name__] for body in _BODIES]
    for operations in document["paths"].values():
        for operation in operations.values():
            bodies += [one["schema"] for one in operation.get("requestBody", {}).get("content", {}).values()]
            for one in operation.get("parameters", []):
                if one["name"] == name:
                    one["schema"] = omit_null(one["schema"])
                    yield one["schema"]
    yield from (body["properties"][name] for body in bodies if name in body.get("properties", {}))
