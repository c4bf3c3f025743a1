"""Labelled pairs: the pairs to ask a person about, and the answers."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from diptych.collection.collection import Collection
from diptych.dedupe.pair_cache import PairCache
from diptych.http.bodies import describe_body
from diptych.http.context import Here, MayChange, Proven, Stored, choose_question
from diptych.http.middleware.errors import ERRORS, RequestError, document_file
from diptych.http.pair_jobs import PairProgress
from diptych.http.schemas.pictures import IMAGE_ID
from diptych.http.schemas.requests import LabelRequest, PairsRequest
from diptych.http.schemas.responses import LabelCounts, LabelList, LabelTakenBack, PairItem, PairsBegun, PairsToLabel
from diptych.labelling.choose import PairToLabel, pairs_to_label
from diptych.labelling.table import csv_texts
from diptych.store.records import Label
from diptych.store.sqlite.backend import SqliteBackend
from diptych_runtime.calibration.questions import COPY

PAGE = 1000  # labels in one answer

router = APIRouter(prefix="/v1/pairs", tags=["collection"], responses=ERRORS)

QuestionText = Annotated[
    str | None, Query(description="Only answers to this one, `copy` or `thing`; by default to both.")
]
Id = Annotated[str, Query(description="32 hexadecimal digits.", json_schema_extra=IMAGE_ID)]


@router.post(
    "/next", summary="The pairs that teach most", openapi_extra=describe_body(PairsRequest), dependencies=[Proven]
)
async def following(request: Request, here: Here) -> PairsBegun | PairsToLabel:
    """The pairs without a label that a person's answers to teach most: near the thresholds, in disagreement, and of
    many different pictures.

    They are scored first: as long as `complete` is false, the same request once more goes on. No pair is scored twice.
    """
    body = await here.read_request(request, PairsRequest)
    question = body.question or COPY

    def facts(collection: Collection) -> dict[str, Any]:
        _check_place(collection)
        return here.describe_answer("pairs", request, collection.scorer) | {"question": question}

    def search(collection: Collection, cache: PairCache, progress: PairProgress) -> list[PairToLabel]:
        return pairs_to_label(
            collection,
            body.count,
            question=question,
            ledger=cache,
            on_stage=progress.begin,
            views=here.pair_caches.views,
        )

    def answer(collection: Collection, found: list[PairToLabel], facts: dict[str, Any]) -> PairsToLabel:
        data = [
            PairItem.model_validate(
                vars(pair)
                | {"a": here.describe_image(collection, pair.a), "b": here.describe_image(collection, pair.b)}
            )
            for pair in found
        ]
        return PairsToLabel(**facts, data=data, labels=count_labels(collection, question))

    return await here.search_pairs(request, body, facts, search, answer)


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
    choose_question(collection.scorer, question)

    def read_page() -> LabelList:
        found, following = collection.store.label_page(limit, after, question)
        return LabelList(
            data=found,
            has_more=following is not None,
            next=following,
            counts=None if after else count_labels(collection, question),
        )

    return await here.reads.run(read_page)


@router.get("/labels/export", summary="The labels as CSV", response_class=Response, responses=document_file("text/csv"))
async def export(here: Here, collection: Stored, question: QuestionText = None) -> Response:
    """The labels as a table, as `diptych calibrate --labels` reads it."""
    _check_place(collection)
    choose_question(collection.scorer, question)
    texts = csv_texts(collection.store.label_pages(PAGE, question))
    answer = await here.stream_text((text.encode("utf-8", "backslashreplace") for text in texts), "text/csv")
    answer.headers["Content-Disposition"] = 'attachment; filename="labels.csv"'
    return answer


@router.post("/labels", summary="Label a pair", openapi_extra=describe_body(LabelRequest), dependencies=[MayChange])
async def label(request: Request, here: Here) -> Label:
    """Keep a person's answer about two stored pictures. It stands in place of an earlier answer."""
    body = await here.read_request(request, LabelRequest)
    question = body.question or COPY
    if body.a == body.b:
        raise RequestError(422, "same_picture", "a and b are the same picture; a label is of two.", param="b")

    def keep_label() -> Label:
        _check_place(collection)
        collection.label(body.a, body.b, body.answer, question=question)
        kept = collection.store.label_of(body.a, body.b, question)
        if kept is None:
            raise RequestError(409, "collection_changed", "The label was taken back meanwhile; look at it again.")
        return kept

    with here.borrow_collection(body.collection) as collection:
        return await here.work.run(keep_label, request)


@router.delete("/labels", summary="Take back a label", dependencies=[MayChange])
async def take_back(
    here: Here,
    collection: Stored,
    a: Id,
    b: Id,
    question: Annotated[str, Query(description="`copy` or `thing`.")] = COPY,
) -> LabelTakenBack:
    """Forget the latest answer about a pair; an earlier one stands again."""
    _check_place(collection)
    choose_question(collection.scorer, question)
    gone = await here.reads.run(lambda: collection.take_back_label(a, b, question=question))
    return LabelTakenBack(a=a, b=b, question=question, taken_back=gone)


def _check_place(collection: Collection) -> None:
    if not isinstance(collection.backend, SqliteBackend):
        message = f"Labels are kept in a collection in a folder; {collection.name} is elsewhere."
        raise RequestError(501, "no_labels", message, param="collection")


def count_labels(collection: Collection, question: str | None) -> LabelCounts:
    """Numbers of the labels to a question, or to all."""
    counted = collection.store.label_counts(question)
    return LabelCounts(same=counted["same"], different=counted["different"], cannot_tell=counted["cannot tell"])
