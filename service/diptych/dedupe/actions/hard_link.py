"""A hard link that takes the place of an exact copy: the name goes on showing the same bytes, kept once on the disk.

The link is made under a name of its own beside the file first, so that where links cannot be made nothing is moved; and
whatever happens, no name is taken from a file that is not known to be whole elsewhere.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from diptych.dedupe.actions.move_file import ChangedError, change_of, give_back, kept_beside, move_file, private_beside
from diptych_runtime.atomic import sync_folder

LINK = ".diptych-link"


def move_and_link(source: Path, target: Path, id: str, keeper: Path) -> None:
    """Move a file as `move_file` does, and leave a hard link to its `keeper`, a file of the same bytes, in its place.

    Raises ChangedError and OSError as `move_file` does, and ChangedError where there can be no such link, or where it
    would have another owner or other permissions; then the file is back at `source`, if nothing else is there by now.
    """
    link = private_beside(source, LINK)
    try:
        os.link(keeper, link, follow_symlinks=False)
    except OSError as error:
        _check_keeper(keeper, keeper, id)
        where = "lies on another file system" if error.errno == errno.EXDEV else f"takes none: {error.strerror}"
        raise ChangedError(f"cannot become a hard link, as the one to keep, {keeper}, {where}") from None
    try:
        _check_link(link, source, id, keeper)
        move_file(source, target, id)
        _place_link(link, source, target, id)
    finally:
        remove_link(link, keeper, id, source)


def put_back_over_link(source: Path, target: Path, id: str, keeper: Path) -> bool:
    """Move a file from `target` back to `source`, where a link was left in its place; False if something else is there.

    Raises ChangedError and OSError as `move_file` does, and ChangedError if something else has the name that a killed
    run gave a link; then the link is where it was.
    """
    for link in links_of(source):
        if not is_redundant(link, keeper, id) and not give_back(link, source):
            raise ChangedError(f"stays, as {link} is another file by now; give that its name back first")
    if os.path.lexists(source):
        link = private_beside(source, LINK)
        source.rename(link)  # so that nobody saves anything under the name that is taken away
        if not is_redundant(link, keeper, id):
            if not give_back(link, source):
                raise ChangedError(f"stays, as {source} was saved anew meanwhile; what it was before is {link}")
            return False
        try:
            move_file(target, source, id)
        except BaseException:
            give_back(link, source)
            raise
    else:
        move_file(target, source, id)
    clear_links(source, id, keeper)
    return True


def clear_links(source: Path, id: str, keeper: Path) -> None:
    """Remove the links beside a file that a killed run left, where the file is whole."""
    for link in links_of(source):
        remove_link(link, keeper, id, source)


def links_of(path: Path) -> list[Path]:
    """The private names of links to be put at this path, or that were taken from it, when a run was killed."""
    return kept_beside(path, LINK)


def is_redundant(link: Path, keeper: Path, id: str) -> bool:
    """True if a link has the picture's bytes or is its keeper: it can go once the picture is whole at its place."""
    with suppress(OSError):
        if os.path.samestat(link.lstat(), keeper.lstat()):
            return True
    return change_of(link, id) is None


def remove_link(link: Path, keeper: Path, id: str, source: Path) -> None:
    """Remove a link's private name where the bytes have another; else it stays, and the next run names it."""
    with suppress(FileNotFoundError):
        kept = os.path.samestat(link.lstat(), keeper.lstat()) if os.path.lexists(keeper) else False
        if kept or (change_of(source, id) is None and change_of(link, id) is None):
            link.unlink()
            sync_folder(link.parent)


def _check_link(link: Path, source: Path, id: str, keeper: Path) -> None:
    """Raise ChangedError unless the link shows the source's bytes to the same people. Raises OSError."""
    _check_keeper(link, keeper, id)
    before, after = source.lstat(), link.lstat()
    if os.path.samestat(before, after):
        raise ChangedError(f"is the same file as the one to keep, {keeper}, already")
    if _access_rights(source, before) != _access_rights(link, after):
        raise ChangedError(
            f"has another owner or other permissions than the one to keep, {keeper}, which a link shares"
        )


def _check_keeper(path: Path, keeper: Path, id: str) -> None:
    if (reason := change_of(path, id)) is not None:
        raise ChangedError(f"stays, as the one to keep, {keeper}, {reason}")


def _access_rights(path: Path, status: os.stat_result) -> tuple[object, ...]:
    acl = b""
    with suppress(OSError, AttributeError):  # AttributeError: no extended attributes on this system
        acl = os.getxattr(path, "system.posix_acl_access", follow_symlinks=False)
    return status.st_mode, status.st_uid, status.st_gid, acl


def _place_link(link: Path, source: Path, target: Path, id: str) -> None:
    """Give the link the name of the file that was moved, or else that file."""
    try:
        os.link(link, source, follow_symlinks=False)
        sync_folder(source.parent)
    except BaseException as error:
        if isinstance(error, FileExistsError):
            raise ChangedError(f"is {target} now, as another file has come into its place") from None
        if not os.path.lexists(source):
            try:
                move_file(target, source, id)
            except (ChangedError, OSError) as failed:
                raise ChangedError(f"is {target} now, and cannot be put back: {failed}") from error
            if isinstance(error, OSError):
                raise ChangedError(f"stays, as no hard link can take its place: {error.strerror}") from None
        raise
