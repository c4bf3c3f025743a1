"""Pictures of labelled pairs as the released model sees them: read once, and kept in the run's directory."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from diptych_runtime.atomic import replacing, write_atomic
from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.closer_look.verification import describe, verify
from diptych_runtime.decoder import panel_pixels
from diptych_runtime.errors import PictureError
from diptych_runtime.runtime import Runtime
from diptych_training.errors import DataError

TOKENS, LOOKS = "tokens.npz", "looks.json"
_BATCH = 16
_VIEWS = 256  # pictures whose keypoints are kept, 1.3 MB each
_EVIDENCE = TypeAdapter(dict[str, Evidence])


def tokens_of(runtime: Runtime, paths: Sequence[Path], directory: Path, tick: Callable[[int], object]) -> np.ndarray:
    """Tokens float16 (n, N, M, d) of pictures; those that `directory` has of an interrupted run are not read again.

    `tick` is told how many more are done. Raises `DataError`, with all that cannot be read.
    """
    names, (known, done) = list(map(str, paths)), _kept(directory / TOKENS, runtime.revision)
    missing = [path for path in paths if str(path) not in done]
    parts = [known] if len(done) else []
    tick(len(paths) - len(missing))
    failed: list[str] = []
    try:
        with ThreadPoolExecutor(runtime.threads) as pool:
            for start in range(0, len(missing), _BATCH):
                batch = missing[start : start + _BATCH]
                read = list(pool.map(lambda path: _pixels(path, runtime.panel_size), batch))
                failed += [str(one) for one in read if isinstance(one, PictureError)]
                pixels = [one for one in read if not isinstance(one, PictureError)]
                if pixels and not failed:
                    parts.append(runtime.encode(np.stack(pixels)).tokens)
                    done += map(str, batch)
                tick(len(batch))
    finally:
        if parts:
            _keep(directory / TOKENS, runtime.revision, done, np.concatenate(parts))
    if failed:
        shown = "\n".join(sorted(failed)[:5])
        raise DataError(f"{len(failed)} of {len(paths)} pictures cannot be read; mend or remove them:\n{shown}")
    place = {name: number for number, name in enumerate(done)}
    return np.concatenate(parts)[[place[name] for name in names]]


def look_closer(
    paths: Sequence[Path], pairs: np.ndarray, directory: Path, threads: int, tick: Callable[[int], object]
) -> list[Evidence]:
    """The evidence of closer looks at pairs int64 (P, 2) of pictures; kept as `tokens_of` keeps tokens."""
    file = directory / LOOKS
    seen = _EVIDENCE.validate_json(file.read_bytes()) if file.is_file() else {}
    keys = [json.dumps([str(paths[a]), str(paths[b])]) for a, b in pairs.tolist()]
    missing = [(key, pair) for key, pair in dict(zip(keys, pairs.tolist(), strict=True)).items() if key not in seen]
    tick(len(keys) - len(missing))
    described = lru_cache(_VIEWS)(lambda place: describe(paths[place]))
    try:
        with ThreadPoolExecutor(threads) as pool:
            for start in range(0, len(missing), _BATCH):
                batch = missing[start : start + _BATCH]
                found = pool.map(lambda one: verify(described(one[1][0]), described(one[1][1])), batch)
                seen.update({key: evidence for (key, _), evidence in zip(batch, found, strict=True)})
                tick(len(batch))
    finally:
        if missing:
            write_atomic(file, json.dumps({key: asdict(one) for key, one in seen.items()}).encode())
    return [seen[key] for key in keys]


def _pixels(path: Path, size: int) -> np.ndarray | PictureError:
    try:
        return panel_pixels(path, size)
    except (PictureError, OSError) as error:
        return PictureError(f"{path}: {error}")


def _kept(path: Path, revision: str) -> tuple[np.ndarray, list[str]]:
    if path.is_file():
        with np.load(path) as kept:
            if str(kept["revision"]) == revision:
                return kept["tokens"], kept["names"].tolist()
    return np.empty(0), []


def _keep(path: Path, revision: str, names: Sequence[str], tokens: np.ndarray) -> None:
    with replacing(path) as stream:
        np.savez(stream, revision=revision, names=np.array(names), tokens=tokens)
