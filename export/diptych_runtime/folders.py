"""The walk through folders of pictures, which leaves out hidden files, trash cans, snapshots and thumbnails."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property
from pathlib import Path
from unicodedata import normalize

from diptych_runtime.decoder import SUFFIXES

# Names of folders, in lower case, for what was deleted, saved before it changed, or made smaller. Many more are hidden.
_SYSTEM_FOLDERS = frozenset(
    {"$recycle.bin", "recycler", "system volume information", "lost+found", "found.000"}
    | {"#recycle", "#snapshot", "~snapshot", "@recycle", "@recently-snapshot", "@sharebin", "@eadir", "@__thumb"}
    | {"network trash folder", "temporary items", "__macosx"}
)
_PREVIEWS = ".lrdata"  # of Lightroom
# Within a library of a photo program, the folders of what it made of the pictures.
_LIBRARY = re.compile(r"\.(photoslibrary|photolibrary|migratedphotolibrary|aplibrary)(/|$)", re.IGNORECASE)
_MADE = frozenset({"derivatives", "resources", "previews", "thumbnails", "proxies"})

HIDDEN_FILES, EXCLUDED = "hidden files", "--exclude"


@dataclass(frozen=True)
class Exclusion:
    """The files and folders that a walk leaves out: what matches one of the `globs`, and, without `include_hidden`,
    whatever is hidden or in a trash can, a snapshot or a folder of thumbnails.

    A glob is one of `fnmatch`, in which `*` also matches `/`. It is of the name of a file or folder at any depth, or of
    its path below the folder that was named, with or without a `/` before it; one that ends in `/` is of folders alone.
    """

    globs: tuple[str, ...] = ()
    include_hidden: bool = False

    def exclusion_reason(self, name: str, place: str, top: str, *, is_folder: bool) -> str:
        """The reason why an entry of the folder `place` below `top` is excluded, or "".

        It is the name of the folder, `HIDDEN_FILES` or `EXCLUDED`.
        """
        if not self.include_hidden:
            if name.startswith("."):
                return name if is_folder else HIDDEN_FILES
            if is_folder and _is_of_system(name.lower(), place):
                return name
        return EXCLUDED if self.globs and self._matches(name, place, top, is_folder=is_folder) else ""

    def leaves_out(self, path: str, top: str) -> bool:
        """True for a file that a walk from `top` leaves out, itself or one of the folders that it lies in."""
        place = top = top.rstrip("/")
        for name in path[len(top) + 1 :].split("/"):
            is_folder = len(place) + 1 + len(name) < len(path)
            if self.exclusion_reason(name, place, top, is_folder=is_folder):
                return True
            place = f"{place}/{name}"
        return False

    def _matches(self, name: str, place: str, top: str, *, is_folder: bool) -> bool:
        below = f"{place[len(top) :]}/{name}".lstrip("/")
        texts = [normalize("NFC", text) for text in (name, below, f"/{below}")]
        if is_folder:
            texts += [f"{text}/" for text in texts]
        return any(map(self._pattern.match, texts))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(translate(normalize("NFC", glob)) for glob in self.globs))


DEFAULT = Exclusion()


def _is_of_system(folder: str, place: str) -> bool:
    made = folder in _MADE and _LIBRARY.search(os.path.abspath(place))  # noqa: PTH100 - of a relative folder too
    return folder in _SYSTEM_FOLDERS or folder.endswith(_PREVIEWS) or bool(made)


def walk_folder(
    top: str | os.PathLike[str], on_error: Callable[[OSError], object] = lambda error: None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each folder below `top`, itself first, with the names of its subfolders and of its files, in alphabetical order.

    As `os.walk`, but without recursion, so that folders may be nested by the thousand. Subfolders that are taken from
    the list are not entered, nor are links. `on_error` gets the error of a folder that cannot be listed.
    """
    top = os.fspath(top)
    pending = [top]
    while pending:
        place = pending.pop()
        if place is not top and os.path.islink(place):  # noqa: PTH114 - a Path for each folder takes seconds
            continue  # it was none when its parent was listed
        folders: list[str] = []
        files: list[str] = []
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    if not _leads_to_folder(entry):
                        files.append(entry.name)
                    elif not entry.is_symlink():
                        folders.append(entry.name)
        except OSError as error:
            on_error(error)
            continue
        folders.sort()
        files.sort()
        yield place, folders, files
        before = os.path.join(place, "")  # noqa: PTH118
        pending += [before + name for name in reversed(folders)]


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def pictures_below(folder: Path) -> list[Path]:
    """The picture files (by ending) below a folder that no walk leaves out, folder by folder."""
    found = []
    top = os.fspath(folder)
    for place, folders, files in walk_folder(top):
        folders[:] = [name for name in folders if not DEFAULT.exclusion_reason(name, place, top, is_folder=True)]
        found += [
            Path(place, name)
            for name in files
            if Path(name).suffix.lower() in SUFFIXES and not DEFAULT.exclusion_reason(name, place, top, is_folder=False)
        ]
    return found
