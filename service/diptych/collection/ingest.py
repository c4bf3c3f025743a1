"""Pictures on their way in: read, checked, encoded and turned into rows, a batch at a time."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from diptych.errors import RemoteError
from diptych.pictures.content import Content, describe, picture_id, read_bytes
from diptych.pictures.sources import is_url
from diptych.pictures.walk import check_name, full_path
from diptych.scoring.scorer import Scorer
from diptych.store.records import FileStamp, NewPicture
from diptych_runtime.decoder import PictureSource
from diptych_runtime.errors import ArgumentError, PictureError
from diptych_runtime.parsing import parse_json

S = TypeVar("S", bound=PictureSource)
KnownIds = Callable[[Sequence[str]], set[str]]  # those of some ids that are stored

BATCH = 64
_KEPT = ("id", "sha256", "media_type", "width", "height", "data", "frames")
BATCH_BYTES = 64 * 1024 * 1024
METADATA_BYTES = 64 * 1024  # of a picture, as JSON


@dataclass(frozen=True)
class AlreadyStored:
    """A picture that the collection holds already; `data` are its bytes if they are to be kept."""

    id: str
    data: bytes | None


@dataclass(frozen=True)
class Incoming:
    """A picture to be added, with its path and metadata; if they were `given`, they replace those of a stored one.

    `stamp` is that of the file at the path before it was read.
    """

    content: Content | AlreadyStored
    path: str | None
    metadata: dict[str, Any]
    given: bool = False
    stamp: FileStamp | None = None


@dataclass(frozen=True)
class Added:
    """A picture that is safely on the disk (or, in a dry run, would be); `created` is False if it was there already.

    `path` says where it can be found again, as it was named in this call; None for pixels or bytes. One that
    `is_damaged` is cut short or corrupt, though it can be read; a picture that was already stored is not checked again.
    """

    id: str
    created: bool
    path: str | None = None
    is_damaged: bool = False

    @classmethod
    def of(cls, arrival: Incoming, *, created: bool) -> Added:
        """The acknowledgement of an arrival."""
        is_damaged = isinstance(arrival.content, Content) and arrival.content.is_damaged
        return cls(arrival.content.id, created, arrival.path, is_damaged)


def make_batches(sources: Iterable[S], most: int | None = None) -> Iterator[list[S]]:
    """Pictures in groups of at most 64, or `most`, and about 64 MiB of files: memory stays bounded."""
    batch: list[S] = []
    held = 0
    for source in sources:
        try:
            size = Path(source).stat().st_size if isinstance(source, str | os.PathLike) else 0
        except OSError:  # the decoder will say what is wrong with it
            size = 0
        if batch and (len(batch) == (most or BATCH) or held + size > BATCH_BYTES):
            yield batch
            batch, held = [], 0
        batch.append(source)
        held += size
    if batch:
        yield batch


def name_of(source: PictureSource) -> str | None:
    """The name of a picture in its errors: its path or web address; None for pixels or bytes."""
    return os.fspath(source) if isinstance(source, str | os.PathLike) else None


def path_of(source: PictureSource) -> str | None:
    """The full path of a file, or a web address, as a collection keeps it; None for pixels or bytes."""
    name = name_of(source)
    return name if name is None or is_url(name) else full_path(name)


def stamp_of(source: PictureSource) -> FileStamp | None:
    """The stamp of a picture's file; None for pixels, bytes and web addresses."""
    name = name_of(source)
    return None if name is None or is_url(name) else FileStamp.of(name)


def read_new(
    source: PictureSource,
    known_ids: KnownIds,
    scorer: Scorer,
    *,
    name: str | None,
    keep: bool,
) -> Content | AlreadyStored:
    """Read and check a picture, unless its id is among the `known_ids`; its bytes are returned only with `keep`.

    Raises PictureError, also for a file whose name is not UTF-8: the database could not keep it.
    """
    if (path := path_of(source)) is not None:
        check_name(path)
    try:
        (source,) = scorer.fetch_sources([source])
    except RemoteError as error:
        raise PictureError(str(error)) from None
    data = read_bytes(source, scorer.limits, name=name)
    id = picture_id(hashlib.sha256(data).hexdigest())
    if known_ids([id]):
        return AlreadyStored(id, data if keep else None)
    content = scorer.decoder.run(partial(describe, data, scorer.runtime.panel_size, scorer.limits, name=name))
    return replace(content, data=data) if keep else content


def to_rows(arrivals: Sequence[Incoming], scorer: Scorer) -> list[NewPicture]:
    """Encode the new ones among the pictures and make the rows that go into the database."""
    new = [(arrival, arrival.content) for arrival in arrivals if isinstance(arrival.content, Content)]
    features = collect_features([content for _, content in new], scorer)
    return [
        NewPicture(
            **{name: getattr(content, name) for name in _KEPT},
            **{name: getattr(arrival, name) for name in ("path", "metadata", "stamp")},
            revision=scorer.runtime.revision,
            embedding=embedding,
            tokens=tokens,
        )
        for (arrival, content), (embedding, tokens) in zip(new, features, strict=True)
    ]


def collect_features(contents: Sequence[Content], scorer: Scorer) -> list[tuple[bytes, bytes]]:
    """(embedding, tokens) of each content, taken from the worker that made them, or made here."""
    made = iter(make_features([content.pixels for content in contents if content.features is None], scorer))
    return [next(made) if content.features is None else content.features for content in contents]


def simulate_commit(arrivals: Sequence[Incoming], met: set[str]) -> list[Added]:
    """The acknowledgements that `commit` would give, without writing; `met` collects the ids of earlier calls."""
    found = []
    for arrival in arrivals:
        new = isinstance(arrival.content, Content) and arrival.content.id not in met
        found.append(Added.of(arrival, created=new))
        met.add(arrival.content.id)
    return found


def make_features(pixels: Sequence[np.ndarray], scorer: Scorer) -> list[tuple[bytes, bytes]]:
    """(embedding, tokens) of each picture, as they are stored (`NewPicture`)."""
    if not pixels:
        return []
    panels = scorer.encode_pixels(np.stack(pixels))
    embeddings = [embedding.astype("<f4").tobytes() for embedding in panels.embeddings]
    return list(zip(embeddings, scorer.runtime.codec.pack_tokens(panels.tokens), strict=True))


def checked_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """The metadata as JSON keeps it; raises ArgumentError for values that JSON cannot hold."""
    try:
        # Encoded, so that half a surrogate pair is refused here and not by whoever asks for it later.
        text = json.dumps(metadata, allow_nan=False, ensure_ascii=False).encode()
        kept = parse_json(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(f"metadata must be a dict of JSON values: {error}") from None
    if not isinstance(kept, dict):
        raise ArgumentError(f"metadata must be a dict of JSON values, got {type(metadata).__name__}")
    if len(text) > METADATA_BYTES:
        raise ArgumentError(f"metadata may have {METADATA_BYTES:,} bytes as JSON, and this has {len(text):,}")
    return kept
