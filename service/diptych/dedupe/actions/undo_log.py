"""The journal of moved files: written before each act, and read to undo it."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from diptych.dedupe.actions.hard_link import clear_links, links_of, put_back_over_link
from diptych.dedupe.actions.move_file import (
    ChangedError,
    alone_in,
    change_of,
    give_back,
    held_of,
    move_file,
    parts_of,
    same_file,
)
from diptych.dedupe.actions.past import FORMAT, KEEPERS, LINKED, Entry, Past, checked_name, parse_entry
from diptych.dedupe.actions.relocation import Written, limit_folders, mark_of, relocate_folders
from diptych.errors import DedupeError
from diptych.pictures.walk import TRASH
from diptych_runtime.atomic import sync_folder
from diptych_runtime.errors import NoHomeError
from diptych_runtime.own_files import open_own
from diptych_runtime.paths import data_folder

_KEY_BYTES = 32
# The bounds of a journal that is read into memory; one that is sealed with the user's own key may be longer.
_LONGEST_LINE, _MOST_BYTES, _MOST_FILES, _MOST_FOLDERS = 1 << 24, 1 << 28, 500_000, 50


@dataclass
class Outcome:
    """The counts of pictures acted on and of the `companions` that went with them, of files that needed nothing, and of
    those that were to be deleted and are back in place (`restored`); the files that are `lost`, at neither of their
    places, where another file may lie by now; and those left alone with the reasons.
    """

    done: int = 0
    companions: int = 0
    already: int = 0
    restored: int = 0
    lost: list[str] = field(default_factory=list)
    left: list[dict[str, str]] = field(default_factory=list)

    def count(self, entry: Entry) -> None:
        """Count a file that was acted on."""
        if entry.belongs_to:
            self.companions += 1
        else:
            self.done += 1

    def leave(self, path: str, reason: str) -> None:
        """Note that a file was left alone."""
        self.left.append({"path": path, "reason": reason})


class UndoLog:
    """A file of JSON lines, each of which is on the disk when `note` returns: `with Journal.begin(path, ...) as j:`.

    Each is sealed with this user's own key, together with the seal of the first, so that `read_journal` knows it again.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor
        self._key, self._first = own_key(), ""

    @classmethod
    def begin(
        cls,
        path: Path,
        act: str,
        folders: Sequence[Path],
        roots: Sequence[Path],
        references: Sequence[Path] = (),
        mounted: Sequence[Path] = (),
    ) -> UndoLog:
        """Make a new journal of an act, "move", "delete" or "hardlink", from the `roots` into these folders.

        Some files are kept in the `references`, and some are from folders of another disk that is `mounted` below a
        root. Raises DedupeError if it cannot be written.
        """
        journal = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            journal = cls(path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644))
            began = datetime.now(UTC).isoformat(timespec="seconds")
            named = {"folders": folders, "roots": roots, "references": references, "mounted": mounted}
            places = {name: list(map(str, paths)) for name, paths in named.items()} | {"at": str(path.absolute())}
            marks = {"folder": mark_of(path.parent), "roots": [mark_of(root) for root in roots]}
            journal._write({"journal": FORMAT, "act": act, "began": began, **places, "marks": marks})
            sync_folder(path.parent)
        except OSError as error:
            if journal is not None:
                journal.close()
                with suppress(OSError):
                    path.unlink()
            raise DedupeError(f"the journal {path} cannot be written: {error.strerror}; nothing was moved") from None
        return journal

    def note(self, entry: Entry) -> None:
        """Write down an act before it is done. Raises OSError if the disk does not take it; then do not do it."""
        self._write(asdict(entry))

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def __enter__(self) -> UndoLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, line: dict[str, Any]) -> None:
        if self._key:
            line = line | {"seal": seal_of(line, self._first, self._key)}
            self._first = self._first or line["seal"]
        data = (json.dumps(line) + "\n").encode()
        while data:
            data = data[os.write(self._descriptor, data) :]
        os.fsync(self._descriptor)


def read_journal(path: Path, named: Sequence[Path] = ()) -> Past:
    """Read a journal; a last line that was cut short was never acted on and does not count.

    Its folders are found anew (`relocate_folders`) where the journal lies elsewhere by now, or others have come into
    their places, and are bounded by those that the user has `named` (`limit_folders`). Raises DedupeError for what is
    no journal.
    """
    try:
        if path.exists() and not path.is_file():
            raise DedupeError(f"{path} is no file; name the journal that `diptych dedupe` printed")
        first, entries, foreign = _read_lines(path)
        if first["journal"] not in range(1, FORMAT + 1):
            raise DedupeError(f"{path} is a journal of format {first['journal']}; use the Diptych that wrote it")
        names = ("folders", "roots", "references", "mounted")
        folders, roots, references, mounted = (_read_folders(first, name) for name in names)
        if foreign and len(roots) + len(folders) + len(references) + len(mounted) > _MOST_FOLDERS:
            raise ValueError(f"it names more than {_MOST_FOLDERS:,} folders")
        if first["act"] not in ("move", "delete", LINKED):
            raise ValueError(f"it has the act {first['act']!r}")
        number, user = first["journal"], list(named)
        past = Past(first["act"], folders, roots, entries, number, references, {}, mounted, foreign, user)
        marks = first.get("marks", {})
        written = Written(
            Path(checked_name(first.get("at", str(path)), "at")), marks.get("folder"), marks.get("roots", [])
        )
        return limit_folders(relocate_folders(past, written, path), path, named)
    except OSError as error:
        raise DedupeError(f"the journal {path} cannot be read: {error.strerror}") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DedupeError(
            f"{path} is no journal of `diptych dedupe` ({error}); name the file that it printed"
        ) from None


def _read_lines(path: Path) -> tuple[dict[str, Any], list[Entry], bool]:
    """The first line of a journal and its entries, and True where a line is not sealed with this user's key.

    Then it is read only as far as `_MOST_BYTES` and `_MOST_FILES`. Raises OSError, DedupeError for an empty file, and
    errors of Python's for lines that are no journal.
    """
    first, entries, key, foreign = None, list[Entry](), kept_key(), False
    with path.open("rb") as file:
        while raw := file.readline(_LONGEST_LINE + 1):
            if len(raw) > _LONGEST_LINE:
                raise ValueError(f"a line has more than {_LONGEST_LINE:,} bytes")
            try:
                line = json.loads(raw)
            except ValueError:
                if first is None or raw.endswith(b"\n"):
                    raise
                break
            seal = line.pop("seal", "")
            foreign = foreign or key is None or seal != seal_of(line, first["seal"] if first else "", key)
            if first is None:
                first = line | {"seal": seal}
            else:
                entries.append(parse_entry(line))
            if foreign and (file.tell() > _MOST_BYTES or len(entries) > _MOST_FILES):
                raise ValueError(f"it has more than {_MOST_BYTES:,} bytes or {_MOST_FILES:,} files")
    if first is None:
        raise DedupeError(f"{path} is empty: nothing was moved")
    return first, entries, foreign


def _read_folders(first: dict[str, Any], name: str) -> list[Path]:
    listed = first.get(name, [])
    if not isinstance(listed, list):
        raise TypeError(f"expected a list of {name}, got {listed!r}")
    return [Path(checked_name(place, name)) for place in listed]


def undo_moves(past: Past, tick: Callable[[], object] = lambda: None) -> Outcome:
    """Put every file back where it was, the last one first, over no other file. Doing it twice does no harm.

    Raises DedupeError while another run moves files there.
    """
    outcome = Outcome()
    with alone_in(past.folders_to_lock):
        for entry in reversed(past.entries):
            source, target = Path(entry.source), Path(entry.target)
            try:
                if reason := past.reason_against(entry):
                    outcome.leave(entry.target, reason)
                    continue
                _put_back(entry, source, target, outcome, linked=past.act == LINKED)
                _remove_empty_folders(target.parent, past.folders)
            except ChangedError as error:
                outcome.leave(entry.target, f"it {error}; it is left where it is")
            except OSError as error:
                outcome.leave(entry.target, f"it cannot be put back to {source}: {error.strerror}")
            finally:
                tick()
    return outcome


def empty_trash(past: Past, tick: Callable[[], object] = lambda: None, *, dry_run: bool = False) -> Outcome:
    """Delete for good the files that a journal of "delete" or "hardlink" put aside, if they are unchanged and their
    keepers, or the links in their places, still exist. A companion is deleted only if its picture does not stay.

    A `dry_run` counts them and deletes nothing.

    Raises DedupeError for a journal of something else, for one that does not say what was kept, and while another run
    moves files there.
    """
    if past.act not in ("delete", LINKED):
        raise DedupeError(
            "only what `--delete` or `--action hardlink` put aside can be emptied; the journal is of files that were "
            "moved"
        )
    if past.format < KEEPERS:
        raise DedupeError(
            "the journal is of an earlier Diptych, which did not note what was kept in place of each picture; put all "
            "back with --undo and run dedupe again, or delete the folder yourself"
        )
    outcome, staying = Outcome(), set[str]()
    with alone_in(past.folders_to_lock):
        for entry in past.entries:
            target = Path(entry.target)
            try:
                reason = past.reason_against(entry) or _reason_to_keep(past, entry, target)
                if not reason and entry.belongs_to in staying:
                    reason = f"it belongs to {entry.belongs_to}, which stays"
                if reason:
                    outcome.leave(entry.target, reason)
                    staying.add(entry.source)
                    continue
                if not os.path.lexists(target):
                    back = _is_back(entry, linked=past.act == LINKED)
                    outcome.restored += back
                    outcome.already += not back
                else:
                    if not dry_run:
                        target.unlink()
                    outcome.count(entry)
                if not dry_run:
                    _remove_empty_folders(target.parent, past.folders)
            except OSError as error:
                outcome.leave(entry.target, f"it cannot be deleted: {error.strerror}")
                staying.add(entry.source)
            finally:
                tick()
    return outcome


def _reason_to_keep(past: Past, entry: Entry, target: Path) -> str | None:
    """The reason why a file that was put aside must not be deleted; None if there is none.

    Where it was linked, the link in its place is what has to be there.
    """
    source, linked = Path(entry.source), past.act == LINKED
    keeper, keeper_id = (source, entry.id) if linked else (Path(entry.keeper), entry.keeper_id)
    if held := [*held_of(source), *held_of(target), *(links_of(source) if linked else ())]:
        return f"a move was cut short and left {held[0]}; undo it first"
    if not os.path.lexists(target):
        return None
    if TRASH not in Path(os.path.normpath(target)).parts or target.is_symlink():
        return f"it is not in a folder {TRASH} any more; delete it yourself if you want to"
    if source.exists() and target.samefile(source):
        return f"it is still {source} too: the move was cut short; undo it first"
    if not linked and not past.may_read(keeper):
        return (
            f"what was kept in its place, {keeper}, lies elsewhere, and the journal is not of a run of yours; name "
            "its folder too"
        )
    if reason := change_of(target, entry.id):
        return f"it {reason}; look at it before you delete it"
    if reason := change_of(keeper, keeper_id):
        return f"what was kept in its place, {keeper}, {reason}, so this may be the last one"
    # A link gets its name in the moment in which the file is moved, so that times of change tell them apart no more.
    same = os.path.samestat if linked else same_file
    return f"it is {keeper} itself by another name" if same(target.stat(), keeper.stat()) else None


def _is_back(entry: Entry, *, linked: bool) -> bool:
    """True if a file that was put aside was put back; where it was `linked`, a link to its keeper is not it."""
    source, keeper = Path(entry.source), Path(entry.keeper)
    if change_of(source, entry.id) is not None:  # gone, or another file by its name
        return False
    return not (linked and keeper.exists() and source.samefile(keeper))


def _put_back(entry: Entry, source: Path, target: Path, outcome: Outcome, *, linked: bool) -> None:
    """Move a file back, where it was `linked` over the link; what a killed move held gets its name back first."""
    for part in (*parts_of(source), *parts_of(target)):
        part.unlink(missing_ok=True)
    for path, other in ((target, source), (source, target)):
        for held in held_of(path):
            if _is_whole_copy(held, other, entry.id):
                (other if path == source else held).unlink()
            if held.exists() and not give_back(held, path):
                outcome.leave(str(held), f"there is another file at {path} by now; move that away first")
                return
    there, moved = os.path.lexists(source), os.path.lexists(target)
    apart = moved and not (there and (source.is_symlink() or target.is_symlink() or source.samefile(target)))
    if linked and apart and put_back_over_link(source, target, entry.id, Path(entry.keeper)):
        outcome.count(entry)
    elif moved and not there and not linked:
        move_file(target, source, entry.id)
        outcome.count(entry)
    elif moved:
        _remove_second_copy(entry, source, target, outcome)
    elif there and change_of(source, entry.id) is None:
        outcome.already += 1
    else:  # nothing is there, or another file
        outcome.lost.append(str(source))
    if linked:
        clear_links(source, entry.id, Path(entry.keeper))


def _is_whole_copy(held: Path, other: Path, id: str) -> bool:
    """True if a move across file systems was killed when both copies were whole: then one of them may go."""
    if not os.path.lexists(other) or other.is_symlink() or other.samefile(held):
        return False
    return change_of(held, id) is None and change_of(other, id) is None


def _remove_second_copy(entry: Entry, source: Path, target: Path, outcome: Outcome) -> None:
    """Take the second of two names or copies away, if it is one: nothing that is the last."""
    if source.is_symlink() or target.is_symlink():
        link = source if source.is_symlink() else target
        outcome.leave(str(target), f"there is a link at {link} by now; look where it leads, and move it away first")
    elif source.samefile(target):
        same = source.name == target.name and source.parent.samefile(target.parent)
        if not same and source.lstat().st_nlink > 1:
            target.unlink()
        outcome.already += 1
    elif change_of(source, entry.id) is None:
        outcome.leave(str(target), f"the same picture is at {source}; delete this one if you want to")
    else:
        outcome.leave(str(target), f"there is another file at {source} by now; move that away first")


def _remove_empty_folders(folder: Path, within: Sequence[Path]) -> None:
    """Remove a folder that is empty by now, and those above it, but none outside the folders that files went into."""
    while any(folder.is_relative_to(top) for top in within):
        try:
            folder.rmdir()
        except OSError:  # in use
            return
        folder = folder.parent


def seal_of(line: dict[str, Any], first: str, key: bytes) -> str:
    """The seal of a journal's line; that of the `first` line is in it, so that it fits no other journal."""
    text = first + json.dumps(line)
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def kept_key() -> bytes | None:
    """The key of this user, or None if none was made yet or it cannot be read."""
    try:
        with open_own(_key_file()) as file:
            key = file.read(_KEY_BYTES + 1)
    except (OSError, NoHomeError):
        return None
    return key if len(key) == _KEY_BYTES else None


def own_key() -> bytes | None:
    """The key of this user, made where there is none; None where it cannot be kept, and then nothing is sealed."""
    if (key := kept_key()) is not None:
        return key
    with suppress(OSError, NoHomeError):
        place = _key_file()
        made = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(secrets.token_bytes(_KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(made, place)
            except FileExistsError:  # another run was faster
                pass
            except OSError:  # there are no links, as on FAT
                made.rename(place)
        finally:
            made.unlink(missing_ok=True)
    return kept_key()


def _key_file() -> Path:
    """The file of the key, in the folder for the data of this user. Raises NoHomeError."""
    return (
        data_folder(otherwise="name a folder for the key of your journals with XDG_DATA_HOME") / "diptych-journals.key"
    )
