"""Pictures on their way in: read, checked, encoded and turned into rows, a batch at a time."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

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
_KEPT = ("id", "sha256", "media_type", "width", "height", "embedding", "tokens", "data", "frames")
BATCH_BYTES = 64 * 1024 * 1024
METADATA_BYTES = 64 * 1024  # of a picture, as JSON


class TakesPictures(Protocol):
    """A collection, as far as pictures on their way in are concerned."""

    def read_new(
        self, pictures: Sequence[tuple[PictureSource, str | None]], *, keep_originals: bool = False
    ) -> list[Content | AlreadyStored | PictureError]:
        """The pictures read and checked."""
        ...

    def commit(self, arrivals: Sequence[Incoming]) -> list[Added]:
        """Write them."""
        ...


@dataclass(frozen=True)
class AlreadyStored:
    """A picture that the collection holds already; `data` are its bytes if they are to be kept."""

    id: str
    data: bytes | None


@dataclass(frozen=True)
class Encoded:
    """A checked picture of which a worker has made the features: `embedding` and `tokens` as they are stored."""

    sha256: str
    media_type: str
    width: int
    height: int
    embedding: bytes
    tokens: bytes
    data: bytes | None = None
    frames: int = 1
    is_damaged: bool = False

    @classmethod
    def of(cls, content: Content, embedding: bytes, tokens: bytes) -> Encoded:
        """A content with its features in place of its pixels."""
        facts = content.sha256, content.media_type, content.width, content.height
        return cls(*facts, embedding, tokens, content.data, content.frames, content.is_damaged)

    @property
    def id(self) -> str:
        """The picture's name in every collection, like `Content.id`."""
        return picture_id(self.sha256)


@dataclass(frozen=True)
class Incoming:
    """A picture to be added, with its path and metadata; if they were `given`, they replace those of a stored one.

    `stamp` is that of the file at the path before it was read.
    """

    content: Content | Encoded | AlreadyStored
    path: str | None
    metadata: dict[str, Any]
    given: bool = False
    stamp: FileStamp | None = None


@dataclass(frozen=True)
class Added:
    """A picture that is safely on the disk (or, in a dry run, would be); `created` is False if it was there already.

    `path` says where it can be found again, as this call named it; None for pixels or bytes. One that `is_damaged` is
    cut short or corrupt, though it can be read; of one that was there already that is not asked again.
    """

    id: str
    created: bool
    path: str | None = None
    is_damaged: bool = False

    @classmethod
    def of(cls, arrival: Incoming, *, created: bool) -> Added:
        """The acknowledgement of an arrival."""
        is_damaged = not isinstance(arrival.content, AlreadyStored) and arrival.content.is_damaged
        return cls(arrival.content.id, created, arrival.path, is_damaged)


def make_batches(sources: Iterable[S], most: int | None = None) -> Iterator[list[S]]:
    """Pictures in groups of at most 64, or `most`, and about 64 MiB of files, so that memory stays bounded whatever is
    to be kept.
    """
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


def add_in_batches(
    collection: TakesPictures,
    sources: Iterable[S],
    *,
    on_error: Callable[[S, PictureError], object],
    path: str | None = None,
    metadata: dict[str, Any] | None = None,
    by_path: Mapping[str, dict[str, Any]] = MappingProxyType({}),
    keep_originals: bool = False,
    dry_run: bool = False,
) -> Iterator[Added]:
    """Add pictures in batches, each of which is on the disk before its results are yielded. Memory stays bounded.

    A picture that cannot be read is skipped and given to `on_error`. Stop at any time: what was yielded stays, and
    running it again takes up the rest. With `dry_run` all is checked alike and nothing is written. `path` and
    `metadata` are kept with each, and with some more by their paths; without a path, the file or the web address it
    came from. Metadata replace those of a picture that is there already.
    """
    met: set[str] = set()
    for batch in make_batches(sources):
        stamps = [None if path is not None else stamp_of(source) for source in batch]
        received = collection.read_new(
            [(source, path or name_of(source)) for source in batch], keep_originals=keep_originals
        )
        arrivals = []
        for source, content, stamp in zip(batch, received, stamps, strict=True):
            if isinstance(content, PictureError):
                on_error(source, content)
            else:
                place = path or path_of(source)
                own = None if place is None else by_path.get(place)
                given = metadata is not None or own is not None
                arrivals.append(Incoming(content, place, (metadata or {}) | (own or {}), given, stamp))
        yield from simulate_commit(arrivals, met) if dry_run else collection.commit(arrivals)


def name_of(source: PictureSource) -> str | None:
    """The name of a picture in its errors: its path or web address; None for pixels or bytes."""
    return os.fspath(source) if isinstance(source, str | os.PathLike) else None


def path_of(source: PictureSource) -> str | None:
    """The place where a picture can be found again, as a collection keeps it: the full path of a file, a web address;
    None for pixels or bytes.
    """
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
    unmade = [arrival.content for arrival in arrivals if isinstance(arrival.content, Content)]
    made = iter(make_features([content.pixels for content in unmade], scorer))
    fresh = [
        (arrival, Encoded.of(content, *next(made)) if isinstance(content, Content) else content)
        for arrival in arrivals
        if not isinstance(content := arrival.content, AlreadyStored)
    ]
    return [
        NewPicture(
            **{name: getattr(content, name) for name in _KEPT},
            **{name: getattr(arrival, name) for name in ("path", "metadata", "stamp")},
            revision=scorer.runtime.revision,
        )
        for arrival, content in fresh
    ]


def simulate_commit(arrivals: Sequence[Incoming], met: set[str]) -> list[Added]:
    """The acknowledgements that `commit` would give, without writing; `met` collects the ids of earlier calls, for
    repeated pictures.
    """
    found = []
    for arrival in arrivals:
        new = not isinstance(arrival.content, AlreadyStored) and arrival.content.id not in met
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
