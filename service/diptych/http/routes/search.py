"""Searching the collection."""

from __future__ import annotations

from dataclasses import fields

from fastapi import APIRouter, Request

from diptych.collection.search import Match, SearchResult
from diptych.http.context import Context, Here, RequestId, positioned
from diptych.http.health import Proven
from diptych.http.middleware.errors import RequestError, documented
from diptych.http.schemas.bodies import body_schema, read_body
from diptych.http.schemas.requests import SearchForm, SearchOptions, SearchRequest
from diptych.http.schemas.responses import MatchItem, SearchAnswer

router = APIRouter(
    prefix="/v1",
    tags=["collection"],
    dependencies=[Proven],
    responses=documented(400, 401, 403, 404, 408, 413, 415, 422, 429, 500, 501, 503, 504),
)


@router.post(
    "/search",
    summary="Find a picture in the collection",
    openapi_extra=body_schema(SearchRequest, SearchForm),
)
async def search(request: Request, here: Here, request_id: RequestId) -> SearchAnswer:
    """The pictures most like the one sent: `curl -F image=@photo.jpg -F top=5 .../v1/search`, or JSON.

    `candidates` pictures are found by their embeddings; the network then looks at each of them together with the query
    and orders them anew. Both orders are answered.
    """
    body = await read_body(request, SearchRequest, SearchForm, 1, here.parsing)
    await here.open(body.collection)
    _check(body, here)
    runtime = here.asking(body.question, body.collection).runtime

    def work() -> SearchResult:
        query = here.picture_bytes(body.image, "image", body.collection)
        with positioned("image"):
            return collection.search(
                query,
                top=body.top,
                candidates=body.candidates,
                early_stop=body.early_stop,
                filter=body.filter,
                question=body.question,
            )

    def listed(matches: list[Match]) -> list[MatchItem]:
        return [_item(match, here.link(collection, match.id, "thumbnail")) for match in matches]

    with here.borrow(body.collection) as collection:
        found = await here.work.run(work, request)
    here.metrics.stages(found.timings)
    here.metrics.done("pictures", 1)
    here.metrics.done("pairs", found.reranked)
    return SearchAnswer(
        id=f"search-{request_id}",
        model=runtime.name,
        question=runtime.question,
        matches=listed(found.matches),
        candidates=listed(found.candidates),
        reranked=found.reranked,
        closer_looks=found.closer_looks,
        timings=found.timings,
    )


def _check(options: SearchOptions, here: Context) -> None:
    here.check(options)
    for name, limit in (("top", here.settings.top), ("candidates", here.settings.candidates)):
        asked = getattr(options, name)
        if asked > limit:
            raise RequestError(422, "invalid_request", f"{name} is {asked}; at most {limit} is allowed.", param=name)


def _item(match: Match, thumbnail: str) -> MatchItem:
    known = {field.name: getattr(match, field.name) for field in fields(match)}
    return MatchItem(**known, thumbnail=thumbnail)
