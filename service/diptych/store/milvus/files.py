"""The files of pictures in a folder that all services of a collection share; Milvus is no place for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from diptych.errors import StoreError
from diptych_runtime.atomic import replacing


class Originals:
    """Files by the id of their picture, which is a digest of their content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, id: str, data: bytes) -> None:
        """Have the file on the disk when this returns. Raises StoreError."""
        path = self._path(id)
        if path.is_file():
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path, path.with_name(f".{id}.{uuid4().hex}")) as file:  # others may be at the same one
                file.write(data)
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror}; is the folder shared with us?") from None

    def read(self, id: str) -> bytes | None:
        """The bytes of a file, unchecked; None if it is not there."""
        try:
            return self._path(id).read_bytes()
        except OSError:
            return None

    def drop(self, ids: Sequence[str], wanted: Callable[[Sequence[str]], set[str]]) -> None:
        """Remove files, but for those whose ids are `wanted` when it is asked, with the files out of their place.

        Who adds a picture writes its file again after its row: either they find it gone, or the row is seen here.
        """
        aside = {}
        for id in ids:
            away = self._path(id).with_name(f".{id}.{uuid4().hex}")
            with suppress(OSError):
                self._path(id).rename(away)
                aside[id] = away
        back = set(aside)  # all of them, if nobody answers
        try:
            if aside:
                back = wanted(list(aside))
        finally:
            for id, away in aside.items():
                with suppress(OSError):
                    away.replace(self._path(id)) if id in back else away.unlink()

    def _path(self, id: str) -> Path:
        return self.folder / id[:2] / id
