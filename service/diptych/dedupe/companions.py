"""The files that belong to a picture, found by their names: film, sound note, raw file, edited version and sidecars.

A raw file, a film and a sound note show or hold something that the picture does not; a sidecar says something of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from diptych.pictures.content import file_id
from diptych_runtime.decoder import SUFFIXES
from diptych_runtime.unread_formats import RAW

SIDECAR, EDITED = "sidecar", "edited version"
# The films of live photos by Apple and Google, and those of cameras; the notes that cameras record; what Adobe, Apple,
# darktable, digiKam, RawTherapee, ART, DxO, ON1, Capture One, UFRaw, Canon, Nikon, Exiv2 and ExifTool write; the
# thumbnails of cameras.
_KINDS = {
    **dict.fromkeys((".mov", ".mp4", ".m4v", ".mp", ".mv", ".avi", ".3gp", ".mts", ".mkv", ".webm", ".mpg"), "film"),
    **dict.fromkeys((".wav", ".m4a"), "sound note"),
    **dict.fromkeys(RAW, "raw file"),
    **dict.fromkeys((".xmp", ".aae", ".acr", ".pp3", ".arp", ".dop", ".on1", ".cos", ".ufraw"), SIDECAR),
    **dict.fromkeys((".vrd", ".dr4", ".nksc", ".exv", ".mie", ".thm", ".json"), SIDECAR),
}
ENDINGS = frozenset(_KINDS)
# Google Takeout cuts what it writes before .json to 46 characters, and puts the number of IMG_1(2).jpg behind all.
_LONGEST = 46
_SUPPLEMENT = ".supplemental-metadata"
_CUT = "|".join(re.escape(_SUPPLEMENT[:length]) for length in range(len(_SUPPLEMENT), 1, -1))
_TAKEOUT = re.compile(rf"(.*?)(?:{_CUT})?(\(\d+\))?", re.DOTALL)
_EDITED = re.compile(r"img_e(\d+)")
_ADJUSTED = re.compile(r"img_o(\d+)")
_VERSION = re.compile(r"(.+)_\d\d(\.[^.]+)", re.DOTALL)  # darktable's sidecar of a second development


class Companion(NamedTuple):
    """A file that belongs to the pictures at the paths of its `owners`: its path and its kind in words."""

    path: str
    kind: str
    owners: frozenset[str]


@dataclass
class Companions:
    """The companions of pictures; each folder is listed once, and each file read once.

    Names are compared without regard to case, and only regular files in the picture's own folder count.
    """

    _folders: dict[str, dict[str, list[Companion]]] = field(default_factory=dict)
    _ids: dict[str, str] = field(default_factory=dict)

    def find_for(self, picture: str) -> list[Companion]:
        """The companions of the picture at this path, in alphabetical order; none where it is not there."""
        folder = os.path.dirname(picture)  # noqa: PTH120 - a Path for each of a million files takes seconds
        if folder not in self._folders:
            self._folders[folder] = _companions_in(folder)
        return self._folders[folder].get(picture, [])

    def equal_of(self, companion: Companion, keeper: str) -> Companion | None:
        """Another file with the same bytes, and of the same kind, that belongs to the picture at `keeper`.

        None if there is none. Raises OSError for a file that cannot be read.
        """
        alike = (
            other
            for other in self._find_alike(companion, keeper)
            if self.id_of(other.path) == self.id_of(companion.path)
        )
        return next(alike, None)

    def _find_alike(self, companion: Companion, keeper: str) -> Iterator[Companion]:
        """The other files of the same size and kind that belong to the picture at `keeper`. Raises OSError."""
        size = os.lstat(companion.path).st_size
        for other in self.find_for(keeper):
            is_alike = other.kind == companion.kind and os.lstat(other.path).st_size == size
            if is_alike and not os.path.samefile(other.path, companion.path):  # noqa: PTH121
                yield other

    def id_of(self, path: str) -> str:
        """The id of a file's content. Raises OSError."""
        if path not in self._ids:
            self._ids[path] = file_id(path)
        return self._ids[path]

    def reason_to_stay(self, going: str, keeper: str, *, by_size: bool = False) -> str | None:
        """The reason why a picture must not go though another is kept: something of it would be lost or left behind.

        That is a film, a sound note, a raw file or an edited version without an equal one beside the picture at
        `keeper`, or a companion that cannot be read. None if there is no reason; sidecars are none. `by_size` takes
        files of one size for equal, and reads none.
        """
        for companion in self.find_for(going):
            if keeper == companion.path or keeper in companion.owners:
                continue  # it stays with the keeper
            its = f"its {companion.kind} {Path(companion.path).name}"
            try:
                if not by_size:
                    self.id_of(companion.path)
                equal = next(self._find_alike(companion, keeper), None) if by_size else self.equal_of(companion, keeper)
                if companion.kind != SIDECAR and equal is None:
                    return f"{its} has no equal beside the picture to keep, {keeper}"
            except OSError as error:
                return f"{its} cannot be read: {error.strerror}"
        return None


def _companions_in(folder: str) -> dict[str, list[Companion]]:
    """The companions in a folder by the path of each picture that they belong to."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    except OSError:
        return {}
    # The pictures that a name, or a name without its ending, or the beginning of a long name stands for.
    by_name, by_stem, by_start = dict[str, set[str]](), dict[str, set[str]](), dict[str, set[str]]()
    others = list[tuple[bool, str, str, str]]()
    edited = list[tuple[str, str]]()
    for name in names:
        low = name.casefold()
        stem, ending = os.path.splitext(low)  # noqa: PTH122
        if ending in SUFFIXES:
            by_name.setdefault(low, set()).add(name)
            by_stem.setdefault(stem, set()).add(name)
            if len(low) > _LONGEST:
                by_start.setdefault(low[:_LONGEST], set()).add(name)
            if match := _EDITED.fullmatch(stem):
                edited.append((name, f"img_{match[1]}"))
        elif ending in _KINDS:
            others.append((_KINDS[ending] == SIDECAR, name, stem, ending))
    found = [(name, EDITED, by_stem.get(stem, set())) for name, stem in edited]
    for is_sidecar, name, stem, ending in sorted(others):  # sidecars last, as a raw file and a film have some too
        if ending == ".json":
            keys = [(by_name, key) for key in _takeout_names(stem)]
            keys += [(by_stem, stem.removesuffix(_SUPPLEMENT))] if stem.endswith(_SUPPLEMENT) else []
            keys += [(by_start, stem)] if len(stem) == _LONGEST else []
        else:
            keys = [(by, key) for key in _owner_names(stem, ending) for by in (by_name, by_stem)]
        owners = next(filter(None, (by.get(key) for by, key in keys)), None)
        if owners:
            found.append((name, _KINDS[ending], owners))
            if not is_sidecar:
                by_name.setdefault(name.casefold(), set()).update(owners)
    companions: dict[str, list[Companion]] = {}
    for name, kind, owners in sorted(found):
        paths = frozenset(os.path.join(folder, owner) for owner in owners)  # noqa: PTH118
        for path in paths:
            companions.setdefault(path, []).append(Companion(os.path.join(folder, name), kind, paths))  # noqa: PTH118
    return companions


def _owner_names(stem: str, ending: str) -> Iterator[str]:
    """The names, or names without their endings, of pictures to which a file may belong, likely ones first."""
    yield stem
    if ending == ".aae" and (match := _ADJUSTED.fullmatch(stem)):
        yield f"img_{match[1]}"
    elif _KINDS[ending] == "film":
        yield stem.removesuffix("_hevc")  # as icloudpd names the film of a live photo
        yield stem + ending  # PXL_1.MP belongs to PXL_1.MP.jpg
    elif ending == ".pp3":
        yield stem.removesuffix(".out")
    elif ending == ".xmp" and (match := _VERSION.fullmatch(stem)):
        yield match[1] + match[2]


def _takeout_names(stem: str) -> Iterator[str]:
    """The names of pictures that a JSON of Google Takeout may describe, by its name without the ending."""
    yield stem
    if match := _TAKEOUT.fullmatch(stem):
        name, ending = os.path.splitext(match[1])  # noqa: PTH122
        yield f"{name}{match[2] or ''}{ending}"
