"""`find_duplicates`: folders of picture files, or a collection, in one call."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from diptych.batch.workers.executor import WorkerPool
from diptych.collection.collection import Collection
from diptych.console import Console, PairBars, format_count
from diptych.dedupe.candidates import CANDIDATES
from diptych.dedupe.duplicates import Duplicates
from diptych.dedupe.find import duplicates_among
from diptych.dedupe.keeper import DEFAULT, checked_rules
from diptych.dedupe.labelled import NONE, IdPairs
from diptych.dedupe.pair_cache import LEDGER, PairCache
from diptych.dedupe.scan import PictureFile, Scan, list_picture_files, resolve_folders, resolve_roots, scan_files
from diptych.dedupe.threshold import check_threshold
from diptych.errors import DedupeError
from diptych.pictures.file_info import Picture
from diptych.pictures.walk import Omissions, Refuse
from diptych.scoring.scorer import Scorer
from diptych.store.location import Location
from diptych_runtime.calibration.questions import COPY
from diptych_runtime.errors import ArgumentError
from diptych_runtime.folders import Exclusion
from diptych_runtime.paths import cache_folder

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

    A `reference` is a folder, or several, whose pictures the others are compared with, and not with each other: they
    are kept before any rule, and never among what can be removed. Below one of the folders it is that part of it.
    Hidden files, and folders like trash cans, snapshots and thumbnails, are left out without `include_hidden`, and so
    is what the globs `exclude` match (`diptych_runtime.folders.Exclusion`); how many pictures these are is logged.

    Folders are read with the `scorer`, by default `Scorer.load()`. What is computed is kept for the next time, in the
    collection `store` or in the user's cache. A file that cannot be read is logged and left out, or goes to `on_error`:
    its path and the reason. Pairs that are labelled different there do not match.

    Raises ArgumentError for a threshold out of its range or a reference of a collection, DedupeError for unknown
    rules, a folder without pictures and a model without calibration, and StoreError.
    """
    check_threshold(threshold)
    keep, console = checked_rules(keep), Console(quiet=not show_progress_bar)
    kept = _list_paths(reference)
    if isinstance(source, Collection):
        if kept:
            raise ArgumentError("reference is for folders, and a collection has none; name the folders in its place")
        with PairBars(console, "comparing") as bars:
            return duplicates_among(
                source,
                threshold=threshold,
                keep=keep,
                candidates=candidates,
                question=question,
                same_orientation=same_orientation,
                on_pairs=bars.begin,
            )
    scorer = (scorer or Scorer.load()).asking(question)
    roots, references = resolve_roots(_list_paths(source), kept)

    def refuse(path: str, reason: str) -> None:
        on_error(path, reason) if on_error else logger.warning("skipped %s", reason)

    omissions, exclusion = Omissions(), Exclusion(tuple(exclude), include_hidden)
    files = list_picture_files(roots, refuse, references, logger.warning, exclusion, omissions)
    if left_out := omissions.left_out_line():
        logger.warning("%s", left_out.replace("--include-hidden", "include_hidden=True"))
    return scored_duplicates(
        roots,
        files,
        references,
        scorer=scorer,
        store=store,
        threshold=threshold,
        keep=keep,
        candidates=candidates,
        question=question,
        same_orientation=same_orientation,
        refuse=refuse,
        console=console,
    )[0]


def scored_duplicates(
    roots: Sequence[Path],
    files: Sequence[PictureFile],
    references: Sequence[Path] = (),
    *,
    scorer: Scorer,
    store: Location | None,
    refuse: Refuse,
    console: Console,
    threshold: float | Literal["auto"] = "auto",
    keep: Sequence[str] = DEFAULT,
    candidates: int = CANDIDATES,
    question: str = COPY,
    same_orientation: bool = False,
    apart: IdPairs = NONE,
    workers: WorkerPool | None = None,
) -> tuple[Duplicates, Scan]:
    """The duplicates among the files below the folders and the references by the network, and the scan.

    Features, made by the `workers` if any, and scores are kept in the folder `store`, or in the user's cache; for the
    rest see `duplicates_among`. Raises DedupeError where no file could be read or a folder is gone by now, and
    StoreError.
    """
    places, reasons = [*roots, *references], list[str]()

    def collect(path: str, reason: str) -> None:
        reasons.append(reason)
        refuse(path, reason)

    # With references, other folders that are compared with them find what is kept of these.
    place = store or store_of(references or roots, scorer.runtime.revision)
    with (
        Collection.open(place, scorer, create=True) as collection,
        PairCache(collection.directory / LEDGER, scorer.runtime.scores_revision) as pair_cache,
    ):
        # What a run of 0.2 on a cluster left that was killed, with the tokens of pictures.
        shutil.rmtree(collection.directory / "pairs.parts", ignore_errors=True)
        with console.progress(total=len(files), unit="picture", desc="reading") as bar:
            seen = scan_files(places, files, collection, pair_cache, refuse=collect, tick=bar.update, workers=workers)
        resolve_folders(places)  # one that is gone would look as if it had become empty
        if all(picture.reference for picture in seen.pictures):
            count = sum(not file.reference for file in files)
            raise DedupeError(f"{format_count(count, 'picture')} found, and none could be read: {reasons[0]}")
        if store is None:
            _forget_others(collection, pair_cache, seen.pictures)
        with PairBars(console, "comparing") as bars:
            found = duplicates_among(
                collection,
                seen.pictures,
                threshold=threshold,
                keep=keep,
                candidates=candidates,
                question=question,
                same_orientation=same_orientation,
                apart=apart,
                pair_cache=pair_cache,
                on_pairs=bars.begin,
            )
        return found, seen


def _list_paths(folders: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Path]:
    return list(map(Path, [folders] if isinstance(folders, str | os.PathLike) else folders))


def store_of(roots: Sequence[Path], revision: str) -> Path:
    """The folder of features and scores without a store: in the user's cache, by the digest of the folders' names and
    the `revision` of the model.
    """
    cache = cache_folder(otherwise="name a folder for features and scores with --store or XDG_CACHE_HOME")
    names = "\0".join(sorted(map(str, roots)))
    digest = hashlib.sha256(names.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return cache / "diptych" / "dedupe" / f"{digest}-{revision}"


def _forget_others(collection: Collection, pair_cache: PairCache, pictures: Sequence[Picture]) -> None:
    """Let go of all but these pictures, in a collection that is ours alone."""
    pair_cache.forget_all_but({picture.path for picture in pictures})
    present = {picture.id for picture in pictures}
    pages = collection.backend.pages(1000)
    old = [record.id for records in pages for record in records if record.id not in present]
    if old:
        collection.backend.remove(old)
