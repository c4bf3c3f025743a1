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
from diptych.http.middleware.errors import document_errors
from diptych.http.routes import duplicates
from diptych.http.routes.collections import describe_collections
from diptych.http.schemas.responses import (
    CalibrationItem,
    CollectionItem,
    Health,
    Info,
    Limits,
    ModelItem,
    ModelList,
    QuestionItem,
    Ready,
)
from diptych_runtime.calibration.verdicts import least_of
from diptych_runtime.decoder import FORMATS

router = APIRouter(tags=["service"], responses=document_errors(500))


@router.get("/v1/models", summary="The served models", responses=document_errors(401))
async def models(here: Here) -> ModelList:
    """The served model in OpenAI's form, and after it those of collections that have others."""
    served = dict.fromkeys(
        (one.runtime.name, one.runtime.revision) for one in (here.scorer, *here.collections.scorers())
    )
    return ModelList(data=[ModelItem(id=name, created=here.started, revision=revision) for name, revision in served])


@router.get(
    "/info", summary="Model, provider, limits and collections", responses=document_errors(401, 404, 422, 429, 504)
)
async def info(here: Here, collection: CollectionQuery = None) -> Info:
    """The description of this service: model, provider, thresholds, limits, and figures of the collections."""
    settings = here.settings

    def read_figures() -> tuple[dict[str, Any] | None, list[CollectionItem]]:
        return _get_figures(here.collections, collection), describe_collections(here)

    figures, listed = await here.reads.run(read_figures)
    # A collection that is damaged, or none, has no calibration of its own.
    runtime = here.scorer_of(collection if figures else None).runtime
    return Info(
        version=version("diptych"),
        model=runtime.name,
        revision=runtime.revision,
        provider=runtime.provider,
        attention_path=runtime.attention_path,
        pair_path=runtime.pair_path,
        threads=runtime.threads,
        panel_size=runtime.panel_size,
        embedding_dim=runtime.embedding_dim,
        thresholds=runtime.thresholds,
        formats=[*FORMATS],
        questions={
            name: QuestionItem(thresholds=one.thresholds, verdicts=least_of(one.stated), negatives=one.negatives)
            for name, one in runtime.manifest.questions.items()
        },
        calibration=None if runtime.own is None else CalibrationItem.model_validate(runtime.own),
        limits=Limits(
            **{name: value for name, value in settings if name in Limits.model_fields},
            duplicates_pictures=duplicates.PICTURES,
            duplicates_pairs=duplicates.PAIRS,
            metadata_bytes=METADATA_BYTES,
            picture_side=settings.picture_limits.side,
        ),
        collection=figures,
        collections=listed,
        collections_fixed=here.collections.fixed,
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
    responses={200: {"content": {"text/plain": {}}, "description": "Prometheus' text format"}, **document_errors(401)},
)
def metrics(here: Here) -> Response:
    """Requests, stages, rejections, pairs and pictures since the start, in Prometheus' text format."""
    return Response(here.metrics.render_text(), media_type=CONTENT_TYPE_LATEST)


@router.get("/healthz", summary="Is the process alive?")
@router.get("/v2/health/live", summary="Is the process alive? (Open Inference Protocol)")
async def alive() -> Health:
    """200 as long as the process answers."""
    return Health()


@router.get("/readyz", summary="Can it answer requests?", responses=document_errors(503))
@router.get(
    "/v2/health/ready", summary="Can it answer requests? (Open Inference Protocol)", responses=document_errors(503)
)
async def ready(here: Here) -> Ready:
    """200 once a golden pair was scored as it should be, while nothing is stuck and a tiny picture can be decoded; else
    503 with the reason.

    Of several collections some may be damaged: the others answer, so the service is ready, and they are named. A
    collection on a Milvus server is asked for, and the service is unready while it does not answer.
    """
    done = here.health.check_service()
    await here.health.check_decoding()
    if any(collection.backend.folder is None for collection in here.collections.open_ones().values()):
        await run_in_threadpool(here.health.check_servers)  # servers, which may be away for a while
    damaged = list(here.collections.damaged())
    return Ready(warm_up_seconds=done.seconds, same=done.same, other=done.other, damaged=damaged)
