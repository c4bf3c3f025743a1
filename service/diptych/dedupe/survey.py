"""What picture files there are below some folders, and their features in a collection: only what is new is read."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from diptych.collection import Collection
from diptych.content import Content, picture_id, read_bytes
from diptych.dedupe.ledger import Ledger
from diptych.dedupe.picture import Picture, read_facts
from diptych.errors import DedupeError
from diptych.intake import Arrival, Known, batches, can_be_kept
from diptych.parallel import each
from diptych_export.errors import PictureError
from diptych_export.pictures import SUFFIXES, PictureLimits

TRASH = ".diptych-trash"

Refuse = Callable[[str, str], object]


@dataclass(frozen=True)
class File:
    """A file that may be a picture: which of the folders it is from, and its size and time (ns) when it was listed."""

    path: str
    root: int
    bytes: int
    modified: int


def resolved(folders: Iterable[Path]) -> list[Path]:
    """The folders without links, each once, in the order they were named. Raises DedupeError for what is none."""
    roots = list(dict.fromkeys(folder.resolve() for folder in folders))
    for root in roots:
        if not root.is_dir():
            what = "is a file" if root.exists() else "does not exist"
            raise DedupeError(f"expected a folder of pictures, and {root} {what}")
    return roots


def listed(roots: Sequence[Path], refuse: Refuse) -> list[File]:
    """The picture files (by ending) below the folders, sorted by path; one that has several names only once.

    Links are left out: what they lead to could be taken for a copy of itself. So is what was put into a trash folder.
    What cannot be listed goes to `refuse` with a reason. Raises DedupeError if there is no picture at all.
    """
    found: dict[str, tuple[int, os.stat_result]] = {}
    for number, root in enumerate(roots):
        for path, status in _regular(root, refuse):
            found.setdefault(path, (number, status))
    files, met = [], set()
    for path, (number, status) in sorted(found.items()):
        if (status.st_dev, status.st_ino) not in met:
            met.add((status.st_dev, status.st_ino))
            files.append(File(path, number, status.st_size, status.st_mtime_ns))
    if not files:
        raise DedupeError(f"there is no picture ({', '.join(sorted(SUFFIXES))}) in {', '.join(map(str, roots))}")
    return files


@dataclass(frozen=True)
class Survey:
    """The pictures of the files, sorted by path; how many are `new`, `changed` or `gone` since the last time."""

    pictures: list[Picture]
    new: int
    changed: int
    gone: int


def survey(
    roots: Sequence[Path],
    files: Sequence[File],
    collection: Collection,
    ledger: Ledger,
    *,
    refuse: Refuse,
    tick: Callable[[int], object] = lambda done: None,
) -> Survey:
    """The pictures of the files below the roots; their features are in the collection when this returns.

    Files that the ledger knows with their size and time are not read, and a content is decoded once. What cannot be
    read goes to `refuse` with a reason. Stop at any time: the next call takes up the rest.
    """
    known = ledger.files(map(str, roots))
    stored = collection.backend.known(sorted({picture.id for picture in known.values()}))
    pictures, fresh = [], {}
    for file in files:
        old = known.get(file.path)
        if old is not None and (old.bytes, old.modified) == (file.bytes, file.modified) and old.id in stored:
            pictures.append(replace(old, root=file.root))
            tick(1)
        else:
            fresh[file.path] = file
    bad: dict[str, str] = {}
    for batch in batches(map(Path, fresh)):
        read = each(partial(_read, limits=collection.scorer.limits), batch, collection.scorer.runtime.threads)
        whole: list[tuple[Picture, bytes]] = []
        for path, result in zip(map(str, batch), read, strict=True):
            if isinstance(result, PictureError):
                refuse(path, str(result))
            else:
                whole.append((replace(result[0], root=fresh[path].root), result[1]))
        _add(whole, collection, bad)
        good = [picture for picture, _ in whole if picture.id not in bad]
        for picture, _ in whole:
            if picture.id in bad:
                refuse(picture.path, bad[picture.id])
        ledger.add_files(good)
        pictures += good
        tick(len(batch))
    kept = {picture.path for picture in pictures}
    ledger.forget_files(sorted(known.keys() - kept))
    new = len(kept - known.keys())
    pictures.sort(key=lambda picture: picture.path)
    changed = sum(picture.path in known and picture.id != known[picture.path].id for picture in pictures)
    return Survey(pictures, new, changed, len(known.keys() - {file.path for file in files}))


def _regular(root: Path, refuse: Refuse) -> Iterator[tuple[str, os.stat_result]]:
    def unlisted(error: OSError) -> None:
        refuse(str(error.filename), f"the folder cannot be listed: {error.strerror}")

    for folder, subfolders, names in os.walk(root, onerror=unlisted):
        subfolders[:] = sorted(name for name in subfolders if name != TRASH)
        for name in sorted(names):
            path = os.path.join(folder, name)  # noqa: PTH118 - a Path for each of a million files takes seconds
            if os.path.splitext(name)[1].lower() not in SUFFIXES:  # noqa: PTH122
                continue
            try:
                status = os.lstat(path)
            except OSError as error:
                refuse(path, f"it cannot be looked at: {error.strerror}")
                continue
            if not stat.S_ISREG(status.st_mode):
                continue
            if can_be_kept(path):
                yield path, status
            else:
                refuse(path.encode("utf-8", "backslashreplace").decode(), "its name is not UTF-8; rename it")


def _read(path: Path, limits: PictureLimits) -> tuple[Picture, bytes]:
    """A file as a picture, its size and time from before it was read, and its bytes."""
    try:
        status = path.stat()
    except OSError as error:
        raise PictureError(f"{path} cannot be read: {error.strerror}") from None
    data = read_bytes(path, limits)
    id = picture_id(hashlib.sha256(data).hexdigest())
    facts = read_facts(data, str(path))
    return Picture(id, str(path), status.st_size, status.st_mtime_ns, *facts), data


def _add(pictures: Sequence[tuple[Picture, bytes]], collection: Collection, bad: dict[str, str]) -> None:
    """Decode each new content once and put its features into the collection; `bad` gets those that cannot be."""
    first: dict[str, tuple[Picture, bytes]] = {}
    for picture, data in pictures:
        if picture.id not in bad:
            first.setdefault(picture.id, (picture, data))
    received = collection.receive([(data, picture.path) for picture, data in first.values()])
    arrivals = []
    for (picture, _), content in zip(first.values(), received, strict=True):
        if isinstance(content, PictureError):
            bad[picture.id] = str(content)
        elif isinstance(content, Content | Known):
            arrivals.append(Arrival(content, picture.path, {}))
    if arrivals:
        collection.commit(arrivals)
