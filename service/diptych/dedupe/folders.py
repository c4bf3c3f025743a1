"""`find_duplicates`: folders of picture files, or a collection, in one call."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from diptych.collection.collection import Collection
from diptych.console import Console, PairBars, counted
from diptych.dedupe.candidates import CANDIDATES
from diptych.dedupe.duplicates import Duplicates
from diptych.dedupe.find import duplicates_among
from diptych.dedupe.keeper import DEFAULT, checked_rules
from diptych.dedupe.pair_cache import LEDGER, PairCache
from diptych.dedupe.scan import PictureFile, listed, scan, searched
from diptych.dedupe.threshold import check_threshold
from diptych.dedupe.workers import recover
from diptych.errors import DedupeError
from diptych.pictures.file_info import Picture
from diptych.pictures.walk import Refuse
from diptych.scoring.scorer import Scorer
from diptych.store.location import Location
from diptych_runtime.calibration.questions import COPY
from diptych_runtime.errors import ArgumentError

logger = logging.getLogger(__name__)


def find_duplicates(
    source: Collection | str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    reference: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    scorer: Scorer | None = None,
    threshold: float | Literal["auto"] = "auto",
    keep: str | Sequence[str] = DEFAULT,
    candidates: int = CANDIDATES,
    question: str = COPY,
    store: Location | None = None,
    on_error: Refuse | None = None,
    show_progress_bar: bool = False,
) -> Duplicates:
    """Group the pictures below a folder, or several folders, or of a collection, that are copies of one.

    >>> find_duplicates("photos").to_remove
    >>> for group in find_duplicates(["photos", "more photos"]).groups:
    ...     print(group.keeper.path, [member.picture.path for member in group.others])

    No file is changed. A group is a keeper, chosen by `keep`, one rule of `diptych.dedupe.keeper.RULES` or several in
    order, and the pictures whose score with the keeper itself is at least the `threshold`; "auto" follows from the
    model's calibration and the number of pictures. Each picture is compared with its `candidates` nearest. With the
    `question` "thing" a group has what shows the same thing as its keeper.

    A `reference` is a folder, or several, whose pictures the others are compared with, and not with each other: they
    are kept before any rule, and never among what can be removed. Below one of the folders it is that part of it.

    Folders are read with the `scorer`, by default `Scorer.load()`. What is computed is kept for the next time, in the
    collection `store` or in the user's cache, where `diptych dedupe` keeps it too. A file that cannot be read is logged
    and left out, or goes to `on_error`: its path and the reason.

    Raises ArgumentError for a threshold out of its range and a reference of a collection, DedupeError for unknown
    rules, for a folder without pictures or in a reference and for a model without calibration, and StoreError.
    """
    check_threshold(threshold)
    keep, console = checked_rules(keep), Console(quiet=not show_progress_bar)

    def grouped(collection: Collection, pictures: list[Picture] | None, ledger: PairCache | None) -> Duplicates:
        with PairBars(console, "comparing") as bars:
            return duplicates_among(
                collection,
                pictures,
                threshold=threshold,
                keep=keep,
                candidates=candidates,
                ledger=ledger,
                on_pairs=bars.begin,
                question=question,
            )

    kept = _paths(reference)
    if isinstance(source, Collection):
        if kept:
            raise ArgumentError("reference is for folders, and a collection has none; name the folders in its place")
        return grouped(source, None, None)
    scorer = (scorer or Scorer.load()).asking(question)
    roots, references = searched(_paths(source), kept)
    refused: list[str] = []

    def refuse(path: str, reason: str) -> None:
        refused.append(reason)
        on_error(path, reason) if on_error else logger.warning("skipped %s", reason)

    files = listed(roots, refuse, references)
    with kept_features(roots, scorer, store, references) as (collection, ledger):
        with console.progress(total=len(files), unit="picture", desc="reading") as bar:
            places = [*roots, *references]
            pictures = scan(places, files, collection, ledger, refuse=refuse, tick=bar.update).pictures
        check_read(files, pictures, refused)
        if store is None:
            forget_others(collection, ledger, pictures)
        return grouped(collection, pictures, ledger)


def _paths(folders: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Path]:
    return list(map(Path, [folders] if isinstance(folders, str | os.PathLike) else folders))


def check_read(files: Sequence[PictureFile], pictures: Sequence[Picture], refused: Sequence[str]) -> None:
    """Raise DedupeError where none of the files that are no references could be read, with the first reason."""
    if all(picture.reference for picture in pictures):
        count = sum(not file.reference for file in files)
        raise DedupeError(f"{counted(count, 'picture')} found, and none could be read: {refused[0]}")


@contextmanager
def kept_features(
    roots: Sequence[Path], scorer: Scorer, store: Location | None = None, references: Sequence[Path] = ()
) -> Iterator[tuple[Collection, PairCache]]:
    """The collection with the features of the pictures below the folders, and the cache of their scores, made where
    there are none: in the folder `store`, or in the user's cache, where those of the `references` are also found by
    other folders that are compared with them. Raises StoreError.
    """
    with (
        Collection.open(store or store_of(references or roots, scorer), scorer, create=True) as collection,
        PairCache(collection.directory / LEDGER, scorer.runtime.revision) as ledger,
    ):
        recover(collection, ledger)
        yield collection, ledger


def store_of(roots: Sequence[Path], scorer: Scorer) -> Path:
    """The folder of features and scores without a store: in the user's cache, by the digest of the folders' names."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    names = "\0".join(sorted(map(str, roots)))
    digest = hashlib.sha256(names.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return cache / "diptych" / "dedupe" / f"{digest}-{scorer.runtime.revision}"


def forget_others(collection: Collection, ledger: PairCache, pictures: Sequence[Picture]) -> None:
    """Let go of all but these pictures, in a collection that is ours alone."""
    ledger.forget_all_but({picture.path for picture in pictures})
    present = {picture.id for picture in pictures}
    pages = collection.backend.pages(1000)
    old = [record.id for records in pages for record in records if record.id not in present]
    if old:
        collection.backend.remove(old)
