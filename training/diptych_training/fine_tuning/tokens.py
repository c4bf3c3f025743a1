"""Tokens of the pictures of labelled pairs: read once, and kept in the folder of the run."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from diptych_runtime.atomic import replacing_stream
from diptych_runtime.decoder import panel_pixels
from diptych_runtime.errors import PictureError
from diptych_runtime.runtime import Runtime
from diptych_training.errors import DataError

TOKENS = "tokens.npz"
_BATCH = 16


def read_tokens(runtime: Runtime, paths: Sequence[Path], directory: Path, tick: Callable[[int], object]) -> np.ndarray:
    """Tokens float16 (n, N, M, d) of pictures; those that `directory` has of an interrupted run are not read again.

    `tick` is told how many more are done. Raises `DataError`, with all that cannot be read.
    """
    names, (known, done) = list(map(str, paths)), _load_tokens(directory / TOKENS, runtime.revision)
    missing = [path for path in paths if str(path) not in done]
    parts = [known] if len(done) else []
    tick(len(paths) - len(missing))
    failed: list[str] = []
    try:
        with ThreadPoolExecutor(runtime.threads) as pool:
            for start in range(0, len(missing), _BATCH):
                batch = missing[start : start + _BATCH]
                read = list(pool.map(lambda path: _read_panel(path, runtime.panel_size), batch))
                failed += [str(one) for one in read if isinstance(one, PictureError)]
                pixels = [one for one in read if not isinstance(one, PictureError)]
                if pixels and not failed:
                    parts.append(runtime.encode(np.stack(pixels)).tokens)
                    done += map(str, batch)
                tick(len(batch))
    finally:
        if parts:
            _save_tokens(directory / TOKENS, runtime.revision, done, np.concatenate(parts))
    if failed:
        shown = "\n".join(sorted(failed)[:5])
        raise DataError(f"{len(failed)} of {len(paths)} pictures cannot be read; mend or remove them:\n{shown}")
    place = {name: number for number, name in enumerate(done)}
    return np.concatenate(parts)[[place[name] for name in names]]


def _read_panel(path: Path, size: int) -> np.ndarray | PictureError:
    try:
        return panel_pixels(path, size)
    except (PictureError, OSError) as error:
        return PictureError(f"{path}: {error}")


def _load_tokens(path: Path, revision: str) -> tuple[np.ndarray, list[str]]:
    if path.is_file():
        with np.load(path) as kept:
            if str(kept["revision"]) == revision:
                return kept["tokens"], kept["names"].tolist()
    return np.empty(0), []


def _save_tokens(path: Path, revision: str, names: Sequence[str], tokens: np.ndarray) -> None:
    with replacing_stream(path) as stream:
        np.savez(stream, revision=revision, names=np.array(names), tokens=tokens)
