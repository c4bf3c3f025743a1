"""`find_duplicates`: folders of picture files, or a collection, in one call."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from diptych.batch.workers.executor import WorkerPool
from diptych.collection.collection import Collection
from diptych.console import Console, PairBars, format_count
from diptych.dedupe.candidates import CANDIDATES
from diptych.dedupe.duplicates import Duplicates, Method
from diptych.dedupe.find import duplicates_among
from diptych.dedupe.hashes.find import MAX_DISTANCE, check_distance, duplicates_by_hash
from diptych.dedupe.hashes.scan import kept_hashes, scan_hashes
from diptych.dedupe.keeper import DEFAULT, checked_rules
from diptych.dedupe.labelled import NONE, IdPairs, different_pairs_in
from diptych.dedupe.pair_cache import LEDGER, PairCache
from diptych.dedupe.scan import PictureFile, Scan, list_picture_files, resolve_folders, resolve_roots, scan_files
from diptych.dedupe.threshold import check_threshold
from diptych.errors import DedupeError, StoreError
from diptych.pictures.file_info import Picture
from diptych.pictures.walk import Omissions, Refuse
from diptych.scoring.scorer import Scorer
from diptych.store.location import Address, Location
from diptych_runtime.calibration.questions import COPY
from diptych_runtime.errors import ArgumentError
from diptych_runtime.folders import Exclusion
from diptych_runtime.paths import cache_folder
from diptych_runtime.session import thread_count

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
    method: Method = "network",
    max_distance: int | None = None,
    same_orientation: bool = False,
    store: Location | None = None,
    exclude: Iterable[str] = (),
    include_hidden: bool = False,
    on_error: Refuse | None = None,
    show_progress_bar: bool = False,
) -> Duplicates:
    """Group the pictures below a folder, or several folders, or of a collection, that are copies of one.

    >>> find_duplicates("photos").to_remove
    >>> for group in find_duplicates(["photos", "more photos"]).groups:
    ...     print(group.keeper.path, [member.picture.path for member in group.others])

    No file is changed. A group is a keeper, chosen by `keep`, one rule of `diptych.dedupe.keeper.RULES` or several in
    order, and the pictures whose score with the keeper itself is at least the `threshold`; "auto" follows from the
    number of pictures and the scores of their pairs (`diptych.dedupe.threshold`). Each picture is compared with its
    `candidates` nearest. With the `question` "thing" a group has what shows the same thing as its keeper; with
    `same_orientation` mirror images and turned pictures are no copies.

    The `method` "phash" is a quick pass by perceptual hashes that differ in at most `max_distance` of 64 bits, by
    default 4. It takes folders, and neither `scorer`, `threshold`, `candidates` nor `question`.

    A `reference` is a folder, or several, whose pictures the others are compared with, and not with each other: they
    are kept before any rule, and never among what can be removed. Below one of the folders it is that part of it.

    Hidden files, and folders like trash cans, snapshots and thumbnails, are left out without `include_hidden`, and so
    is what the globs `exclude` match (`diptych_runtime.folders.Exclusion`); how many pictures these are is logged.

    Folders are read with the `scorer`, by default `Scorer.load()`. What is computed is kept for the next time, in the
    collection `store` or in the user's cache. A file that cannot be read is logged and left out, or goes to `on_error`:
    its path and the reason. Pairs that are labelled different there do not match.

    Raises ArgumentError for a threshold out of its range, arguments of another method or a reference of a collection,
    DedupeError for unknown rules, a folder without pictures and a model without calibration, and StoreError.
    """
    check_threshold(threshold)
    _check_method(method, source, scorer, threshold, candidates, question, max_distance)
    keep, console = checked_rules(keep), Console(quiet=not show_progress_bar)
    how: dict[str, Any] = {"threshold": threshold, "keep": keep, "candidates": candidates, "question": question}
    how["same_orientation"] = same_orientation
    kept = _list_paths(reference)
    if isinstance(source, Collection):
        if kept:
            raise ArgumentError("reference is for folders, and a collection has none; name the folders in its place")
        return _group_under_bars(console, source, None, None, **how)
    if method == "network":
        scorer = (scorer or Scorer.load()).asking(question)
    roots, references = resolve_roots(_list_paths(source), kept)

    def refuse(path: str, reason: str) -> None:
        on_error(path, reason) if on_error else logger.warning("skipped %s", reason)

    omissions, exclusion = Omissions(), Exclusion(tuple(exclude), include_hidden)
    files = list_picture_files(roots, refuse, references, logger.warning, exclusion, omissions)
    if left_out := omissions.left_out_line():
        logger.warning("%s", left_out.replace("--include-hidden", "include_hidden=True"))
    places: dict[str, Any] = {"store": store, "refuse": refuse, "console": console}
    if scorer is None:
        distance = MAX_DISTANCE if max_distance is None else max_distance
        return hashed_duplicates(roots, files, references, max_distance=distance, keep=keep, **places)[0]
    return scored_duplicates(roots, files, references, scorer=scorer, **places, **how)[0]


def scored_duplicates(
    roots: Sequence[Path],
    files: Sequence[PictureFile],
    references: Sequence[Path] = (),
    *,
    scorer: Scorer,
    store: Location | None,
    refuse: Refuse,
    console: Console,
    workers: WorkerPool | None = None,
    **how: Any,
) -> tuple[Duplicates, Scan]:
    """The duplicates among the files below the folders and the references by the network, and the scan.

    Features, made by the `workers` if any, and scores are kept in the folder `store`, or in the user's cache, and `how`
    goes to `duplicates_among`. Raises DedupeError where no file could be read or a folder is gone by now, and
    StoreError.
    """
    places, (reasons, refuse) = [*roots, *references], _collect_reasons(refuse)
    # With references, other folders that are compared with them find what is kept of these.
    place = store or store_of(references or roots, scorer.runtime.revision)
    with (
        Collection.open(place, scorer, create=True) as collection,
        PairCache(collection.directory / LEDGER, scorer.runtime.scores_revision) as pair_cache,
    ):
        # What a run of 0.2 on a cluster left that was killed, with the tokens of pictures.
        shutil.rmtree(collection.directory / "pairs.parts", ignore_errors=True)
        with console.progress(total=len(files), unit="picture", desc="reading") as bar:
            seen = scan_files(places, files, collection, pair_cache, refuse=refuse, tick=bar.update, workers=workers)
        _check_read(places, files, seen, reasons)
        if store is None:
            _forget_others(collection, pair_cache, seen.pictures)
        return _group_under_bars(console, collection, seen.pictures, pair_cache, **how), seen


def hashed_duplicates(
    roots: Sequence[Path],
    files: Sequence[PictureFile],
    references: Sequence[Path] = (),
    *,
    store: Location | None,
    refuse: Refuse,
    console: Console,
    max_distance: int,
    keep: Sequence[str],
    threads: int | None = None,
    apart: IdPairs = NONE,
) -> tuple[Duplicates, Scan]:
    """The duplicates among the files below the folders and the references by digest and perceptual hash, and the scan.

    Hashes are kept in the folder `store`, or in the user's cache. Pairs that are labelled different in it, and those of
    the ids `apart`, do not match. Raises DedupeError where no file could be read, and StoreError.
    """
    if isinstance(store, Address):
        raise StoreError(f"hashes are kept in a folder of this machine, and {store} is on Milvus; name a folder")
    places, (reasons, refuse) = [*roots, *references], _collect_reasons(refuse)
    with kept_hashes(Path(store) if store else store_of(references or roots, "phash")) as pair_cache:
        with console.progress(total=len(files), unit="picture", desc="hashing") as bar:
            seen, hashes = scan_hashes(
                places, files, pair_cache, threads=threads or thread_count(), refuse=refuse, tick=bar.update
            )
        _check_read(places, files, seen, reasons)
        if store is None:
            pair_cache.forget_all_but({picture.path for picture in seen.pictures})
    apart |= different_pairs_in(Path(store) if store else None)
    return duplicates_by_hash(seen.pictures, hashes, max_distance=max_distance, keep=keep, apart=apart), seen


def _group_under_bars(
    console: Console, collection: Collection, pictures: list[Picture] | None, pair_cache: PairCache | None, **how: Any
) -> Duplicates:
    """The duplicates of a collection, under bars."""
    with PairBars(console, "comparing") as bars:
        return duplicates_among(collection, pictures, pair_cache=pair_cache, on_pairs=bars.begin, **how)


def _check_method(
    method: str,
    source: object,
    scorer: Scorer | None,
    threshold: float | str,
    candidates: int,
    question: str,
    max_distance: int | None,
) -> None:
    """Raise ArgumentError for arguments that do not go together."""
    if method not in get_args(Method):
        raise ArgumentError(f"method must be one of {', '.join(get_args(Method))}, got {method!r}")
    if method == "network":
        if max_distance is not None:
            raise ArgumentError('max_distance is for method="phash"; the network has a threshold')
        return
    if max_distance is not None:
        check_distance(max_distance)
    if isinstance(source, Collection):
        raise ArgumentError('method="phash" reads files; name the folders in place of the collection')
    given = {"scorer": scorer is not None, "threshold": threshold != "auto"}
    given |= {"candidates": candidates != CANDIDATES, "question": question != COPY}
    if named := [name for name, there in given.items() if there]:
        are = "is" if len(named) == 1 else "are"
        raise ArgumentError(f'{" and ".join(named)} {are} for method="network"; phash has max_distance alone')


def _list_paths(folders: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Path]:
    return list(map(Path, [folders] if isinstance(folders, str | os.PathLike) else folders))


def _collect_reasons(refuse: Refuse) -> tuple[list[str], Refuse]:
    """A list, and a function that adds each reason to it before it is told to `refuse`."""
    reasons: list[str] = []

    def collect(path: str, reason: str) -> None:
        reasons.append(reason)
        refuse(path, reason)

    return reasons, collect


def _check_read(places: Iterable[Path], files: Sequence[PictureFile], seen: Scan, reasons: Sequence[str]) -> None:
    """Raise DedupeError where none of the files that are no references could be read, or a folder is gone by now."""
    resolve_folders(places)  # one that is gone would look as if it had become empty
    if all(picture.reference for picture in seen.pictures):
        count = sum(not file.reference for file in files)
        raise DedupeError(f"{format_count(count, 'picture')} found, and none could be read: {reasons[0]}")


def store_of(roots: Sequence[Path], name: str) -> Path:
    """The folder of features and scores without a store: in the user's cache, by the digest of the folders' names and
    the `name` of what made them, the revision of a model for one.
    """
    cache = cache_folder(otherwise="name a folder for features and scores with --store or XDG_CACHE_HOME")
    names = "\0".join(sorted(map(str, roots)))
    digest = hashlib.sha256(names.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return cache / "diptych" / "dedupe" / f"{digest}-{name}"


def _forget_others(collection: Collection, pair_cache: PairCache, pictures: Sequence[Picture]) -> None:
    """Let go of all but these pictures, in a collection that is ours alone."""
    pair_cache.forget_all_but({picture.path for picture in pictures})
    present = {picture.id for picture in pictures}
    pages = collection.backend.pages(1000)
    old = [record.id for records in pages for record in records if record.id not in present]
    if old:
        collection.backend.remove(old)
