"""The collections themselves."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from diptych.collection.registry import Summary
from diptych.errors import UnknownCollectionError
from diptych.http.context import Context, Here, MayChange
from diptych.http.middleware.errors import RequestError, documented
from diptych.http.schemas.bodies import json_schema, read_json, require_json
from diptych.http.schemas.requests import NewCollection
from diptych.http.schemas.responses import CollectionItem, CollectionList, DeletedCollection

router = APIRouter(prefix="/v1/collections", tags=["collections"], responses=documented(401, 500))

Name = Annotated[str, Path(description="As in /v1/collections.")]


@router.get("", summary="List collections", responses=documented(429, 504))
async def listing(here: Here) -> CollectionList:
    """Every collection with its size, damaged ones with their fault."""
    return CollectionList(data=await here.reads.run(lambda: summaries(here)))


@router.post(
    "",
    summary="Make a collection",
    responses={
        201: {"model": CollectionItem, "description": "It is new"},
        **documented(400, 403, 408, 409, 413, 415, 422, 429, 501, 503, 504),
    },
    openapi_extra=json_schema(NewCollection),
    dependencies=[MayChange, Depends(require_json)],
)
async def create(request: Request, here: Here, response: Response) -> CollectionItem:
    """Make an empty collection; 201, or 200 if it was there. One that was damaged and has been mended is opened."""
    body = await read_json(request, NewCollection, 0, here.parsing)
    _check_changeable(here)

    def make() -> CollectionItem:
        response.status_code = 201 if here.collections.create(body.name) else 200
        try:
            return _item(here.collections.summary(body.name))
        except UnknownCollectionError:
            message = f"Another request removed the collection {body.name} meanwhile; make it again if it is to stay."
            raise RequestError(409, "collection_changed", message, param="collection") from None

    return await run_in_threadpool(make)


@router.get("/{name}", summary="One collection", responses=documented(404, 422, 429, 504))
async def one(name: Name, here: Here) -> CollectionItem:
    """The size of one collection, or its fault."""
    return _item(await here.reads.run(lambda: here.collections.summary(name)))


@router.delete(
    "/{name}",
    summary="Remove a collection",
    responses=documented(403, 404, 409, 422, 501, 503),
    dependencies=[MayChange],
)
def remove(
    name: Name,
    here: Here,
    pictures: Annotated[int, Query(ge=0, description="How many pictures go with it: exactly as many as it has.")] = 0,
) -> DeletedCollection:
    """Remove a collection, its pictures and all that it keeps of them, for good. Requests in flight end first."""
    _check_changeable(here)
    here.collections.remove(name, pictures)
    return DeletedCollection(name=name, pictures=pictures)


def summaries(here: Context) -> list[CollectionItem]:
    """All collections as they are shown."""
    return [_item(found) for found in here.collections.summaries()]


def _item(found: Summary) -> CollectionItem:
    return CollectionItem(
        name=found.name,
        pictures=found.pictures,
        disk_bytes=found.disk_bytes,
        model=found.model,
        revision=found.revision,
        generation=found.generation,
        fault=found.fault,
    )


def _check_changeable(here: Context) -> None:
    if here.collections.fixed:
        message = "This service makes and removes no collections; start it with `diptych serve --collections ROOT`."
        raise RequestError(501, "fixed_collections", message)
