"""One comparison of folders with a collection: only what changed is read, only what is new is embedded.

The collection and the files decide; the ledger only saves reading. Pictures are added first, batch by batch, then they
follow their files, then they are removed: whenever that ends, the next run comes to the same.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from diptych.collection.collection import Collection
from diptych.collection.ingest import Incoming, make_batches, simulate_commit
from diptych.collection.sync.plan import Plan, find_going, find_objection, make_plan
from diptych.collection.sync.seen_files import Seen, SeenFiles
from diptych.console import format_count
from diptych.errors import SyncError
from diptych.pictures.content import Content, picture_id, whole_file
from diptych.pictures.walk import Omissions, Stamp, Tree, can_be_kept, full_path
from diptych.scoring.threads import map_pictures
from diptych.store.records import FileStamp
from diptych_runtime.decoder import PictureLimits
from diptych_runtime.errors import PictureError, TooLargeError
from diptych_runtime.folders import DEFAULT, Exclusion

# A file that was changed this short before it is looked at (ns; FAT counts 2 s) may change again without getting
# another time, so it is read again the next time.
_RECENT = 2_000_000_000

KEEP_DAYS = 90.0  # that the metadata of removed pictures wait for their content


@dataclass
class Outcome:
    """The result of a run, or the preview of a dry run. `added` gives the path of each new picture by id.

    `refused` are files that are no pictures or cannot be read, `closed` files and folders that could not be looked at,
    whose pictures stayed; both with reasons. `omissions` are the files that were left out, and `excluded` those of
    them whose pictures the collection had. `copies` are the files beside a picture's own, and `objection` is why a dry
    run would be refused. `returned` are the ids of new pictures that got back the metadata they had before they were
    removed, and `kept` counts those removed now whose metadata wait for `keep_days`.
    """

    plan: Plan = field(default_factory=Plan)
    added: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    closed: dict[str, str] = field(default_factory=dict)
    before: dict[str, str] = field(default_factory=dict)
    omissions: Omissions = field(default_factory=Omissions)
    excluded: set[str] = field(default_factory=set)
    copies: int = 0
    objection: str | None = None
    returned: set[str] = field(default_factory=set)
    kept: int = 0
    keep_days: float = KEEP_DAYS


# The bytes of a file, why it cannot be read now, or None if it is gone; PictureError if this user may not read it.
_Read = bytes | str | PictureError | None


class Run:
    """Folders and a collection: `Run(collection, ledger, ["photos"]).go().plan`; `outcome` grows meanwhile."""

    def __init__(
        self,
        collection: Collection,
        ledger: SeenFiles,
        folders: Iterable[str | os.PathLike[str]],
        exclusion: Exclusion = DEFAULT,
        *,
        checksum: bool = False,
        allow_removal: bool = False,
        dry_run: bool = False,
        keep_days: float = KEEP_DAYS,
    ) -> None:
        """With `checksum` every file is read, and with `allow_removal` all pictures may be removed. With `dry_run` all
        is checked alike and nothing written; the ledger must be read only. The metadata of removed pictures are kept
        for `keep_days`, and given back to the same content. Raises SyncError for what is no folder.
        """
        self.collection, self.ledger, self.roots = collection, ledger, check_folders(folders)
        self.exclusion = exclusion
        self.checksum, self.allow_removal, self.dry_run = checksum, allow_removal, dry_run
        self.outcome = Outcome(keep_days=keep_days)
        self._tree = Tree()
        self._at: dict[str, str] = {}  # the id of the content at each path, as far as known
        self._met: set[str] = set()
        self._began = 0

    def go(
        self, *, total: Callable[[int], object] = lambda files: None, tick: Callable[[int], object] = lambda files: None
    ) -> Outcome:
        """Bring the collection in step. `total` is told how many files are read, `tick` how many more have been.

        Raises SyncError if more pictures would go than may or memory runs out, StoreError, and whatever callbacks do;
        what was added until then stays, and nothing was removed.
        """
        try:
            return self._compare_folders(total, tick)
        except MemoryError:
            raise SyncError(
                f"memory ran out after {format_count(len(self._at), 'file')}; what was added is kept, and nothing was "
                "removed. Allow more (`ulimit -v`, the limit of a container), or end other programs; the next run "
                "takes up the rest"
            ) from None

    def _compare_folders(self, total: Callable[[int], object], tick: Callable[[int], object]) -> Outcome:
        self._began = time.time_ns()
        self._forget_removed()
        self._tree = tree = Tree.below(self.roots, self.exclusion)
        before = self.outcome.before
        for root in self.roots:
            before.update(self.collection.store.under(root))
        for path in before.values():  # files of other endings, and behind links, were added by name
            if path in tree.files or path in tree.refused or tree.may_hold(path):
                continue
            if self._leaves_out(path):
                self.outcome.excluded.add(path)
            else:
                tree.take_file(path)
        self.outcome.refused.update(tree.refused)
        self.outcome.closed.update(tree.closed)
        self.outcome.omissions = tree.omissions
        known = self.ledger.files(self.roots)
        fresh = self._find_unsettled(known)
        total(len(fresh))
        if not self.allow_removal and self._find_objection(self._find_missing()):
            # The files may only have moved. What is in the collection already is found by its digest alone.
            fresh = self._settle_files(fresh, tick, add=False)
            self._stop_at(self._find_objection(self._find_missing()))
        self._settle_files(fresh, tick, add=True)
        self._follow_files([path for path in known if path not in tree.files and not tree.may_hold(path)])
        return self.outcome

    def _find_unsettled(self, known: dict[str, Seen]) -> list[str]:
        """The files that have to be read; the others are known from earlier runs."""
        stored = self.collection.store.known_ids(sorted({seen.id for seen in known.values() if seen.id is not None}))
        fresh = []
        for path, file in self._tree.files.items():
            seen = known.get(path)
            if self.checksum or seen is None or seen.stamp != file.stamp:
                fresh.append(path)
            elif seen.reason is not None:
                self.outcome.refused[path] = seen.reason
            elif seen.id in stored:
                self._at[path] = str(seen.id)
            else:
                fresh.append(path)
        return fresh

    def _settle_files(self, paths: Sequence[str], tick: Callable[[int], object], *, add: bool) -> list[str]:
        """Read files and settle their contents; without `add`, return those with content that is not stored yet."""
        later: list[str] = []
        for batch in make_batches(map(Path, paths)):
            names = [str(path) for path in batch]
            limits, threads = self.collection.scorer.limits, self.collection.scorer.runtime.threads
            read: dict[str, _Read] = dict(
                zip(names, map_pictures(partial(_read_file, limits=limits), names, threads), strict=True)
            )
            if not add:
                later += (new := self._find_new(read))
                read = {path: one for path, one in read.items() if path not in new}
            self._take_batch(read)
            tick(len(read))
        return later

    def _find_new(self, read: dict[str, _Read]) -> set[str]:
        """The files that were read and whose content is not in the collection."""
        ids = {
            path: picture_id(hashlib.sha256(one).hexdigest()) for path, one in read.items() if isinstance(one, bytes)
        }
        stored = self.collection.store.known_ids(list(ids.values()))
        return {path for path, id in ids.items() if id not in stored}

    def _take_batch(self, read: dict[str, _Read]) -> None:
        """Add the new pictures of a batch, and remember the content of its files."""
        notes: dict[str, Seen | None] = {}
        whole: dict[str, bytes] = {}
        for path, one in read.items():
            if isinstance(one, bytes):
                whole[path] = one
            elif one is None:
                del self._tree.files[path]
            elif isinstance(one, str):
                self._tree.closed[path] = self.outcome.closed[path] = one
            else:
                self.outcome.refused[path] = str(one)
                if isinstance(one, TooLargeError):
                    self._tree.closed[path] = str(one)  # with other limits it was read, and its picture stays
                notes[path] = None  # its stamp would not say that it may be read by now
        arrivals = []
        received = self.collection.read_new([(data, path) for path, data in whole.items()])
        for path, content in zip(whole, received, strict=True):
            stamp = self._tree.files[path].stamp
            if isinstance(content, PictureError):
                self.outcome.refused[path] = str(content)
                # What is in the file is remembered, not that a decoder ran out of time or memory.
                notes[path] = Seen(stamp, None, str(content)) if type(content) is PictureError else None
                continue
            notes[path] = Seen(stamp, content.id, None)
            self._at[path] = content.id
            # A picture that was added otherwise keeps its path, or none: it is not these folders' to remove.
            if isinstance(content, Content):
                arrivals.append(Incoming(content, path, {}, stamp=_shorten_stamp(stamp)))
        kept = self.collection.store.removed_metadata([arrival.content.id for arrival in arrivals])
        acknowledged = simulate_commit(arrivals, self._met) if self.dry_run else self.collection.commit(arrivals)
        for arrival, added in zip(arrivals, acknowledged, strict=True):
            if added.created:
                self.outcome.added[added.id] = str(arrival.path)
                self.outcome.returned |= {added.id} & kept.keys()
        recent = {path for path in notes if self._tree.files[path].stamp.modified > self._began - _RECENT}
        self.ledger.note({path: None if path in recent else seen for path, seen in notes.items()})

    def _follow_files(self, gone: Sequence[str]) -> None:
        """Let pictures follow their files, and remove those that have none and need one."""
        check_folders(self.roots)  # one that is gone by now would look as if it had become empty
        outcome = self.outcome
        plan = make_plan(outcome.before, self._at, self._tree.may_hold, self._find_elsewhere)
        plan = plan.spare(self.collection.store.known_ids([*plan.changed, *plan.removed], kept=True))
        place = outcome.before | plan.moved | outcome.added
        outcome.copies = sum(place.get(id) != path for path, id in self._at.items())
        outcome.objection = (
            None if self.allow_removal else self._find_objection(find_going(plan, outcome.before, self._at))
        )
        if not self.dry_run:
            self._stop_at(outcome.objection)
            new = plan.moved | dict.fromkeys(plan.changed | plan.removed | plan.unplaced)
            self.collection.store.relocate((id, outcome.before[id], path) for id, path in new.items())
            self._forget_removed()
            outcome.kept = len(self.collection.store.removed_metadata([*plan.changed, *plan.removed]))
            self.collection.store.note_stamps(
                (id, path, _shorten_stamp(self._tree.files[path].stamp))
                for id, path in place.items()
                if self._at.get(path) == id
            )
            self.ledger.note(dict.fromkeys(gone))
        outcome.plan = plan

    def _forget_removed(self) -> None:
        """Forget the metadata of pictures that were removed too long ago."""
        if not self.dry_run:
            self.collection.store.forget_removed(datetime.now(UTC) - timedelta(days=self.outcome.keep_days))

    def _find_missing(self) -> dict[str, str]:
        """The pictures that are missing so far, the files that are yet to be read left out."""
        here = set(self._at.values())
        return {
            id: path
            for id, path in self.outcome.before.items()
            if id not in here and path not in self._tree.files and not self._tree.may_hold(path)
        }

    def _find_elsewhere(self, id: str) -> str | None:
        """Another file with this content, outside these folders, that is still as it was."""
        for path, stamp in self.ledger.copies(id).items():
            other = Tree()
            other.take_file(path)
            file = other.files.get(path)
            if file is not None and file.stamp == stamp and path not in self._tree.files and not self._leaves_out(path):
                return path
        return None

    def _leaves_out(self, path: str) -> bool:
        """True for a file below some of the folders that from none of them is to be found."""
        roots = [root for root in self.roots if path.startswith(root.rstrip("/") + "/")]
        return bool(roots) and all(self.exclusion.leaves_out(path, root) for root in roots)

    def _find_objection(self, removed: dict[str, str]) -> str | None:
        reason = find_objection(removed, self.outcome.before, self._tree.files, self.roots)
        excluded = self.outcome.excluded.intersection(removed.values())
        if reason is None or not excluded:
            return reason
        return f"{reason} ({excluded_text(len(excluded))})"

    def _stop_at(self, reason: str | None) -> None:
        if reason is not None and not self.dry_run:
            check_folders(self.roots)  # one that went while it was listed is not to be called empty
            remedy = "Mount the disk if it is not, or say that they are to go with --allow-removal"
            raise SyncError(f"{reason}; none was removed. {remedy}")


def excluded_text(count: int) -> str:
    """The number of pictures in words that go because their files are left out."""
    return f"{count:,} of them hidden, in a trash can or the like, or by --exclude; --include-hidden keeps such"


def check_folders(folders: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The folders as absolute paths, each once, links left as they are. Raises SyncError for a path of no folder."""
    roots = list(dict.fromkeys(map(full_path, folders)))
    for root in roots:
        if not os.path.isdir(root):  # noqa: PTH112
            what = "is a file" if os.path.exists(root) else "does not exist"  # noqa: PTH110
            raise SyncError(f"expected a folder to follow, and {root} {what}; nothing was changed")
        if not can_be_kept(root):
            shown = root.encode("utf-8", "backslashreplace").decode()
            raise SyncError(f"{shown} has a name that is not UTF-8, which no collection can keep; rename it")
    return roots


def _shorten_stamp(stamp: Stamp) -> FileStamp:
    return FileStamp(stamp.bytes, stamp.modified)


def _read_file(path: str, limits: PictureLimits) -> bytes | str | None:
    """A file as `_Read`; raises PictureError if this user may not read it, or it is larger than the limits allow."""
    try:
        data = whole_file(Path(path), limits, path)
        return f"{path} changed while it was read" if data is None else data
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise PictureError(f"{path} cannot be read: {error.strerror}") from None
    except OSError as error:  # of the disk or the network, not of the file
        return f"{path} cannot be read now: {error.strerror}"
