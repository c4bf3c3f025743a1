"""The collections themselves."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from diptych.errors import UnknownCollectionError
from diptych.http.bodies import describe_body, read_body
from diptych.http.context import Context, Here, MayChange
from diptych.http.middleware.errors import ERRORS, RequestError
from diptych.http.schemas.requests import NewCollection
from diptych.http.schemas.responses import CollectionItem, DeletedCollection, ItemList

router = APIRouter(prefix="/v1/collections", tags=["collections"], responses=ERRORS)

Name = Annotated[str, Path(description="As in /v1/collections.")]


@router.get("", summary="List collections")
async def listing(here: Here) -> ItemList[CollectionItem]:
    """Every collection with its size, damaged ones with their fault."""
    return ItemList(data=await here.reads.run(lambda: describe_collections(here)))


@router.post(
    "",
    summary="Make a collection",
    responses={201: {"model": CollectionItem, "description": "It is new"}},
    openapi_extra=describe_body(NewCollection),
    dependencies=[MayChange],
)
async def create(request: Request, here: Here, response: Response) -> CollectionItem:
    """Make an empty collection; 201, or 200 if it was there. One that was damaged and has been mended is opened."""
    body = await read_body(request, NewCollection, here.parsing)
    _check_changeable(here)

    def create_collection() -> CollectionItem:
        response.status_code = 201 if here.collections.create(body.name) else 200
        try:
            return CollectionItem(**vars(here.collections.summary(body.name)))
        except UnknownCollectionError:
            message = f"Another request removed the collection {body.name} meanwhile; make it again if it is to stay."
            raise RequestError(409, "collection_changed", message, param="collection") from None

    return await run_in_threadpool(create_collection)


@router.get("/{name}", summary="One collection")
async def one(name: Name, here: Here) -> CollectionItem:
    """The size of one collection, or its fault."""
    return CollectionItem(**vars(await here.reads.run(lambda: here.collections.summary(name))))


@router.delete("/{name}", summary="Remove a collection", dependencies=[MayChange])
def remove(
    name: Name,
    here: Here,
    pictures: Annotated[int, Query(ge=0, description="How many pictures go with it: exactly as many as it has.")] = 0,
) -> DeletedCollection:
    """Remove a collection, its pictures and all that it keeps of them, for good. Requests in flight end first."""
    _check_changeable(here)
    here.collections.remove(name, pictures)
    return DeletedCollection(name=name, pictures=pictures)


def describe_collections(here: Context) -> list[CollectionItem]:
    """All collections as they are shown."""
    return [CollectionItem(**vars(found)) for found in here.collections.summaries()]


def _check_changeable(here: Context) -> None:
    if here.collections.is_fixed:
        message = "This service makes and removes no collections; start it with `diptych serve --collections ROOT`."
        raise RequestError(501, "fixed_collections", message)
