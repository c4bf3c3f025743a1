"""Labelled pairs: the pairs to ask a person about, and the answers."""

from __future__ import annotations

from itertools import chain, islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from diptych.collection.collection import Collection
from diptych.errors import UnknownPictureError
from diptych.http.context import Here, MayChange, RequestId, Stored, asked
from diptych.http.health import Proven
from diptych.http.middleware.errors import RequestError, documented
from diptych.http.routes.images import described
from diptych.http.schemas.bodies import json_schema, read_json, require_json
from diptych.http.schemas.images import IMAGE_ID
from diptych.http.schemas.labels import (
    LabelCounts,
    LabelItem,
    LabelList,
    LabelTakenBack,
    PairItem,
    PairsBegun,
    PairsToLabel,
)
from diptych.http.schemas.requests import LabelRequest, PairsRequest
from diptych.http.schemas.responses import ImageItem
from diptych.http.stint import Stint, TimeIsUp
from diptych.labelling.choose import pairs_to_label
from diptych.labelling.table import csv_texts
from diptych.store.records import Label
from diptych.store.sqlite.backend import SqliteBackend
from diptych_runtime.calibration.questions import COPY

PAGE = 1000  # labels in one answer

router = APIRouter(
    prefix="/v1/pairs", tags=["collection"], responses=documented(401, 404, 422, 429, 500, 501, 503, 504)
)

_BODY_ERRORS = documented(400, 403, 408, 413, 415)
QuestionText = Annotated[
    str | None, Query(description="Only answers to this one, `copy` or `thing`; by default to both.")
]
Id = Annotated[str, Query(description="32 hexadecimal digits.", json_schema_extra=IMAGE_ID)]


@router.post(
    "/next",
    summary="The pairs that teach most",
    openapi_extra=json_schema(PairsRequest),
    dependencies=[Depends(require_json), Proven],
    responses=documented(400, 403, 408, 409, 413, 415),
)
async def following(request: Request, here: Here, request_id: RequestId) -> PairsBegun | PairsToLabel:
    """The pairs without a label that a person's answers to teach most: near the thresholds, in disagreement, and of
    many different pictures.

    They are scored first: as long as `complete` is false, the same request once more goes on. No pair is scored twice.
    """
    body = await read_json(request, PairsRequest, 0, here.parsing)
    await here.open(body.collection)
    here.check(body)

    def work() -> PairsBegun | PairsToLabel:
        _check_place(collection)
        stint = Stint(here.settings.seconds / 4)
        question = body.question or COPY
        model = collection.scorer.runtime.name
        facts: dict[str, Any] = {"id": f"pairs-{request_id}", "model": model, "question": question}
        try:
            with here.ledgers.of(collection) as ledger:
                found = pairs_to_label(
                    collection,
                    body.count,
                    question=question,
                    ledger=ledger,
                    on_pairs=stint.begin,
                    views=here.ledgers.views,
                )
            here.ledgers.views.clear()  # all looks are taken, and kept
        except TimeIsUp:
            return PairsBegun(**facts, **stint.progress())
        except UnknownPictureError as error:
            message = f"Pictures were removed meanwhile ({error}); ask again."
            raise RequestError(409, "collection_changed", message, param="collection") from None
        finally:
            here.metrics.done("pairs", stint.computed)
            here.metrics.stages(stint.timings())
        data = [
            PairItem(
                a=ImageItem(**described(here, collection, pair.a)),
                b=ImageItem(**described(here, collection, pair.b)),
                relevance_score=pair.relevance_score,
                verdict=pair.verdict,
                similarity=pair.similarity,
                reason=pair.reason,
            )
            for pair in found
        ]
        counts = _counts(collection, question)
        return PairsToLabel(**facts, **stint.progress(), data=data, labels=counts)

    with here.borrow(body.collection) as collection:
        async with here.ledgers.turn(collection, here.settings.seconds):
            return await here.work.run(work, request)


@router.get("/labels", summary="The labels of the collection")
async def labels(
    here: Here,
    collection: Stored,
    question: QuestionText = None,
    limit: Annotated[int, Query(ge=1, le=PAGE, description="How many at most.")] = PAGE,
    after: Annotated[int, Query(ge=0, lt=2**63, description="`next` of the page before.")] = 0,
) -> LabelList:
    """The answers that people gave, page by page, in the order they were given; the latest of a pair and question
    counts.
    """
    _check_place(collection)
    asked(collection.scorer, question)

    def work() -> LabelList:
        found, following = collection.store.label_page(limit, after, question)
        return LabelList(
            data=[_item(one) for one in found],
            has_more=following is not None,
            next=following,
            counts=None if after else _counts(collection, question),
        )

    return await here.reads.run(work)


@router.get(
    "/labels/export",
    summary="The labels as CSV",
    response_class=Response,
    responses={200: {"content": {"text/csv": {}}, "description": "A line for each label"}},
)
async def export(here: Here, collection: Stored, question: QuestionText = None) -> StreamingResponse:
    """The labels as a table, as `diptych calibrate --labels` reads it."""
    _check_place(collection)
    asked(collection.scorer, question)
    pages = collection.store.label_pages(PAGE, question)
    # The first is read before the answer begins: after that nothing can be refused any more.
    first = await here.reads.run(lambda: list(islice(pages, 1)))
    texts = (text.encode("utf-8", "backslashreplace") for text in csv_texts(chain(first, pages)))
    headers = {"Content-Disposition": 'attachment; filename="labels.csv"'}
    return StreamingResponse(texts, media_type="text/csv", headers=headers)


@router.post(
    "/labels",
    summary="Label a pair",
    openapi_extra=json_schema(LabelRequest),
    dependencies=[MayChange, Depends(require_json)],
    responses={**_BODY_ERRORS, **documented(409)},
)
async def label(request: Request, here: Here) -> LabelItem:
    """Keep a person's answer about two stored pictures. It stands in place of an earlier answer."""
    body = await read_json(request, LabelRequest, 0, here.parsing)
    await here.open(body.collection)
    here.check(body)
    question = body.question or COPY
    if body.a == body.b:
        raise RequestError(422, "same_picture", "a and b are the same picture; a label is of two.", param="b")

    def work() -> LabelItem:
        _check_place(collection)
        collection.label(body.a, body.b, body.answer, question=question)
        kept = collection.store.label_of(body.a, body.b, question)
        if kept is None:
            raise RequestError(409, "collection_changed", "The label was taken back meanwhile; look at it again.")
        return _item(kept)

    with here.borrow(body.collection) as collection:
        return await here.work.run(work, request)


@router.delete("/labels", summary="Take back a label", dependencies=[MayChange], responses=documented(403))
async def take_back(
    here: Here,
    collection: Stored,
    a: Id,
    b: Id,
    question: Annotated[str, Query(description="`copy` or `thing`.")] = COPY,
) -> LabelTakenBack:
    """Forget the latest answer about a pair; an earlier one stands again."""
    _check_place(collection)
    asked(collection.scorer, question)
    gone = await here.reads.run(lambda: collection.take_back_label(a, b, question=question))
    return LabelTakenBack(a=a, b=b, question=question, taken_back=gone)


def _check_place(collection: Collection) -> None:
    if not isinstance(collection.backend, SqliteBackend):
        message = f"Labels are kept in a collection in a folder; {collection.name} is elsewhere."
        raise RequestError(501, "no_labels", message, param="collection")


def _item(one: Label) -> LabelItem:
    return LabelItem(
        a=one.a,
        b=one.b,
        question=one.question,
        answer=one.answer,
        added=one.added,
        path_a=one.path_a,
        path_b=one.path_b,
    )


def _counts(collection: Collection, question: str | None) -> LabelCounts:
    counted = collection.store.label_counts(question)
    return LabelCounts(same=counted["same"], different=counted["different"], cannot_tell=counted["cannot tell"])
