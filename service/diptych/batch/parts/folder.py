"""The folder of a job: begun, or found as a stopped run left it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from diptych.batch.parts.manifest import (
    LOCK,
    MANIFEST,
    NAMES,
    PAIRS,
    Manifest,
    differences,
    identity,
    is_ours,
    new_id,
    part_sizes,
)
from diptych.batch.parts.picture_names import PictureNames
from diptych.batch.tables.read import SIDES, digest, open_table
from diptych.errors import BatchError
from diptych.store.lock import WriterLock
from diptych.store.records import FileStamp
from diptych_runtime.atomic import sync_folder
from diptych_runtime.calibration.questions import THING, resolve_question
from diptych_runtime.manifest import Manifest as Model
from diptych_runtime.models import find_artifact

_REMEMBERED = 2**17

Tick = Callable[[int], object]
Bar = Callable[[str, int | None, int], AbstractContextManager[Tick]]  # of a unit, of how many, of which some are done


@dataclass(frozen=True)
class JobSpec:
    """The specification of a job: a table, by the columns `sides`, with a model that is asked one of its questions, and
    whether pairs get the closer looks that they deserve. `stamps` is a digest of the sizes and times of its pictures.
    """

    table: Path
    sides: tuple[str, str]
    sha256: str
    stamps: str
    model: Model
    question: str
    closer_look: bool = True

    @classmethod
    def of(
        cls,
        table: Path,
        model: str,
        sides: tuple[str, str] = SIDES,
        question: str = THING,
        *,
        closer_look: bool = True,
    ) -> JobSpec:
        """Look at the table and the model. Raises BatchError and ArtifactError."""
        found = Model.load(find_artifact(model))
        asked = resolve_question(question, found.questions, found.name)
        return cls(table, sides, digest(table), _stamps(table, sides), found, asked, closer_look)

    @property
    def folder(self) -> str:
        """The folder that relative paths in the table start from."""
        return str(self.table.absolute().parent)

    @property
    def identity(self) -> dict[str, str]:
        """The values that make two runs the same job, as `Manifest.identity` has them, under names for people."""
        return identity(
            *(self.sha256, self.stamps, self.model.revision, self.question, self.folder, self.sides),
            closer_look=self.closer_look,
        )


def folder_of(output: Path) -> Path:
    """The folder of unfinished work until the output is there: `OUT.parts` beside it, on the same disk."""
    return output.with_name(output.name + ".parts")


@contextmanager
def opened(order: JobSpec, output: Path, *, resume: bool, force: bool, bar: Bar) -> Iterator[Manifest]:
    """Take hold of the folder: of a new run, or with `resume` of one that was stopped. `bar` is shown while it is read.

    Raises BatchError if there is a stopped run and neither `resume` nor `force` says what to do with it, and if it
    belongs to another table or model; StoreError if another process works on it.
    """
    folder = folder_of(output)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise BatchError(
            f"{folder} cannot be made ({error.strerror}); name an output in a folder that can be written"
        ) from None
    _check_is_ours(folder)
    lock = WriterLock(folder / LOCK, f"the job {folder}")
    try:
        yield _begun(order, output, resume=resume, force=force, bar=bar)
    finally:
        lock.release()


def remove(folder: Path) -> None:
    """Take a folder away that is not needed any more, its manifest first: what is left is no job."""
    (folder / MANIFEST).unlink(missing_ok=True)
    # A worker of a killed run may still be at a part, and put it there meanwhile.
    with suppress(OSError):
        _clear(folder, is_ours)
        folder.rmdir()


def _begun(order: JobSpec, output: Path, *, resume: bool, force: bool, bar: Bar) -> Manifest:
    folder = folder_of(output)
    try:
        found = None if force and not resume else Manifest.load(folder)
    except FileNotFoundError:
        found = None
    if found is None:
        _clear(folder, lambda name: name != LOCK and is_ours(name))
        try:
            return _survey(order, folder, bar)
        except BaseException:
            remove(folder)
            raise
    if not resume:
        raise BatchError(
            f"a run into {output} was stopped before its end; go on with --resume, or begin anew with --force"
        )
    for what, then, now in differences(found.identity, order.identity):
        raise BatchError(
            f"{what} is not the one this run began with (then {then}, now {now}); go on with that one, or begin anew "
            "with --force"
        )
    _clear(folder, lambda name: name.endswith(".tmp"))
    return found


def _check_is_ours(folder: Path) -> None:
    """Check that the folder holds what jobs write, and no link or folder, which would be written to or be lost."""
    others = [path for path in folder.iterdir() if not is_ours(path.name) or path.is_symlink() or path.is_dir()]
    if folder.is_symlink():
        raise BatchError(f"{folder} is a link, and expected was a folder of unfinished work; take the link away")
    if others:
        raise BatchError(
            f"{folder} holds what is not of an unfinished run: {others[0].name}; move it away, or name another output"
        )


def _clear(folder: Path, goes: Callable[[str], bool]) -> None:
    for path in folder.iterdir():
        if goes(path.name):
            path.unlink(missing_ok=True)


def _stamps(table: Path, sides: tuple[str, str]) -> str:
    """A digest of the size and the time of the picture in every cell; memory does not grow with their number."""
    folder, found = table.absolute().parent, hashlib.sha256()
    stamp = lru_cache(_REMEMBERED)(lambda name: FileStamp.of(os.path.join(folder, name)))  # noqa: PTH118 - for each cell
    with open_table(str(table), sides) as opened:
        for batch in opened.batches:
            for side in sides:
                found.update(repr([stamp(name) for name in batch.texts(side)]).encode())
    return found.hexdigest()[:16]


def _survey(order: JobSpec, folder: Path, bar: Bar) -> Manifest:
    """Read the table once: every distinct picture gets a place, and every pair becomes two of these."""
    rows = 0
    with (
        open_table(str(order.table), order.sides) as table,
        closing(PictureNames(folder / NAMES)) as names,
        (folder / PAIRS).open("wb") as pairs,
        bar("row", None, 0) as tick,
    ):
        for batch in table.batches:
            places = [list(map(names.place, batch.texts(side))) for side in order.sides]
            pairs.write(np.array(places, np.uint32).T.tobytes())
            rows += len(batch)
            tick(len(batch))
        names.finish()
        pictures = len(names)
        pairs.flush()
        os.fsync(pairs.fileno())
    pictures_part, pairs_part = part_sizes(pictures, rows, closer_look=order.closer_look)
    manifest = Manifest(
        table=str(order.table.absolute()),
        sha256=order.sha256,
        stamps=order.stamps,
        rows=rows,
        columns=tuple(table.columns),
        sides=order.sides,
        folder=order.folder,
        model=order.model.revision,
        question=order.question,
        closer_look=order.closer_look,
        token_shape=order.model.token_shape,
        pictures=pictures,
        pictures_part=pictures_part,
        pairs_part=pairs_part,
        id=new_id(),
    )
    manifest.save(folder)
    sync_folder(folder.parent)
    return manifest
