"""Groups of pictures of a collection that show the same photo."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from diptych.collection.collection import Collection
from diptych.dedupe.duplicates import Duplicates as Found
from diptych.dedupe.find import duplicates_among
from diptych.dedupe.pair_cache import PairCache
from diptych.dedupe.threshold import check_threshold
from diptych.errors import DedupeError
from diptych.http.bodies import describe_body
from diptych.http.context import Context, Here, Proven, RequestId
from diptych.http.middleware.errors import BODY_ERRORS, RequestError, document_errors
from diptych.http.pair_jobs import PairProgress
from diptych.http.schemas.requests import DuplicatesRequest
from diptych.http.schemas.responses import DuplicateGroup, DuplicateItem, Duplicates, PairsBegun
from diptych_runtime.calibration.questions import COPY

BOUND = 0.5  # the score to which the pairs of an answer reach down: even odds
PAIRS = 100_000  # in one answer, 2.5 MB of them
PICTURES = 50_000  # comparing the embeddings of so many takes a good part of a request

router = APIRouter(
    prefix="/v1", tags=["collection"], dependencies=[Proven], responses=BODY_ERRORS | document_errors(409)
)


@router.post("/duplicates", summary="Find duplicates in the collection", openapi_extra=describe_body(DuplicatesRequest))
async def duplicates(request: Request, here: Here, request_id: RequestId) -> PairsBegun | Duplicates:
    """Groups of pictures that show the same photo, each with the one to keep; nothing is removed.

    Scoring all pairs of a large collection takes minutes: a request works for some seconds, and as long as `complete`
    is false, the same request once more goes on. No pair is scored twice.
    """
    body = await here.read_request(request, DuplicatesRequest)

    def facts(collection: Collection) -> dict[str, Any]:
        check_request(body, collection)
        runtime = collection.scorer.asking(COPY).runtime
        return {"id": f"duplicates-{request_id}", "model": runtime.name, "question": runtime.question}

    def search(collection: Collection, cache: PairCache, progress: PairProgress) -> Found:
        return duplicates_among(
            collection,
            threshold=body.threshold,
            keep=body.keep,
            bound=BOUND,
            ledger=cache,
            on_pairs=progress.begin,
            question=COPY,
            views=here.pair_caches.views,
        )

    def answer(collection: Collection, found: Found, facts: dict[str, Any]) -> Duplicates:
        return _describe_groups(here, collection, found, facts)

    return await here.search_pairs(request, body, facts, search, answer)


def check_request(body: DuplicatesRequest, collection: Collection) -> None:
    """Refuse a request that would fail later, or take too long."""
    count = len(collection)
    if count > PICTURES:
        message = (
            f"The collection has {count:,} pictures, and a request searches at most {PICTURES:,} for duplicates; "
            "use `find_duplicates` of the Python library."
        )
        raise RequestError(422, "too_many_pictures", message, param="collection")
    try:
        check_threshold(body.threshold, collection.scorer.asking(COPY).runtime)
    except DedupeError as error:
        raise RequestError(422, "no_thresholds", str(error), param="threshold") from None


def _describe_groups(here: Context, collection: Collection, found: Found, facts: dict[str, Any]) -> Duplicates:
    pairs = sorted(found.pairs, key=lambda pair: -pair[2])
    left_out = max(0, len(pairs) - PAIRS)
    pairs = pairs[:PAIRS]
    groups = [
        DuplicateGroup(
            keeper=group.keeper.id,
            members=[
                DuplicateItem(
                    id=one.picture.id,
                    relevance_score=one.relevance_score,
                    verdict=one.verdict,
                    closer_look=one.closer_look,
                    replaced_by=None if one.replaced_by is None else one.replaced_by.id,
                    kept_because=one.kept_because,
                    edit=one.edit,
                )
                for one in group.others
            ],
        )
        for group in found.groups
    ]
    shown = {id for a, b, _ in pairs for id in (a, b)}
    shown |= {id for group in groups for id in (group.keeper, *(member.id for member in group.members))}
    ordered = [found.pictures[place].id for place in found.order if found.pictures[place].id in shown]
    place = {id: number for number, id in enumerate(ordered)}
    return Duplicates(
        **{**facts, "scored": found.scored, "total": found.scored},
        threshold=found.threshold,
        bound=pairs[-1][2] if left_out else found.bound,
        groups=groups,
        pictures=[here.describe_image(collection, collection.get(id)) for id in ordered],
        pairs=[(place[a], place[b], score) for a, b, score in pairs],
        verdicts=found.verdicts,
        alarm_rate=found.alarm_rate,
        left_out=left_out,
    )
