"""A place as the store that is there: a folder or a collection on Milvus, which is named nowhere else."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias

from diptych.store.filters import Filter
from diptych.store.location import Address, Location, parse_location
from diptych.store.rebuild import Rebuild, RebuildReport
from diptych_runtime.runtime import Runtime

if TYPE_CHECKING:
    from diptych.store.milvus.backend import MilvusBackend
    from diptych.store.sqlite.backend import SqliteBackend
    from diptych.store.sqlite.database import AdoptedModel

# What both have is the interface of a store. It is thread-safe, and what a method wrote is safe when it returns, and
# found by everyone. Keys name pictures within one search: what `nearest` gives, `tokens` and `records` take.
Backend: TypeAlias = "SqliteBackend | MilvusBackend"

_STEP = 500


def open_searchable(where: Location, runtime: Runtime, *, create: bool, read_only: bool) -> Backend:
    """Open a place to be searched by this model. Raises StoreError, and ModelMismatchError if another one made it."""
    kind, place = _find_kind(where)
    return kind.searchable(place, runtime, create=create, read_only=read_only)


def open_store(where: Location, *, read_only: bool = False) -> Backend:
    """Open a place to look after its pictures, whatever model embedded them. Raises StoreError."""
    kind, place = _find_kind(where)
    return kind.open(place, read_only=read_only)


def _find_kind(where: Location) -> tuple[Any, Any]:
    """The class of the store at a place, and that place as the class takes it."""
    found = parse_location(where)
    if isinstance(found, Address):
        from diptych.store.milvus.backend import MilvusBackend

        return MilvusBackend, found
    from diptych.store.sqlite.backend import SqliteBackend

    return SqliteBackend, found


def rebuild_store(where: Location, work: Rebuild, adopted: AdoptedModel | None = None) -> RebuildReport:
    """Bring a place to the rebuild's model, `adopted` from now on, and mend its damage. Raises StoreError."""
    found = parse_location(where)
    if isinstance(found, Address):
        from diptych.store.milvus.backend import rebuild_collection

        return rebuild_collection(found, work)
    from diptych.store.sqlite.rebuild import rebuild_folder

    return rebuild_folder(found, work, adopted)


def export_lines(store: Backend, where: Filter | None = None, *, embeddings: bool = False) -> Iterator[dict[str, Any]]:
    """A JSON object for every picture that meets a condition; `embedding` is little-endian float32 in base64."""
    for found in store.pages(_STEP, where):
        vectors = store.embeddings_of([record.id for record in found]) if embeddings else {}
        for record in found:
            if not embeddings:
                yield asdict(record)
            elif record.id in vectors:  # not removed since
                yield asdict(record) | {"embedding": b64encode(vectors[record.id]).decode()}
