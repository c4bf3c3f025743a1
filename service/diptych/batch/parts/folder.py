"""The folder of a job: begun, or found as a stopped run left it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

import numpy as np

from diptych.batch.parts.manifest import (
    LOCK,
    MANIFEST,
    NAMES,
    PAIRS,
    JobSpec,
    Manifest,
    is_ours,
    list_differences,
    part_sizes,
)
from diptych.batch.parts.picture_names import PictureNames
from diptych.batch.tables.read import SIDES, hash_file, open_table, read_texts
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


def specify_job(
    table: Path,
    model: str,
    sides: tuple[str, str] = SIDES,
    question: str = THING,
    *,
    closer_look: bool = True,
    base: Path | None = None,
) -> JobSpec:
    """Look at the table, its pictures below `base`, and the model. Raises BatchError and ArtifactError."""
    folder = (base or table.parent).absolute()
    found = Model.load(find_artifact(model))
    asked = resolve_question(question, found.questions, found.name)
    return JobSpec(
        table=str(table.absolute()),
        sha256=hash_file(table),
        stamps=_digest_stamps(table, sides, folder),
        sides=sides,
        folder=str(folder),
        model=found.revision,
        question=asked,
        closer_look=closer_look,
        token_shape=found.token_shape,
    )


def folder_of(output: Path) -> Path:
    """The folder of unfinished work until the output is there: `OUT.parts` beside it, on the same disk."""
    return output.with_name(output.name + ".parts")


@contextmanager
def open_job(spec: JobSpec, folder: Path, *, resume: bool, force: bool, bar: Bar) -> Iterator[Manifest]:
    """Lock the folder of a new run, or with `resume` of a stopped one; `bar` is shown while the table is read.

    Raises BatchError for a stopped run without `resume` or `force`, and for one of another table or model; StoreError
    if another process works on it.
    """
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        reason = f"({error.strerror}); name an output in a folder that can be written"
        raise BatchError(f"{folder} cannot be made {reason}") from None
    _check_is_ours(folder)
    lock = WriterLock(folder / LOCK, f"the job {folder}")
    try:
        yield _begin_or_resume(spec, folder, resume=resume, force=force, bar=bar)
    finally:
        lock.release()


def remove_folder(folder: Path) -> None:
    """Take the folder of a job away, its manifest first: what is left is no job."""
    (folder / MANIFEST).unlink(missing_ok=True)
    # A worker of a killed run may still be at a part, and put it there meanwhile.
    with suppress(OSError):
        _remove_files(folder, is_ours)
        folder.rmdir()


@contextmanager
def explain_disk_errors(folder: Path, again: str) -> Iterator[None]:
    """Turn an OSError into a BatchError with the file, the reason, and what to do `again` once that is mended."""
    try:
        yield
    except OSError as error:
        raise BatchError(
            f"{error.filename or folder}: {error.strerror or error}; what is done is kept, so mend that and {again}"
        ) from None


def _begin_or_resume(spec: JobSpec, folder: Path, *, resume: bool, force: bool, bar: Bar) -> Manifest:
    try:
        found = None if force and not resume else Manifest.load(folder)
    except FileNotFoundError:
        found = None
    if found is None:
        _remove_files(folder, lambda name: name != LOCK and is_ours(name))
        try:
            return _survey_table(spec, folder, bar)
        except BaseException:
            remove_folder(folder)
            raise
    if not resume:
        stopped = f"a run into {folder.with_suffix('')} was stopped before its end"
        raise BatchError(f"{stopped}; go on with --resume, or begin anew with --force")
    for what, then, now in list_differences(found.identity, spec.identity):
        other = f"{what} is not the one this run began with (then {then}, now {now})"
        raise BatchError(f"{other}; go on with that one, or begin anew with --force")
    _remove_files(folder, lambda name: name.endswith(".tmp"))
    return found


def _check_is_ours(folder: Path) -> None:
    """Check that the folder holds what jobs write, and no link or folder, which would be written to or be lost."""
    others = [path for path in folder.iterdir() if not is_ours(path.name) or path.is_symlink() or path.is_dir()]
    if folder.is_symlink():
        raise BatchError(f"{folder} is a link, and expected was a folder of unfinished work; take the link away")
    if others:
        raise BatchError(f"{folder} holds {others[0].name}, not of an unfinished run; move it, or name another output")


def _remove_files(folder: Path, goes: Callable[[str], bool]) -> None:
    for path in folder.iterdir():
        if goes(path.name):
            path.unlink(missing_ok=True)


def _digest_stamps(table: Path, sides: tuple[str, str], folder: Path) -> str:
    """A digest of the size and the time of the picture in every cell; memory does not grow with their number."""
    found = hashlib.sha256()
    stamp = lru_cache(_REMEMBERED)(lambda name: FileStamp.of(os.path.join(folder, name)))  # noqa: PTH118 - for each cell
    with open_table(str(table), sides) as opened:
        for batch in opened.batches:
            for side in sides:
                found.update(repr([stamp(name) for name in read_texts(batch, side)]).encode())
    return found.hexdigest()[:16]


def _survey_table(spec: JobSpec, folder: Path, bar: Bar) -> Manifest:
    """Read the table once: pictures get places, and pairs become two of these."""
    rows = 0
    with (
        open_table(spec.table, spec.sides) as table,
        closing(PictureNames(folder / NAMES)) as names,
        (folder / PAIRS).open("wb") as pairs,
        bar("row", None, 0) as tick,
    ):
        for batch in table.batches:
            places = [list(map(names.place, read_texts(batch, side))) for side in spec.sides]
            pairs.write(np.array(places, np.uint32).T.tobytes())
            rows += len(batch)
            tick(len(batch))
        names.commit()
        pictures = len(names)
        pairs.flush()
        os.fsync(pairs.fileno())
    pictures_part, pairs_part = part_sizes(pictures, rows, closer_look=spec.closer_look)
    manifest = Manifest(
        **vars(spec),
        rows=rows,
        columns=tuple(table.columns),
        pictures=pictures,
        pictures_part=pictures_part,
        pairs_part=pairs_part,
        id=uuid4().hex,
    )
    manifest.save(folder)
    sync_folder(folder.parent)
    return manifest
