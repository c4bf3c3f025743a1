"""The routes of the service's description and health."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool

from diptych.collection.ingest import METADATA_BYTES
from diptych.collection.registry import Collections
from diptych.errors import CollectionNameError, DamagedCollectionError, UnknownCollectionError
from diptych.http import health
from diptych.http.context import Here
from diptych.http.middleware.errors import documented
from diptych.http.routes import duplicates
from diptych.http.routes.collections import summaries
from diptych.http.schemas.calibration import CalibratedQuestion, CalibrationItem, QuestionItem
from diptych.http.schemas.responses import Health, Info, Limits, ModelItem, ModelList, Ready
from diptych_runtime.calibration.verdicts import least_of
from diptych_runtime.decoder import FORMATS
from diptych_runtime.own_calibration import OwnCalibration

router = APIRouter(tags=["service"], responses=documented(500))


@router.get("/v1/models", summary="The served models", responses=documented(401))
async def models(here: Here) -> ModelList:
    """The served model in OpenAI's form, and after it those of collections that have others."""
    served = dict.fromkeys(
        (one.runtime.name, one.runtime.revision) for one in (here.scorer, *here.collections.scorers())
    )
    return ModelList(data=[ModelItem(id=name, created=here.started, revision=revision) for name, revision in served])


@router.get("/info", summary="Model, provider, limits and collections", responses=documented(401, 404, 422, 429, 504))
async def info(
    here: Here,
    collection: Annotated[
        str | None, Query(description="The collection that is meant; by default as in every request.")
    ] = None,
) -> Info:
    """The description of this service: model, provider, thresholds, limits, and figures of the collections."""
    settings = here.settings
    figures, listed = await here.reads.run(lambda: (_figures(here.collections, collection), summaries(here)))
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
        formats=[*FORMATS],
        thresholds=runtime.thresholds,
        questions={
            name: QuestionItem(thresholds=one.thresholds, verdicts=least_of(one.stated), negatives=one.negatives)
            for name, one in runtime.manifest.questions.items()
        },
        calibration=_calibration(runtime.own),
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


def _calibration(own: OwnCalibration | None) -> CalibrationItem | None:
    if own is None:
        return None
    counts = {name: CalibratedQuestion(same=one.same, different=one.different) for name, one in own.questions.items()}
    return CalibrationItem(made=own.made, model=own.model, questions=counts)


def _figures(collections: Collections, name: str | None) -> dict[str, Any] | None:
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
    responses={200: {"content": {"text/plain": {}}, "description": "Prometheus' text format"}, **documented(401)},
)
def metrics(here: Here) -> Response:
    """Requests, stages, rejections, pairs and pictures since the start, in Prometheus' text format."""
    return Response(here.metrics.text(), media_type=CONTENT_TYPE_LATEST)


@router.get("/healthz", summary="Is the process alive?")
@router.get("/v2/health/live", summary="Is the process alive? (Open Inference Protocol)")
async def alive() -> Health:
    """200 as long as the process answers."""
    return Health()


@router.get("/readyz", summary="Can it answer requests?", responses=documented(503))
@router.get("/v2/health/ready", summary="Can it answer requests? (Open Inference Protocol)", responses=documented(503))
async def ready(here: Here) -> Ready:
    """200 once a golden pair was scored as it should be, while nothing is stuck and a tiny picture can be decoded; else
    503 with the reason.

    Of several collections some may be damaged: the others answer, so the service is ready, and they are named. A
    collection on a Milvus server is asked for, and the service is unready while it does not answer.
    """
    done = health.ready(here)
    await health.decoding(here)
    if any(collection.backend.folder is None for collection in here.collections.open_ones().values()):
        await run_in_threadpool(health.reachable, here)  # servers, which may be away for a while
    damaged = list(here.collections.damaged())
    return Ready(warm_up_seconds=done.seconds, same=done.same, other=done.other, damaged=damaged)
