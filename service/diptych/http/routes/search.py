"""Searching the collection."""

from __future__ import annotations

from fastapi import APIRouter, Request

from diptych.collection.search import Match, SearchResult
from diptych.http.bodies import describe_body
from diptych.http.context import Here, Proven, RequestId, refuse_picture
from diptych.http.middleware.errors import BODY_ERRORS, RequestError
from diptych.http.schemas.requests import SearchRequest
from diptych.http.schemas.responses import MatchItem, SearchAnswer
from diptych_runtime.errors import PictureError

router = APIRouter(prefix="/v1", tags=["collection"], dependencies=[Proven], responses=BODY_ERRORS)


@router.post(
    "/search",
    summary="Find a picture in the collection",
    openapi_extra=describe_body(SearchRequest, SearchRequest),
)
async def search(request: Request, here: Here, request_id: RequestId) -> SearchAnswer:
    """The pictures most like the one sent: `curl -F image=@photo.jpg -F top=5 .../v1/search`, or JSON.

    `candidates` pictures are found by their embeddings; the network then looks at each of them together with the query
    and orders them anew. Both orders are answered.
    """
    body = await here.read_request(request, SearchRequest, form=SearchRequest, pictures=1)
    for name, limit in (("top", here.settings.top), ("candidates", here.settings.candidates)):
        if (asked := getattr(body, name)) > limit:
            raise RequestError(422, "invalid_request", f"{name} is {asked}; at most {limit} is allowed.", param=name)
    runtime = here.choose_scorer(body).runtime

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
        id=f"search-{request_id}",
        model=runtime.name,
        question=runtime.question,
        matches=describe_matches(found.matches),
        candidates=describe_matches(found.candidates),
        reranked=found.reranked,
        closer_looks=found.closer_looks,
        timings=found.timings,
    )
