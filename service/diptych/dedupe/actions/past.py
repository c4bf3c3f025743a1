"""The content of a journal of moved files, and what one that no run of this user wrote may do.

Files of such a journal are put back only where and if nothing runs or hides them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from diptych.dedupe.actions.hard_link import links_of
from diptych.dedupe.actions.move_file import held_of
from diptych.dedupe.companions import ENDINGS
from diptych.pictures.content import read_bytes
from diptych.pictures.sources import picture_limits
from diptych.pictures.walk import real_path
from diptych_runtime.decoder import SUFFIXES, read_header
from diptych_runtime.errors import PictureError
from diptych_runtime.own_files import open_own

FORMAT = 3  # 1 did not say what was kept, 2 was not sealed and knew no companions
KEEPERS = 2  # the first format that says what was kept
# The act that leaves links.
LINKED = "hardlink"
# Programs of Linux, macOS, Windows and Java, scripts, and what a desktop starts.
_PROGRAMS = (b"\x7fELF", b"\xfe\xed\xfa", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"MZ", b"#!")
_PROGRAMS += (b"[Desktop Entry]",)


@dataclass(frozen=True)
class Entry:
    """A file that was to be moved: from where, to where, the id of its content, and what was kept in its place.

    A companion `belongs_to` the picture that was at this path, and went along with it.
    """

    source: str
    target: str
    id: str
    keeper: str = ""
    keeper_id: str = ""
    belongs_to: str = ""


def parse_entry(line: dict[str, Any]) -> Entry:
    """The entry on a line of a journal. Raises TypeError and ValueError for one that names no files."""
    entry = Entry(**line)
    for name, value in asdict(entry).items():
        checked_name(value, name)
    for name in ("source", "target"):
        if not Path(getattr(entry, name)).name:
            raise ValueError(f"expected a file as {name}, got {getattr(entry, name)!r}")
        if not (path := Path(getattr(entry, name))).is_absolute() or ".." in path.parts:
            raise ValueError(f"expected an absolute path without .. as {name}, got {str(path)!r}")
    return entry


def checked_name(value: object, what: str) -> str:
    """A text that can be a path. Raises TypeError for another value, and ValueError for one that no file can have."""
    if not isinstance(value, str):
        raise TypeError(f"expected a text as {what}, got {value!r}")
    if b"\0" in os.fsencode(value):
        raise ValueError(f"{what} has a NUL: {value!r}")
    return value


def device_of(folder: Path) -> int | None:
    """The device on which a folder is, or would be if it were made; None if there is none at all."""
    for place in (folder, *folder.parents):
        with suppress(OSError):
            return place.stat().st_dev
    return None


def led_out(path: str, top: Path) -> str | None:
    """The reason why a path below a folder does not lie in it: a link by now leads out of it. None where it does."""
    parent = Path(path).parent
    there = real_path(parent)
    if there.is_relative_to(real_path(top)):
        return None
    return f"{parent} leads to {there} by now, by a link; move the file by hand"


@dataclass(frozen=True)
class Past:
    """The content of a journal, of which `mounted` are folders that were on another disk than the folder searched.

    Nothing may be done in `unknown` folders, for the reasons there. One that is `foreign` was not written by a run of
    this user, as far as is known; it may act in the folders `named` by the user (`limit_folders`).
    """

    act: str
    folders: list[Path]
    roots: list[Path]
    entries: list[Entry]
    format: int = FORMAT
    references: list[Path] = field(default_factory=list)
    unknown: dict[Path, str] = field(default_factory=dict)
    mounted: list[Path] = field(default_factory=list)
    foreign: bool = False
    named: list[Path] = field(default_factory=list)

    @property
    def folders_to_lock(self) -> list[Path]:
        """The folders in which no other run may move files meanwhile."""
        return [*self.roots, *self.references]

    def may_read(self, keeper: Path) -> bool:
        """True for a keeper whose content may be read: a foreign journal may name any file, also one without an end."""
        return not self.foreign or any(is_within(keeper.parent, top, hidden=True) for top in self.named)

    def reason_against(self, entry: Entry) -> str | None:
        """The reason why nothing may be done in the folders that a file is from and went to; None if there is none."""
        source, target = Path(entry.source), Path(entry.target)
        roots = [root for root in self.roots if source.is_relative_to(root)]
        tops = [top for top in self.folders if target.is_relative_to(top)]
        for path, folders, what in ((source, roots, "from"), (target, tops, "into")):
            if not folders:
                return f"{path} lies in no folder {what} which this journal may move files; move the file by hand"
        for root in roots:
            if not root.is_dir():
                return f"{root}, where it is from, is not there; mount it, or give it that name back"
            if root in self.unknown:
                return self.unknown[root]
            if leads := led_out(entry.source, root):
                return leads
            if source.parent in self.mounted and device_of(source.parent) == device_of(root):
                return f"{source.parent}, where it is from, was on another disk, which is not there; mount it"
        if leads := led_out(entry.target, tops[0]):
            return leads
        return reason_to_distrust(source, target, [*roots, *self.named]) if self.foreign else None


def is_within(folder: Path, top: Path, *, hidden: bool = False) -> bool:
    """True for a folder that really is this one or lies in it, and not in a hidden folder of it unless `hidden`."""
    real, top = real_path(folder), real_path(top)
    return real.is_relative_to(top) and (hidden or not any(part[0] == "." for part in real.relative_to(top).parts))


def reason_to_distrust(source: Path, target: Path, tops: Sequence[Path]) -> str | None:
    """The reason why no file may be put back from `target` to `source`; None if there is none.

    A hidden name is such a reason, and one that lies in a hidden folder of all of the `tops` that it lies in, and a
    file that by its ending or its content is neither a picture nor a companion of one.
    """
    if source.name.startswith(".") or not any(is_within(source.parent, top) for top in tops):
        return f"{source} is hidden, and the journal is not of a run of yours; name its folder, or move it by hand"
    ending = source.suffix.lower()
    if ending not in SUFFIXES | ENDINGS:
        return f"{source.name} is no name of a picture, and the journal is not of a run of yours; move the file by hand"
    for path in (target, *held_of(target), *held_of(source), *links_of(source)):
        try:
            with open_own(path) as file:
                start = file.read(1 << 10)
            if ending in SUFFIXES:
                read_header(read_bytes(path, picture_limits()), str(path))
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"{path} cannot be read: {error.strerror}"
        except PictureError as error:
            return f"it is no picture, and the journal is not of a run of yours: {error}"
        if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(_PROGRAMS):
            return f"{path} is a program, and the journal is not of a run of yours; delete it"
    return None
