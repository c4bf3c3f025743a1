"""A place to the store that is there: a folder or a collection on Milvus."""

from __future__ import annotations

from diptych.store.backend import Backend
from diptych.store.location import Address, Location, parse_location
from diptych_runtime.runtime import Runtime


def open_searchable(where: Location, runtime: Runtime, *, create: bool, read_only: bool) -> Backend:
    """Open a place to be searched by this model. Raises StoreError, and ModelMismatchError if another one made it."""
    found = parse_location(where)
    if isinstance(found, Address):
        from diptych.store.milvus.backend import MilvusBackend

        return MilvusBackend.searchable(found, runtime, create=create, read_only=read_only)
    from diptych.store.sqlite.backend import SqliteBackend

    return SqliteBackend.searchable(found, runtime, create=create, read_only=read_only)


def open_store(where: Location, *, read_only: bool = False) -> Backend:
    """Open a place to look after its pictures, whatever model embedded them. Raises StoreError."""
    found = parse_location(where)
    if isinstance(found, Address):
        from diptych.store.milvus.backend import MilvusBackend

        return MilvusBackend.open(found, read_only=read_only)
    from diptych.store.sqlite.backend import SqliteBackend

    return SqliteBackend.open(found, read_only=read_only)
