"""A place to the store that is there: a folder or a collection on Milvus."""

from __future__ import annotations

from diptych.store.backend import Backend
from diptych.store.location import Address, Place, place
from diptych_runtime.runtime import Runtime


def open_searchable(where: Place, runtime: Runtime, *, create: bool, read_only: bool) -> Backend:
    """Open a place to be searched by this model. Raises StoreError, and ModelMismatchError if another one made it."""
    found = place(where)
    if isinstance(found, Address):
        from diptych.store.milvus.backend import MilvusStore

        return MilvusStore.searchable(found, runtime, create=create, read_only=read_only)
    from diptych.store.sqlite.backend import Local

    return Local.searchable(found, runtime, create=create, read_only=read_only)


def open_store(where: Place, *, read_only: bool = False) -> Backend:
    """Open a place to look after its pictures, whatever model embedded them. Raises StoreError."""
    found = place(where)
    if isinstance(found, Address):
        from diptych.store.milvus.backend import MilvusStore

        return MilvusStore.open(found, read_only=read_only)
    from diptych.store.sqlite.backend import Local

    return Local.open(found, read_only=read_only)
