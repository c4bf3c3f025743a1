"""Groups of pictures of a collection that show the same photo."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, Request

from diptych.collection.collection import Collection
from diptych.dedupe.duplicates import Duplicates as Found
from diptych.dedupe.find import duplicates_among
from diptych.dedupe.threshold import check_threshold
from diptych.errors import DedupeError, UnknownPictureError
from diptych.http.context import Context, Here, RequestId
from diptych.http.health import Proven
from diptych.http.middleware.errors import RequestError, documented
from diptych.http.routes.images import described
from diptych.http.schemas.bodies import json_schema, read_json, require_json
from diptych.http.schemas.pairs import DuplicateGroup, DuplicateItem, Duplicates, DuplicatesBegun
from diptych.http.schemas.requests import DuplicatesRequest
from diptych.http.schemas.responses import ImageItem
from diptych.http.stint import Stint, TimeIsUp
from diptych_runtime.calibration.questions import COPY

BOUND = 0.5  # the score to which the pairs of an answer reach down: even odds
PAIRS = 100_000  # in one answer, 2.5 MB of them
PICTURES = 50_000  # comparing the embeddings of so many takes a good part of a request

router = APIRouter(
    prefix="/v1",
    tags=["collection"],
    dependencies=[Depends(require_json), Proven],
    responses=documented(400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 500, 501, 503, 504),
)


@router.post("/duplicates", summary="Find duplicates in the collection", openapi_extra=json_schema(DuplicatesRequest))
async def duplicates(request: Request, here: Here, request_id: RequestId) -> DuplicatesBegun | Duplicates:
    """Groups of pictures that show the same photo, each with the one to keep; nothing is removed.

    Scoring all pairs of a large collection takes minutes: a request works for some seconds, and as long as `complete`
    is false, the same request once more goes on. No pair is scored twice.
    """
    body = await read_json(request, DuplicatesRequest, 0, here.parsing)
    await here.open(body.collection)
    here.check(body)

    def work() -> DuplicatesBegun | Duplicates:
        _check(body, collection)
        stint = Stint(here.settings.seconds / 4)
        runtime = collection.scorer.asking(COPY).runtime
        facts: dict[str, Any] = {
            "id": f"duplicates-{request_id}",
            "model": runtime.name,
            "question": runtime.question,
        }
        try:
            with here.ledgers.of(collection) as ledger:
                found = duplicates_among(
                    collection,
                    threshold=body.threshold,
                    keep=body.keep,
                    bound=BOUND,
                    ledger=ledger,
                    on_pairs=stint.begin,
                    question=COPY,
                    views=here.ledgers.views,
                )
            here.ledgers.views.clear()  # all looks are taken, and kept
            done = {"scored": found.scored, "total": found.scored}
            return _answer(here, collection, found, {**facts, **stint.progress(), **done})
        except TimeIsUp:
            return DuplicatesBegun(**facts, **stint.progress())
        except UnknownPictureError as error:
            message = f"Pictures were removed meanwhile ({error}); ask again."
            raise RequestError(409, "collection_changed", message, param="collection") from None
        finally:
            here.metrics.done("pairs", stint.computed)
            here.metrics.stages(stint.timings())

    with here.borrow(body.collection) as collection:
        async with here.ledgers.turn(collection, here.settings.seconds):
            return await here.work.run(work, request)


def _check(body: DuplicatesRequest, collection: Collection) -> None:
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


def _answer(here: Context, collection: Collection, found: Found, facts: dict[str, Any]) -> Duplicates:
    pairs = sorted(found.pairs, key=lambda pair: -pair[2])
    left_out = len(pairs) - PAIRS
    if left_out > 0:
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
        **facts,
        threshold=found.threshold,
        bound=pairs[-1][2] if left_out > 0 else found.bound,
        groups=groups,
        pictures=[ImageItem(**described(here, collection, collection.get(id))) for id in ordered],
        pairs=[(place[a], place[b], score) for a, b, score in pairs],
        verdicts=found.verdicts,
        alarm_rate=found.alarm_rate,
        left_out=max(0, left_out),
    )
