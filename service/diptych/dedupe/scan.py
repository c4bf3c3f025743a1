"""The scan of picture files below some folders, and their features in a collection: only what is new is read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from diptych.batch.ingest import embed_with_workers
from diptych.batch.workers.executor import WorkerPool
from diptych.collection.collection import Collection, Received
from diptych.collection.ingest import Incoming, make_batches
from diptych.dedupe.actions.hard_link import LINK
from diptych.dedupe.actions.move_file import HELD
from diptych.dedupe.actions.plan import apart_from
from diptych.dedupe.pair_cache import KnownFile, PairCache
from diptych.errors import DedupeError
from diptych.pictures.content import picture_id
from diptych.pictures.file_info import Picture, picture_of, read_file
from diptych.pictures.walk import (
    TRASH,
    FoundFile,
    Omissions,
    Refuse,
    Tree,
    check_name,
    no_picture,
    places_in,
    real_path,
)
from diptych.scoring.threads import map_pictures
from diptych.store.records import FileStamp
from diptych_runtime.decoder import SUFFIXES, PictureLimits
from diptych_runtime.errors import PictureError
from diptych_runtime.folders import DEFAULT, Exclusion

T = TypeVar("T")
NamedBytes = tuple[bytes, str]  # of a picture file, and its name in errors
ReadFiles: TypeAlias = Mapping[str, tuple[Picture, T] | PictureError]


@dataclass(frozen=True, slots=True)
class PictureFile:
    """A file that may be a picture, from folder number `root`, with its size and times (ns) when it was listed."""

    path: str
    root: int
    bytes: int
    modified: int
    inode_changed: int
    reference: bool = False

    def is_still(self, known: KnownFile) -> bool:
        """True if the file has the size and the times that it was known with."""
        picture = known.picture
        return (self.bytes, self.modified, self.inode_changed) == (picture.bytes, picture.modified, known.inode_changed)


def resolve_folders(folders: Iterable[Path]) -> list[Path]:
    """Resolve links in the names of folders, and list each folder once, in the order they were named.

    Raises DedupeError for what is none, and PictureError for a name that is not UTF-8.
    """
    roots = list(dict.fromkeys(real_path(folder) for folder in folders))
    for root in roots:
        if not root.is_dir():
            what = "is a file" if root.exists() else "does not exist"
            raise DedupeError(f"expected a folder of pictures, and {root} {what}")
        check_name(str(root))
    return roots


def resolve_roots(
    folders: Iterable[Path], references: Iterable[Path] = (), *, to: Path | None = None
) -> tuple[list[Path], list[Path]]:
    """Resolve the folders that are searched and the reference folders (`resolve_folders`).

    A reference below a folder is that part of it. Raises DedupeError for a folder to be searched, or one `to` which
    pictures are moved, that lies in a reference, also by another mount, and for one `to` which they are moved that is
    searched.
    """
    roots, kept = resolve_folders(folders), resolve_folders(references)
    if to is not None:
        apart_from(roots, to)
    trash = [real_path(root / TRASH) for root in roots if os.path.lexists(root / TRASH)]  # which may be a link
    for reference in kept:
        if TRASH in reference.parts:
            raise DedupeError(f"{reference} lies in the trash of a run, where pictures go; name another reference")
        for folder, place in places_in(reference, [*roots, *trash, *([real_path(to)] if to else [])]).items():
            where = f"is the reference folder {reference}" if folder == place else f"lies in {place}, a reference"
            raise DedupeError(f"{folder} {where}, where nothing is changed; name a folder outside of it")
    return roots, kept


def list_picture_files(
    roots: Sequence[Path],
    refuse: Refuse,
    references: Sequence[Path] = (),
    remark: Callable[[str], object] = lambda text: None,
    exclusion: Exclusion = DEFAULT,
    omissions: Omissions | None = None,
) -> list[PictureFile]:
    """List the picture files, by ending, below the folders and the references, sorted by path.

    References are numbered after the folders. A file comes once even under several names or in several places, of which
    one in a reference counts. Links are left out: the file behind one could be taken for a copy of itself.

    What cannot be read goes to `refuse` with the reason, what is left out is counted in `omissions`, and a reference
    without a picture is a `remark`. Raises DedupeError if there is no picture below the folders but in references.
    """
    omissions = omissions or Omissions()
    found: list[tuple[bool, str, int, FoundFile]] = []
    unread: dict[str, str] = {}
    # References come last: what gets a name in one meanwhile is met there, whatever name it had elsewhere.
    for number, root in enumerate([*roots, *references]):
        tree = Tree.below([root], exclusion, SUFFIXES | {HELD, LINK})
        omissions.add(tree.omissions)
        unread |= tree.refused | tree.closed
        if number >= len(roots) and not tree.closed and all(file.link for file in tree.files.values()):
            remark(f"there is no picture in the reference folder {root}; if its disk is not mounted, mount it")
        for path, file in tree.files.items():
            if path.endswith((HELD, LINK)):
                unread[path] = (
                    f"{path} was being moved when a run was killed: `diptych dedupe --undo JOURNAL` puts it back"
                )
            elif not file.link:
                found.append((number < len(roots), path, number, file))
    for path, reason in unread.items():
        refuse(path.encode("utf-8", "backslashreplace").decode(), reason)
    files, met = [], set()
    for outside, path, number, file in sorted(found, key=lambda one: one[:3]):
        if met.isdisjoint(file.identities()):
            met |= file.identities()
            stamp = file.stamp
            files.append(PictureFile(path, number, stamp.bytes, stamp.modified, file.inode_changed, not outside))
    if all(file.reference for file in files):
        but = " that is not in a reference folder" if files else ""
        raise DedupeError(no_picture(roots, omissions, but))
    return sorted(files, key=lambda file: file.path)


@dataclass(frozen=True)
class Scan:
    """The pictures of the files, sorted by path; how many are `new`, `changed` or `gone` since the last time.

    `unread` are the files that could not be read, with the reasons.
    """

    pictures: list[Picture]
    new: int
    changed: int
    gone: int
    unread: dict[str, str]


def scan_files(
    roots: Sequence[Path],
    files: Sequence[PictureFile],
    collection: Collection,
    pair_cache: PairCache,
    *,
    tick: Callable[[int], object] = lambda done: None,
    workers: WorkerPool | None = None,
) -> Scan:
    """Read the files below the roots; their features, made by the `workers` if any, are in the collection afterwards.

    Files that the cache knows with their size and times are not read, and a content is decoded once. Stop at any time:
    the next call takes up the rest.
    """
    limits, threads = collection.scorer.limits, collection.scorer.runtime.threads

    def read_contents(contents: Mapping[str, NamedBytes]) -> Received:
        return collection.read_new(list(contents.values()))

    def read_files(fresh: Mapping[str, PictureFile]) -> Iterator[ReadFiles[Any]]:
        unread: list[str] = []
        for part in embed_with_workers(collection, fresh, workers):
            unread += [path for path, one in part.items() if one is None]
            if done := {path: (one.picture, one.content) for path, one in part.items() if one is not None}:
                yield done
        blind = 0  # what a worker could not read, and this process can
        for results in read_in_batches(unread, read_contents, limits, threads):
            blind += sum(not isinstance(one, PictureError) for one in results.values())
            yield results
        if workers:
            workers.say_blind(blind)

    def commit_contents(read: Mapping[str, tuple[Picture, Any]]) -> None:
        arrivals: dict[str, Incoming] = {}
        for path, (picture, content) in read.items():
            stamp = FileStamp(picture.bytes, picture.modified)
            arrivals.setdefault(picture.id, Incoming(content, path, {}, stamp=stamp))
        collection.commit(list(arrivals.values()))

    known = pair_cache.get_files(map(str, roots))
    stored = collection.backend.known_ids(sorted({old.picture.id for old in known.values()}))
    return scan_new(files, known, stored, pair_cache, read_files, commit_contents, tick)


def scan_new(
    files: Sequence[PictureFile],
    known: Mapping[str, KnownFile],
    stored: Container[str],
    pair_cache: PairCache,
    read_files: Callable[[Mapping[str, PictureFile]], Iterable[ReadFiles[T]]],
    keep: Callable[[Mapping[str, tuple[Picture, T]]], object],
    tick: Callable[[int], object],
) -> Scan:
    """Read the files that have changed since they were `known` or whose content is not `stored`, and have `keep` store
    what was read, some at a time; the cache knows the files then, and forgets those that are gone.
    """
    pictures, fresh, unread = list[Picture](), dict[str, PictureFile](), dict[str, str]()
    for file in files:
        old = known.get(file.path)
        if old is not None and file.is_still(old) and old.picture.id in stored:
            pictures.append(_place_picture(old.picture, file))
        else:
            fresh[file.path] = file
    if pictures:
        tick(len(pictures))
    for results in read_files(fresh):
        unread |= {path: str(one) for path, one in results.items() if isinstance(one, PictureError)}
        if read := {path: one for path, one in results.items() if not isinstance(one, PictureError)}:
            keep(read)
            placed = [_place_picture(picture, fresh[path]) for path, (picture, _) in read.items()]
            pair_cache.add_files([KnownFile(picture, fresh[picture.path].inode_changed) for picture in placed])
            pictures += placed
        tick(len(results))
    pictures.sort(key=lambda picture: picture.path)
    kept = {picture.path for picture in pictures}
    pair_cache.forget_files(sorted(known.keys() - kept))
    changed = sum(picture.path in known and picture.id != known[picture.path].picture.id for picture in pictures)
    # Of several names of one file, as hard links are, one is listed; the others are there none the less.
    gone = sum(not os.path.lexists(path) for path in known.keys() - {file.path for file in files})
    return Scan(pictures, len(kept - known.keys()), changed, gone, unread)


def read_in_batches(
    paths: Iterable[str],
    read: Callable[[Mapping[str, NamedBytes]], Sequence[T | PictureError]],
    limits: PictureLimits,
    threads: int,
    most: int | None = None,
) -> Iterator[ReadFiles[T]]:
    """The files batch by batch, each as its picture and the result of `read` for its content: of the bytes, and a name
    for errors, by id. Each content is read once in a batch, which has at most so many, unless it is broken.
    """
    for batch in make_batches(map(Path, paths), most):
        results: dict[str, tuple[Picture, T] | PictureError] = {}
        files: dict[Path, tuple[os.stat_result, bytes]] = {}
        for path, one in zip(batch, map_pictures(partial(read_file, limits=limits), batch, threads), strict=True):
            if isinstance(one, PictureError):
                results[str(path)] = one
            else:
                files[path] = one
        ids = {path: picture_id(hashlib.sha256(data).hexdigest()) for path, (_, data) in files.items()}
        first = {id: path for path, id in reversed(ids.items())}
        received = read({id: (files[path][1], str(path)) for id, path in first.items()})
        contents = dict(zip(first, received, strict=True))
        for path, (status, data) in files.items():
            id, content = ids[path], contents[ids[path]]
            if isinstance(content, PictureError) and path != first[id]:
                (content,) = read({id: (data, str(path))})  # whose error calls it by its own name
            if isinstance(content, PictureError):
                results[str(path)] = content
            else:
                results[str(path)] = picture_of(id, path, status, data), content
        yield results


def _place_picture(picture: Picture, file: PictureFile) -> Picture:
    return replace(picture, root=file.root, reference=file.reference)
