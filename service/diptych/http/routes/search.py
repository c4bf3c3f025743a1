"""Searching the collection: for one picture, and for groups that show the same photo."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from diptych.collection.collection import Collection
from diptych.collection.search import Match, SearchResult
from diptych.dedupe.duplicates import Duplicates as Found
from diptych.dedupe.find import duplicates_among
from diptych.dedupe.pair_cache import PairCache
from diptych.dedupe.threshold import check_threshold
from diptych.errors import DedupeError
from diptych.http.bodies import describe_body
from diptych.http.context import Context, Here, Proven, refuse_picture
from diptych.http.middleware.errors import ERRORS, RequestError
from diptych.http.pair_jobs import PairProgress
from diptych.http.schemas.requests import DuplicatesRequest, SearchRequest
from diptych.http.schemas.responses import (
    DuplicateGroup,
    DuplicateItem,
    Duplicates,
    MatchItem,
    PairsBegun,
    SearchAnswer,
)
from diptych_runtime.calibration.questions import COPY
from diptych_runtime.errors import PictureError

BOUND = 0.5  # the score to which the pairs of an answer reach down: even odds
PAIRS = 100_000  # in one answer, 2.5 MB of them
PICTURES = 50_000  # comparing the embeddings of so many takes a good part of a request

router = APIRouter(prefix="/v1", tags=["collection"], dependencies=[Proven], responses=ERRORS)


@router.post(
    "/search", summary="Find a picture in the collection", openapi_extra=describe_body(SearchRequest, form=True)
)
async def search(request: Request, here: Here) -> SearchAnswer:
    """The pictures most like the one sent: `curl -F image=@photo.jpg -F top=5 .../v1/search`, or JSON.

    `candidates` pictures are found by their embeddings; the network then looks at each of them together with the query
    and orders them anew. Both orders are answered.
    """
    body = await here.read_request(request, SearchRequest, form=True, pictures=1)
    for name, limit in (("top", here.settings.top), ("candidates", here.settings.candidates)):
        if (asked := getattr(body, name)) > limit:
            raise RequestError(422, "invalid_request", f"{name} is {asked}; at most {limit} is allowed.", param=name)
    scorer = here.choose_scorer(body)

    def search_collection() -> SearchResult:
        query = here.picture_bytes(body.image, "image", body.collection)
        try:
            return collection.search(
                query,
                top=body.top,
                candidates=body.candidates,
                early_stop=body.early_stop,
                filter=body.filter,
                question=body.question,
            )
        except PictureError as error:
            raise refuse_picture(error, "image") from error

    def describe_matches(matches: list[Match]) -> list[MatchItem]:
        return [
            MatchItem(**vars(match), thumbnail=here.link_picture(collection, match.id, "thumbnail"))
            for match in matches
        ]

    with here.borrow_collection(body.collection) as collection:
        found = await here.work.run(search_collection, request)
    here.metrics.add_stages(found.timings)
    here.metrics.count_items("pictures", 1)
    here.metrics.count_items("pairs", found.reranked)
    return SearchAnswer(
        **here.describe_answer("search", request, scorer),
        matches=describe_matches(found.matches),
        candidates=describe_matches(found.candidates),
        reranked=found.reranked,
        closer_looks=found.closer_looks,
        timings=found.timings,
    )


@router.post("/duplicates", summary="Find duplicates in the collection", openapi_extra=describe_body(DuplicatesRequest))
async def duplicates(request: Request, here: Here) -> PairsBegun | Duplicates:
    """Groups of pictures that show the same photo, each with the one to keep; nothing is removed.

    Scoring all pairs of a large collection takes minutes: a request works for some seconds, and as long as `complete`
    is false, the same request once more goes on. No pair is scored twice.
    """
    body = await here.read_request(request, DuplicatesRequest)

    def facts(collection: Collection) -> dict[str, Any]:
        check_request(body, collection)
        return here.describe_answer("duplicates", request, collection.scorer.asking(COPY))

    def search(collection: Collection, cache: PairCache, progress: PairProgress) -> Found:
        return duplicates_among(
            collection,
            threshold=body.threshold,
            keep=body.keep,
            bound=BOUND,
            pair_cache=cache,
            on_stage=progress.begin,
            question=COPY,
            views=here.pair_caches.views,
        )

    def answer(collection: Collection, found: Found, facts: dict[str, Any]) -> Duplicates:
        return _describe_groups(here, collection, found, facts)

    return await here.search_pairs(request, body, facts, search, answer)


def check_request(body: DuplicatesRequest, collection: Collection) -> None:
    """Refuse a request that would fail later, or take too long."""
    if len(collection) > PICTURES:
        message = f"Expected at most {PICTURES:,} pictures, got {len(collection):,}; use `find_duplicates` in Python."
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
                DuplicateItem.model_validate(
                    vars(one) | {"id": one.picture.id, "replaced_by": one.replaced_by and one.replaced_by.id}
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
