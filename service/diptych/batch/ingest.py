"""Picture files turned into features by workers, for a collection that one process alone writes to.

A worker leaves a part, whole or not at all, in a folder beside the collection; the process takes it over, and then the
part goes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import numpy as np

from diptych.batch.parts.folder import explain_disk_errors
from diptych.batch.parts.manifest import NAMES, Step, write_part
from diptych.batch.parts.picture_names import PictureNames, describe_part, read_names
from diptych.batch.workers.executor import RetryQueue, WorkerPool
from diptych.batch.workers.tasks import WorkerConfig, load_scorer, make_unseen_error
from diptych.collection.collection import Collection
from diptych.collection.ingest import (
    BATCH_BYTES,
    Added,
    AlreadyStored,
    Incoming,
    KnownIds,
    collect_features,
    make_batches,
    read_new,
)
from diptych.errors import BatchError
from diptych.pictures.content import Content, picture_id, read_bytes
from diptych.pictures.file_info import Picture, picture_of, read_file
from diptych.pictures.walk import check_name, full_path
from diptych.scoring.scorer import Scorer
from diptych.scoring.threads import map_pictures
from diptych.store.records import FileStamp
from diptych.store.sqlite.backend import SqliteBackend
from diptych_runtime.atomic import write_atomic
from diptych_runtime.errors import PictureError

ORDER, KNOWN = "order.json", "known.ids"
PARTS = "embedding.parts"  # the folder beside a collection
_FACTS = ("sha256", "media_type", "width", "height", "frames", "is_damaged")  # of a content, in a part
_SIZE = 256  # files in a part: seconds of work on one processor


@dataclass(frozen=True)
class Found:
    """A picture file: what is known of it without decoding, and its content as a collection takes it in."""

    picture: Picture
    content: Content | AlreadyStored


def _load_order(job: Path) -> tuple[str, Step]:
    """The revision of a job's model, and its step. Raises BatchError where it is not to be seen."""
    try:
        order = json.loads((job / ORDER).read_bytes())
    except FileNotFoundError:
        raise make_unseen_error(job / ORDER, "the collection") from None
    return order["model"], Step("files", order["count"], order["size"])


@lru_cache(1)
def _load_known(job: Path) -> np.ndarray:
    """The ids, "S16" and sorted, of the pictures that the collection had when the job began."""
    return np.fromfile(job / KNOWN, "S16")


def _select_known(ids: Sequence[str], *, job: Path) -> set[str]:
    known = _load_known(job)
    keys = np.array([bytes.fromhex(id) for id in ids], "S16")
    found = np.searchsorted(known, keys, "left") < np.searchsorted(known, keys, "right")
    return {id for id, there in zip(ids, found.tolist(), strict=True) if there}


def embed_with_workers(
    collection: Collection, paths: Iterable[str], workers: WorkerPool | None
) -> Iterator[dict[str, Found | None]]:
    """Embed picture files with workers; yields their results part by part.

    The result of an unreadable file is None, and of all without workers; contents that the collection has are not
    encoded. Stop at any time: a part is lost unless the next one was asked for. Raises BatchError.
    """
    folder, paths = collection.directory / PARTS, list(dict.fromkeys(paths))
    with explain_disk_errors(folder, "run the same command again"):
        shutil.rmtree(folder, ignore_errors=True)  # what the workers of a killed run left
        if workers is None or not paths:
            yield dict.fromkeys(paths)
            return
        # With a name of its own: a worker of a killed run may still put a part into another folder.
        job = folder / uuid4().hex
        try:
            step = _begin_job(job, paths, collection)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        attempts = RetryQueue(range(step.parts), partial(describe_part, step, names=job / NAMES), workers.say)
        following, done = 0, set[int]()
        for number in workers.engine.run(partial(embed_part, folder=str(job), config=workers.config), attempts):
            done.add(number)
            while following in done:
                part = job / step.part_file(following)
                yield _load_part(part)
                part.unlink()
                following += 1
        shutil.rmtree(folder, ignore_errors=True)


def add_with_workers(
    collection: Collection,
    paths: Iterable[Path],
    workers: WorkerPool | None,
    *,
    on_error: Callable[[Path, PictureError], object],
    by_path: Mapping[str, dict[str, Any]] = MappingProxyType({}),
    keep_originals: bool = False,
    dry_run: bool = False,
) -> Iterator[Added]:
    """`add_in_batches` with workers: what is yielded is on the disk, and running it again takes up the rest.

    A dry run, and a collection on Milvus, to which every machine writes, have no workers. Files that no worker could
    read are read by this process, which refuses them with the reason or adds them.
    """
    shared = isinstance(collection.backend, SqliteBackend) and not dry_run
    if shared:
        shutil.rmtree(collection.directory / PARTS, ignore_errors=True)  # what the workers of a killed run left
    if workers is None or not shared:
        yield from collection.add_in_batches(
            paths, on_error=on_error, by_path=by_path, keep_originals=keep_originals, dry_run=dry_run
        )
        return
    if keep_originals:
        collection.backend.check_keeping()
    named: dict[str, list[Path]] = {}
    for path in paths:
        named.setdefault(str(path.absolute()), []).append(path)  # links are left
    unread: list[Path] = []
    for part in embed_with_workers(collection, named, workers):
        arrivals: list[Incoming] = []
        held = 0
        for path, found in part.items():
            if found is not None and keep_originals:
                found, held = _attach_bytes(path, found, collection.scorer), held + found.picture.bytes
            if found is None:
                unread += named[path]
                continue
            own = by_path.get(full_path(path))
            stamp = FileStamp(found.picture.bytes, found.picture.modified)
            arrivals += [Incoming(found.content, full_path(path), own or {}, own is not None, stamp)] * len(named[path])
            if held > BATCH_BYTES:
                yield from collection.commit(arrivals)
                arrivals, held = [], 0
        if arrivals:
            yield from collection.commit(arrivals)
    blind = 0
    for added in collection.add_in_batches(unread, on_error=on_error, by_path=by_path, keep_originals=keep_originals):
        blind += 1
        yield added
    workers.say_blind(blind)


def embed_part(number: int, *, folder: str, config: WorkerConfig) -> None:
    """Read and encode the files of a part, and write the results."""
    job = Path(folder)
    model, step = _load_order(job)
    scorer = load_scorer(config, model)
    read = partial(_read_picture, scorer=scorer, known_ids=partial(_select_known, job=job))
    results: dict[str, Found | None] = {}
    for batch in make_batches(map(Path, read_names(job / NAMES, range(*step.part_bounds(number))))):
        looked = map_pictures(read, batch, scorer.runtime.threads)
        seen = [None if isinstance(found, PictureError) else found for found in looked]
        contents = [found.content for found in seen if found is not None]
        fresh = {content.id: content for content in contents if isinstance(content, Content)}
        features = collect_features(list(fresh.values()), scorer)
        made = {id: replace(fresh[id], features=both) for id, both in zip(fresh, features, strict=True)}
        for path, found in zip(map(str, batch), seen, strict=True):
            results[path] = found and replace(found, content=made.get(found.content.id, found.content))
    write_part(job / step.part_file(number), _to_bytes(results))


def _read_picture(path: Path, scorer: Scorer, known_ids: KnownIds) -> Found:
    check_name(str(path))
    status, data = read_file(path, scorer.limits)
    content = read_new(data, known_ids, scorer, name=str(path), keep=False)
    return Found(picture_of(content.id, path, status, data), content)


def _begin_job(job: Path, paths: list[str], collection: Collection) -> Step:
    job.mkdir(parents=True)
    with closing(PictureNames(job / NAMES)) as names:
        for path in paths:
            names.place(path)
        names.commit()
    ids = [bytes.fromhex(id) for id in collection.store.ids()]
    write_atomic(job / KNOWN, np.sort(np.array(ids, "S16")).tobytes())
    order = {"model": collection.scorer.runtime.revision, "count": len(paths), "size": _SIZE}
    write_atomic(job / ORDER, json.dumps(order).encode())
    return _load_order(job)[1]


def _attach_bytes(path: str, found: Found, scorer: Scorer) -> Found | None:
    """Add the file's bytes to its features; None if the worker saw other bytes."""
    try:
        data = read_bytes(path, scorer.limits)
    except PictureError:
        return None
    if picture_id(hashlib.sha256(data).hexdigest()) != found.picture.id:
        return None
    return replace(found, content=replace(found.content, data=data))


def _to_bytes(results: Mapping[str, Found | None]) -> bytes:
    """The results as JSON, with the features as they are stored, in base64."""
    lines = []
    for path, found in results.items():
        line: dict[str, Any] = {"path": path}
        if found is not None:
            line["picture"] = asdict(found.picture)
            if isinstance(content := found.content, Content):
                features = [b64encode(one).decode() for one in content.features or ()]
                line["content"] = {name: getattr(content, name) for name in _FACTS} | {"features": features}
        lines.append(line)
    return json.dumps(lines).encode()


def _load_part(path: Path) -> dict[str, Found | None]:
    """Read the output of `_to_bytes`. Raises BatchError if it is not that."""
    results: dict[str, Found | None] = {}
    try:
        for line in json.loads(path.read_bytes()):
            results[line["path"]] = None
            if "picture" in line:
                picture = Picture(**line["picture"])
                content: Content | AlreadyStored = AlreadyStored(picture.id, None)
                if facts := line.get("content"):
                    embedding, tokens = map(b64decode, facts.pop("features"))
                    content = Content(None, **facts, features=(embedding, tokens))
                results[line["path"]] = Found(picture, content)
    except (ValueError, KeyError, TypeError) as error:
        raise BatchError(f"{path} is damaged ({error}); run the same command again") from None
    return results
