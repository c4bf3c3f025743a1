"""The routes of the service's description and health."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool

from diptych.collection.ingest import METADATA_BYTES
from diptych.collection.registry import Collections
from diptych.errors import CollectionNameError, DamagedCollectionError, UnknownCollectionError
from diptych.http.context import CollectionQuery, Here
from diptych.http.middleware.errors import ERRORS, document_errors, document_file
from diptych.http.routes import search
from diptych.http.routes.collections import describe_collections
from diptych.http.schemas.responses import (
    CalibrationItem,
    CollectionItem,
    Health,
    Info,
    ItemList,
    ModelItem,
    QuestionItem,
    Ready,
    RuntimeFacts,
)
from diptych_runtime.calibration.verdicts import verdict_thresholds
from diptych_runtime.decoder import FORMATS

router = APIRouter(tags=["service"])

_HEALTH_ERRORS = document_errors(500, 503)


@router.get("/v1/models", summary="The served models", responses=ERRORS)
async def models(here: Here) -> ItemList[ModelItem]:
    """The served model in OpenAI's form, and after it those of collections that have others."""
    runtimes = [one.runtime for one in (here.scorer, *here.collections.scorers())]
    served = dict.fromkeys((runtime.name, runtime.revision) for runtime in runtimes)
    return ItemList(data=[ModelItem(id=name, created=here.started, revision=revision) for name, revision in served])


@router.get("/info", summary="Model, provider, limits and collections", responses=ERRORS)
async def info(here: Here, collection: CollectionQuery = None) -> Info:
    """The description of this service: model, provider, thresholds, limits, and figures of the collections."""
    settings = here.settings

    def read_figures() -> tuple[dict[str, Any] | None, list[CollectionItem]]:
        return _get_figures(here.collections, collection), describe_collections(here)

    figures, listed = await here.reads.run(read_figures)
    # A collection that is damaged, or none, has no calibration of its own.
    runtime = here.scorer_of(collection if figures else None).runtime
    questions = {
        name: QuestionItem(
            thresholds=one.thresholds, verdicts=verdict_thresholds(one.effective_thresholds), negatives=one.negatives
        )
        for name, one in runtime.manifest.questions.items()
    }
    own_limits = {
        "duplicates_pictures": search.PICTURES,
        "duplicates_pairs": search.PAIRS,
        "metadata_bytes": METADATA_BYTES,
        "picture_side": settings.picture_limits.side,
    }
    return Info(
        **dict(RuntimeFacts.model_validate(runtime)),
        version=version("diptych"),
        model=runtime.name,
        formats=[*FORMATS],
        questions=questions,
        calibration=None if runtime.own is None else CalibrationItem.model_validate(runtime.own),
        limits=settings.model_dump(include=settings.SHOWN) | own_limits,
        collection=figures,
        collections=listed,
        collections_fixed=here.collections.is_fixed,
    )


def _get_figures(collections: Collections, name: str | None) -> dict[str, Any] | None:
    """Figures of the collection that is meant, if there is one and it is whole; only a wrong name is an error."""
    try:
        with collections.borrow(name) as collection:
            return collection.stats()
    except (CollectionNameError, DamagedCollectionError):
        return None
    except UnknownCollectionError:
        if name is not None:
            raise
        return None


@router.get(
    "/metrics",
    summary="Figures for Prometheus",
    response_class=Response,
    responses=ERRORS | document_file("text/plain"),
)
async def metrics(here: Here) -> Response:
    """Requests, stages, rejections, pairs and pictures since the start, in Prometheus' text format."""
    here.metrics.ready.set(await here.health.is_ready())
    return Response(await run_in_threadpool(here.metrics.render_text), media_type=CONTENT_TYPE_LATEST)


@router.get("/healthz", summary="Is the process alive?")
@router.get("/v2/health/live", summary="Is the process alive? (Open Inference Protocol)")
async def alive() -> Health:
    """200 as long as the process answers."""
    return Health()


@router.get("/readyz", summary="Can it answer requests?", responses=_HEALTH_ERRORS)
@router.get("/v2/health/ready", summary="Can it answer requests? (Open Inference Protocol)", responses=_HEALTH_ERRORS)
async def ready(here: Here) -> Ready:
    """200 once a golden pair was scored as it should be, while nothing is stuck and a tiny picture can be decoded; else
    503 with the reason.

    Of several collections some may be damaged: the others answer, so the service is ready, and they are named. A
    collection on a Milvus server is asked for, and the service is unready while it does not answer.
    """
    done = await here.health.check_service()
    damaged = list(here.collections.list_faults())
    return Ready(warm_up_seconds=done.seconds, same=done.same, other=done.other, damaged=damaged)
