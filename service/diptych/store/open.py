"""A place to the store that is there: a folder or a collection on Milvus, which is named nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from diptych.store.backend import Backend
from diptych.store.embedder import Rebuild
from diptych.store.location import Address, Location, parse_location
from diptych.store.reports import RebuildReport
from diptych_runtime.runtime import Runtime

if TYPE_CHECKING:
    from diptych.store.sqlite.adopted import AdoptedModel


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


def rebuild_store(where: Location, work: Rebuild, adopted: AdoptedModel | None = None) -> RebuildReport:
    """Bring a place to the rebuild's model and mend its damage; may be interrupted and run again.

    `adopted` is the model of the collection in a folder from now on. Raises StoreError.
    """
    found = parse_location(where)
    if isinstance(found, Address):
        from diptych.store.milvus.backend import rebuild_collection as rebuild_milvus

        return rebuild_milvus(found, work)
    from diptych.store.sqlite.rebuild import rebuild_folder

    return rebuild_folder(found, work, adopted)
