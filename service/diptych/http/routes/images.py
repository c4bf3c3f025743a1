"""The pictures of the collection."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from diptych.collection.collection import Collection
from diptych.collection.ingest import Incoming, checked_metadata, simulate_commit
from diptych.errors import UnknownPictureError
from diptych.http.bodies import describe_body
from diptych.http.context import Context, Here, MayChange, Proven, Stored, refuse_picture
from diptych.http.middleware.errors import ERRORS, RequestError, document_file
from diptych.http.schemas.pictures import IMAGE_ID, Picture, Upload, list_pictures
from diptych.http.schemas.requests import FILTER_SCHEMA, AddRequest, read_filter
from diptych.http.schemas.responses import (
    AddedItem,
    Deleted,
    DryRunAnswer,
    Fault,
    ForeseenItem,
    ImageItem,
    ImageList,
    ItemList,
)
from diptych.store.open import export_lines
from diptych_runtime.errors import PictureError

router = APIRouter(prefix="/v1/images", tags=["collection"], responses=ERRORS)

Id = Annotated[str, Path(alias="id", description="32 hexadecimal digits.", json_schema_extra=IMAGE_ID)]
FilterText = Annotated[str | None, Query(include_in_schema=False)]
_FILTER = {
    # Written by hand: it is JSON in the address, which FastAPI has no word for.
    "name": "filter",
    "in": "query",
    "required": False,
    "description": "A condition on metadata as JSON, as in /v1/search.",
    "content": {"application/json": {"schema": FILTER_SCHEMA}},
}
_PICTURE_HEADERS = {
    # The id is a digest of the content, so what a browser keeps under it never goes stale.
    "Cache-Control": "private, max-age=86400, immutable",
    "Content-Security-Policy": "default-src 'none'; sandbox",
}


@router.post(
    "",
    summary="Add pictures",
    openapi_extra=describe_body(AddRequest, form=True),
    responses={201: {"model": ItemList[AddedItem], "description": "At least one is new"}},
    dependencies=[MayChange, Proven],
)
async def add(request: Request, response: Response, here: Here) -> ItemList[AddedItem] | DryRunAnswer:
    """Add one or more pictures: `curl -F images=@a.jpg -F images=@b.jpg .../v1/images`, or as JSON.

    201 if at least one is new, 200 if all were there already: the same file has the same id. Of those, `metadata`
    replaces what they had; without it, that stays. All are added, or, if one cannot be read, none. With `dry_run` it
    is 200, nothing is written, and every picture that cannot be read is named.
    """
    body = await here.read_request(request, AddRequest, form=True)

    def add_pictures() -> ItemList[AddedItem] | DryRunAnswer:
        given = list_pictures(body.images, body.key_of("images"), here.settings.pictures)
        positions = [position for position, _ in given]
        files = [(here.picture_bytes(picture, place, body.collection), place) for place, picture in given]
        metadata = [_merge_metadata(picture, body.metadata, place) for place, picture in given]
        # Each is checked before any is added, so that a bad one leaves the collection as it was.
        with here.metrics.time_stage("decode"):
            received = collection.read_new(files, keep_originals=True)
        arrivals: list[Incoming | PictureError] = [
            content if isinstance(content, PictureError) else Incoming(content, None, own, body.metadata is not None)
            for content, own in zip(received, metadata, strict=True)
        ]
        if body.dry_run:
            return _foresee_pictures(arrivals, positions)
        added = _commit_pictures(here, collection, arrivals, positions)
        new = sum(item.created for item in added)
        here.metrics.count_items("pictures", new)
        response.status_code = 201 if new else 200
        return ItemList(data=added)

    with here.borrow_collection(body.collection) as collection:
        return await here.work.run(add_pictures, request)


@router.get("", summary="List pictures", openapi_extra={"parameters": [_FILTER]})
async def listing(
    here: Here,
    collection: Stored,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many at most.")] = 50,
    after: Annotated[str | None, Query(description="`next` of the page before.")] = None,
    filter: FilterText = None,
) -> ImageList:
    """The pictures of the collection, page by page, in a fixed order."""
    condition = None if filter is None else read_filter(filter)
    records = await here.reads.run(lambda: collection.list(limit + 1, after, filter=condition))
    more, records = len(records) > limit, records[:limit]
    return ImageList(
        data=[here.describe_image(collection, record) for record in records],
        has_more=more,
        next=records[-1].id if more else None,
    )


@router.get(
    "/export",
    summary="All records, a line each",
    openapi_extra={"parameters": [_FILTER]},
    response_class=Response,
    responses=document_file("application/x-ndjson"),
)
async def export(
    here: Here,
    collection: Stored,
    embeddings: Annotated[bool, Query(description="With the embedding, float32 in base64.")] = False,
    filter: FilterText = None,
) -> Response:
    """Every picture of the collection as a line of JSON, in the order they were added."""
    where = None if filter is None else read_filter(filter)
    records = export_lines(collection.backend, where, embeddings=embeddings)
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    return await here.stream_text(lines, "application/x-ndjson")


@router.get("/{id}", summary="One picture's record")
async def one(id_: Id, here: Here, collection: Stored) -> ImageItem:
    """The record of one stored picture."""
    return here.describe_image(collection, await here.reads.run(lambda: collection.get(id_)))


@router.get("/{id}/content", summary="The picture itself", response_class=Response, responses=document_file("image/*"))
async def content(id_: Id, here: Here, collection: Stored) -> Response:
    """The file of one picture, unchanged."""
    data, kind = await here.reads.run(lambda: collection.content(id_))
    return Response(data, media_type=kind, headers=_PICTURE_HEADERS)


@router.get(
    "/{id}/thumbnail", summary="The picture, small", response_class=Response, responses=document_file("image/jpeg")
)
async def thumbnail(
    id_: Id,
    here: Here,
    collection: Stored,
    side: Annotated[int, Query(ge=16, le=1024, description="Longest side, pixels.")] = 256,
) -> Response:
    """One picture as a small JPEG."""
    data = await here.reads.run(lambda: collection.thumbnail(id_, side))
    return Response(data, media_type="image/jpeg", headers=_PICTURE_HEADERS)


@router.delete("/{id}", summary="Remove a picture", dependencies=[MayChange])
async def remove(id_: Id, here: Here, collection: Stored) -> Deleted:
    """Take one picture out of the collection; a file the collection only points to stays where it is."""
    if not await here.reads.run(lambda: collection.remove(id_)):
        raise UnknownPictureError(f'the collection has no picture "{id_[:64]}"')
    return Deleted(id=id_)


def _merge_metadata(picture: Picture, given: dict[str, Any] | None, position: str) -> dict[str, Any]:
    """The metadata of a picture: those that were given, and the name of a file, which counts as they do."""
    if not isinstance(picture, Upload):
        return given or {}
    try:
        return checked_metadata({"filename": picture.filename} | (given or {}))
    except ValueError as error:
        message = f"With the file's name, {error}; send less, or a shorter name."
        raise RequestError(422, "invalid_request", message, param="metadata" if given else position) from None


def _commit_pictures(
    here: Context, collection: Collection, arrivals: Sequence[Incoming | PictureError], positions: Sequence[str]
) -> list[AddedItem]:
    """Store all pictures; the first that cannot be read is 422 with its position."""
    good = []
    for arrival, position in zip(arrivals, positions, strict=True):
        if isinstance(arrival, PictureError):
            raise refuse_picture(arrival, position)
        good.append(arrival)
    with here.metrics.time_stage("panel"):
        kept = collection.commit(good)
    try:
        records = [collection.get(added.id) for added in kept]
    except UnknownPictureError as error:
        message = f"Another request removed one of the pictures meanwhile: {error}. Add again those that are to stay."
        raise RequestError(409, "collection_changed", message, param="collection") from None
    items = [here.describe_image(collection, record) for record in records]
    return [AddedItem(created=added.created, **dict(item)) for added, item in zip(kept, items, strict=True)]


def _foresee_pictures(arrivals: Sequence[Incoming | PictureError], positions: Sequence[str]) -> DryRunAnswer:
    """Foresee what `_commit_pictures` would answer for each picture, were the others good."""
    met: set[str] = set()
    items = []
    for arrival, position in zip(arrivals, positions, strict=True):
        if isinstance(arrival, PictureError):
            fault = Fault(message=str(arrival), code=arrival.code)
            items.append(ForeseenItem(position=position, id=None, created=False, error=fault))
        else:
            (added,) = simulate_commit([arrival], met)
            items.append(ForeseenItem(position=position, id=added.id, created=added.created, error=None))
    return DryRunAnswer(data=items, refused=sum(item.error is not None for item in items))
