"""Files of a journal that no run of this user wrote: they are put back only where and if nothing runs or hides them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from diptych.dedupe.actions.hard_link import links_of
from diptych.dedupe.actions.move_file import held_of
from diptych.dedupe.companions import ENDINGS
from diptych.pictures.content import read_bytes
from diptych.pictures.sources import picture_limits
from diptych.pictures.walk import real_path
from diptych_runtime.decoder import SUFFIXES, read_header
from diptych_runtime.errors import PictureError
from diptych_runtime.own_files import open_own

# Programs of Linux, macOS, Windows and Java, scripts, and what a desktop starts.
_PROGRAMS = (b"\x7fELF", b"\xfe\xed\xfa", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"MZ", b"#!")
_PROGRAMS += (b"[Desktop Entry]",)


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
