"""`find_duplicates`: folders of picture files, or a collection, in one call."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from diptych.batch.workers.executor import WorkerPool
from diptych.collection.collection import Collection
from diptych.console import Console, PairBars, format_count
from diptych.dedupe.candidates import CANDIDATES
from diptych.dedupe.duplicates import Duplicates, Method
from diptych.dedupe.find import duplicates_among
from diptych.dedupe.hashes import MAX_DISTANCE, check_distance, duplicates_by_hash, kept_hashes, scan_hashes
from diptych.dedupe.keeper import DEFAULT, checked_rules
from diptych.dedupe.labelled import NONE, IdPairs, different_pairs_in
from diptych.dedupe.pair_cache import LEDGER, PairCache
from diptych.dedupe.scan import PictureFile, Scan, list_picture_files, resolve_folders, resolve_roots, scan_files
from diptych.dedupe.threshold import check_threshold
from diptych.errors import DedupeError, StoreError
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
    The log counts what is left out without `include_hidden` and by the globs `exclude` (`Exclusion`).

    The `scorer` is by default `Scorer.load()`. What is computed is kept in the collection `store` or in the user's
    cache; pairs that are labelled different there do not match. A file that cannot be read is logged and left out, or
    goes to `on_error`: its path and the reason.

    Raises ArgumentError for a threshold out of its range, arguments of another method or a reference of a collection,
    DedupeError for unknown rules, a folder without pictures and a model without calibration, and StoreError.
    """
    check_threshold(threshold)
    given = {"scorer": scorer is not None, "threshold": threshold != "auto", "question": question != COPY}
    given |= {"candidates": candidates != CANDIDATES, "same_orientation": same_orientation}
    check_method(method, max_distance, given)
    rules, console, references = checked_rules(keep), Console(quiet=not show_progress_bar), _list_paths(reference)
    if isinstance(source, Collection):
        if method == "phash":
            raise ArgumentError("the method phash reads files; name the folders in place of the collection")
        if references:
            raise ArgumentError("reference is for folders, and a collection has none; name the folders in its place")
        with PairBars(console, "comparing") as bars:
            return duplicates_among(
                source,
                threshold=threshold,
                keep=rules,
                candidates=candidates,
                on_stage=bars.begin,
                question=question,
                same_orientation=same_orientation,
            )
    if method == "network":
        scorer = (scorer or Scorer.load()).asking(question)
    roots, references = resolve_roots(_list_paths(source), references)

    def refuse(path: str, reason: str) -> None:
        on_error(path, reason) if on_error else logger.warning("skipped %s", reason)

    omissions, exclusion = Omissions(), Exclusion(tuple(exclude), include_hidden)
    files = list_picture_files(roots, refuse, references, logger.warning, exclusion, omissions)
    if left_out := omissions.left_out_line():
        logger.warning("%s", left_out.replace("--include-hidden", "include_hidden=True"))
    search = FolderSearch(roots, references, files, store, rules, refuse, console)
    if scorer is None:
        return search.find_by_hash(max_distance)[0]
    return search.find_by_network(scorer, threshold, candidates, question, same_orientation)[0]


@dataclass(frozen=True)
class FolderSearch:
    """A search among the `files` below folders and references (`list_picture_files`).

    What is computed is kept in `store`, or in the user's cache. Of a group is kept what the rules `keep` prefer. Pairs
    that are labelled different in the store, and those of the ids `apart`, do not match. What cannot be read goes to
    `refuse`: the path and the reason.
    """

    roots: Sequence[Path]
    references: Sequence[Path]
    files: Sequence[PictureFile]
    store: Location | None
    keep: tuple[str, ...]
    refuse: Refuse
    console: Console
    apart: IdPairs = NONE

    def find_by_network(
        self,
        scorer: Scorer,
        threshold: float | Literal["auto"],
        candidates: int,
        question: str,
        same_orientation: bool,
        workers: WorkerPool | None = None,
    ) -> tuple[Duplicates, Scan]:
        """The duplicates by the network (`duplicates_among`), with features made by the `workers` if any, and the scan.

        Raises DedupeError where no file could be read or a folder is gone by now, and StoreError.
        """
        place = self.store or self._cache_folder(scorer.runtime.revision)
        with (
            Collection.open(place, scorer, create=True) as collection,
            PairCache(collection.directory / LEDGER, scorer.runtime.scores_revision) as pair_cache,
        ):
            # What a run of 0.2 on a cluster left that was killed, with the tokens of pictures.
            shutil.rmtree(collection.directory / "pairs.parts", ignore_errors=True)
            with self.console.progress(total=len(self.files), unit="picture", desc="reading") as bar:
                seen = scan_files(self.places, self.files, collection, pair_cache, tick=bar.update, workers=workers)
            self._check_scan(seen)
            if self.store is None:
                self._forget_others(seen, pair_cache, collection)
            with PairBars(self.console, "comparing") as bars:
                found = duplicates_among(
                    collection,
                    seen.pictures,
                    threshold=threshold,
                    keep=self.keep,
                    candidates=candidates,
                    pair_cache=pair_cache,
                    on_stage=bars.begin,
                    question=question,
                    apart=self.apart,
                    same_orientation=same_orientation,
                )
        return found, seen

    def find_by_hash(self, max_distance: int | None = None, threads: int | None = None) -> tuple[Duplicates, Scan]:
        """The duplicates by digest and perceptual hash, and the scan.

        Raises DedupeError where no file could be read, and StoreError.
        """
        if isinstance(self.store, Address):
            raise StoreError(
                f"hashes are kept in a folder of this machine, and {self.store} is on Milvus; name a folder"
            )
        store = Path(self.store) if self.store else None
        with kept_hashes(store or self._cache_folder("phash")) as pair_cache:
            with self.console.progress(total=len(self.files), unit="picture", desc="hashing") as bar:
                seen, hashes = scan_hashes(
                    self.places, self.files, pair_cache, threads=threads or thread_count(), tick=bar.update
                )
            self._check_scan(seen)
            if store is None:
                self._forget_others(seen, pair_cache)
        apart = self.apart | different_pairs_in(store)
        distance = MAX_DISTANCE if max_distance is None else max_distance
        found = duplicates_by_hash(seen.pictures, hashes, max_distance=distance, keep=self.keep, apart=apart)
        return found, seen

    @property
    def places(self) -> list[Path]:
        """The folders and the references, by whose places pictures say where they are from."""
        return [*self.roots, *self.references]

    def _cache_folder(self, name: str) -> Path:
        """The folder of what is kept without a store, made by what has this `name`.

        With references, other folders that are compared with them find what is kept of these.
        """
        return store_of(self.references or self.roots, name)

    def _check_scan(self, seen: Scan) -> None:
        """Refuse what was not read; DedupeError where that is all but references, or a folder is gone by now."""
        for path, reason in seen.unread.items():
            self.refuse(path, reason)
        resolve_folders(self.places)  # one that is gone would look as if it had become empty
        if all(picture.reference for picture in seen.pictures):
            count = format_count(sum(not file.reference for file in self.files), "picture")
            raise DedupeError(f"{count} found, and none could be read: {next(iter(seen.unread.values()))}")

    def _forget_others(self, seen: Scan, pair_cache: PairCache, collection: Collection | None = None) -> None:
        """Forget all but the pictures that were seen, in a cache and a collection that are ours alone."""
        pair_cache.forget_all_but({picture.path for picture in seen.pictures})
        present = {picture.id for picture in seen.pictures}
        pages = collection.backend.pages(1000) if collection else ()
        if collection and (old := [one.id for page in pages for one in page if one.id not in present]):
            collection.backend.remove(old)


def check_method(method: str, max_distance: int | None, given: Mapping[str, bool]) -> None:
    """Raise ArgumentError for settings that do not go together; `given` are those of the network, by their names."""
    if method not in get_args(Method):
        raise ArgumentError(f"method must be one of {', '.join(get_args(Method))}, got {method!r}")
    if method == "network":
        if max_distance is not None:
            raise ArgumentError("max_distance is for the method phash; the network has a threshold")
        return
    if max_distance is not None:
        check_distance(max_distance)
    if named := [name for name, there in given.items() if there]:
        are = "is" if len(named) == 1 else "are"
        raise ArgumentError(f"{' and '.join(named)} {are} for the method network; phash has max_distance alone")


def _list_paths(folders: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Path]:
    return list(map(Path, [folders] if isinstance(folders, str | os.PathLike) else folders))


def store_of(roots: Sequence[Path], name: str) -> Path:
    """The folder in the user's cache of what is kept of these folders, made by what has this `name`."""
    cache = cache_folder(otherwise="name a folder for features and scores with --store or XDG_CACHE_HOME")
    names = "\0".join(sorted(map(str, roots)))
    digest = hashlib.sha256(names.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return cache / "diptych" / "dedupe" / f"{digest}-{name}"
