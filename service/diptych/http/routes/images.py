"""The pictures of the collection."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from diptych.archive import lines
from diptych.collection import Collection
from diptych.errors import UnknownPictureError
from diptych.filters import EVERYTHING, compiled
from diptych.http.answers import AddAnswer, AddedItem, Deleted, ImageItem, ImageList
from diptych.http.bodies import body_schema, read_body
from diptych.http.context import Here, MayChange, positioned
from diptych.http.errors import documented
from diptych.http.requests import AddForm, AddRequest, read_filter
from diptych.records import Record

router = APIRouter(prefix="/v1/images", tags=["collection"], responses=documented(401, 422, 500, 501))

Id = Annotated[str, Path(alias="id", description="32 hexadecimal digits.")]
_ADD_ERRORS = documented(400, 403, 413, 415, 429, 503, 504)
_PICTURE_HEADERS = {
    # The id is a digest of the content, so what a browser keeps under it never goes stale.
    "Cache-Control": "private, max-age=86400, immutable",
    "Content-Security-Policy": "default-src 'none'; sandbox",
}


@router.post(
    "",
    summary="Add pictures",
    openapi_extra=body_schema(AddRequest, AddForm, several=True),
    responses={201: {"model": AddAnswer, "description": "At least one is new"}, **_ADD_ERRORS},
    dependencies=[MayChange],
)
async def add(request: Request, response: Response, here: Here) -> AddAnswer:
    """Add one or more pictures: `curl -F image=@a.jpg -F image=@b.jpg .../v1/images`, or one as JSON.

    201 if at least one is new, 200 if all were there already: the same file has the same id. All are added, or, if one
    cannot be read, none.
    """
    collection = here.collection
    body = await read_body(request, AddRequest, AddForm, files=here.settings.pictures)

    def work() -> list[AddedItem]:
        if isinstance(body, AddRequest):
            return _add_all(collection, [("image", here.picture_bytes(body.image, "image"), body.metadata or {})])
        form, uploads = body
        own = form.metadata or {}
        files = [(f"image[{n}]", data, {"filename": name, **own}) for n, (name, data) in enumerate(uploads)]
        for position, data, _ in files:
            # Each is decoded before any is added, so that a bad one leaves the collection as it was.
            with positioned(position):
                here.scorer.pixels(data, name=position)
        return _add_all(collection, files)

    added = await here.work.run(work, request)
    here.metrics.done("pictures", len(added))
    response.status_code = 201 if any(item.created for item in added) else 200
    return AddAnswer(data=added)


@router.get("", summary="List pictures", responses=documented(404))
def listing(
    here: Here,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many at most.")] = 50,
    after: Annotated[str | None, Query(description="`next` of the page before.")] = None,
    filter: Annotated[str | None, Query(description="A condition on metadata as JSON, as in /v1/search.")] = None,
) -> ImageList:
    """The pictures of the collection, page by page, in a fixed order."""
    condition = None if filter is None else read_filter(filter)
    records = here.collection.list(limit + 1, after, filter=condition)
    more, records = len(records) > limit, records[:limit]
    return ImageList(
        data=[ImageItem(**_described(record)) for record in records],
        has_more=more,
        next=records[-1].id if more else None,
    )


@router.get(
    "/export",
    summary="All records, a line each",
    response_class=Response,
    responses={200: {"content": {"application/x-ndjson": {}}, "description": "One JSON object a line"}},
)
def export(
    here: Here,
    embeddings: Annotated[bool, Query(description="With the embedding, float32 in base64.")] = False,
    filter: Annotated[str | None, Query(description="A condition on metadata as JSON, as in /v1/search.")] = None,
) -> StreamingResponse:
    """Every picture of the collection as a line of JSON, in the order they were added."""
    store = here.collection.store
    where = EVERYTHING if filter is None else compiled(read_filter(filter))
    found = (json.dumps(line, ensure_ascii=False) + "\n" for line in lines(store, where, embeddings=embeddings))
    return StreamingResponse(found, media_type="application/x-ndjson")


@router.get("/{id}", summary="One picture's record", responses=documented(404))
def one(id_: Id, here: Here) -> ImageItem:
    """What the collection knows of one picture."""
    return ImageItem(**_described(here.collection.get(id_)))


@router.get(
    "/{id}/content",
    summary="The picture itself",
    response_class=Response,
    responses={
        200: {"content": {"image/*": {}}, "description": "The file as it was added"},
        **documented(404, 429, 503, 504),
    },
)
async def content(id_: Id, here: Here) -> Response:
    """The file of one picture, unchanged."""
    collection = here.collection
    data, kind = await here.reads.run(lambda: collection.content(id_))
    return Response(data, media_type=kind, headers=_PICTURE_HEADERS)


@router.get(
    "/{id}/thumbnail",
    summary="The picture, small",
    response_class=Response,
    responses={200: {"content": {"image/jpeg": {}}, "description": "A JPEG"}, **documented(404, 429, 503, 504)},
)
async def thumbnail(
    id_: Id, here: Here, side: Annotated[int, Query(ge=16, le=1024, description="Longest side, pixels.")] = 256
) -> Response:
    """One picture as a small JPEG."""
    collection = here.collection
    data = await here.reads.run(lambda: collection.thumbnail(id_, side))
    return Response(data, media_type="image/jpeg", headers=_PICTURE_HEADERS)


@router.delete("/{id}", summary="Remove a picture", responses=documented(403, 404), dependencies=[MayChange])
def remove(id_: Id, here: Here) -> Deleted:
    """Take one picture out of the collection; a file the collection only points to stays where it is."""
    if not here.collection.remove(id_):
        raise UnknownPictureError(f'the collection has no picture "{id_[:64]}"')
    return Deleted(id=id_)


def _add_all(collection: Collection, files: list[tuple[str, bytes, dict[str, Any]]]) -> list[AddedItem]:
    items = []
    for position, data, metadata in files:
        with positioned(position):
            added = collection.add(data, metadata=metadata, keep_bytes=True)
        items.append(AddedItem(created=added.created, **_described(collection.get(added.id))))
    return items


def _described(record: Record) -> dict[str, Any]:
    return {
        "id": record.id,
        "path": record.path,
        "metadata": record.metadata,
        "width": record.width,
        "height": record.height,
        "bytes_kept": record.bytes_kept,
        "added": record.added,
        "content": f"/v1/images/{record.id}/content",
        "thumbnail": f"/v1/images/{record.id}/thumbnail",
    }
