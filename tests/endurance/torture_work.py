"""What a tortured child does: random steps on a collection, each told before and after, until it is killed."""

from __future__ import annotations

import hashlib
import logging
import os
import random
import resource
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from io import BytesIO
from multiprocessing.connection import Connection
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import onnxruntime  # noqa: F401 - so that no child has to import it
from PIL import Image

import diptych.store.sqlite.backend
import diptych.store.sqlite.database
from diptych import Collection, Scorer
from diptych.errors import StoreError
from diptych.pictures.content import picture_id
from diptych.store.records import ANSWERS, Answer, NewLabel
from diptych.store.sqlite.backup import back_up_collection, restore_collection
from diptych_runtime.errors import DiptychError

EVERYTHING = 1_000_000
NOBODY = 65534
CROWD = 60  # more pictures than these, and removing becomes likelier than adding


@cache
def draw(number: int) -> bytes:
    """The PNG of a number: 8 by 8 coloured squares."""
    pixels = np.random.default_rng(number).integers(0, 256, (8, 8, 3), np.uint8)
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


@cache
def id_of(number: int) -> str:
    """The id that a collection gives the picture of a number."""
    return picture_id(hashlib.sha256(draw(number)).hexdigest())


@cache
def answers(number: int) -> dict[tuple[str, str], Answer]:
    """The answers about a few pairs that a number stands for; other numbers answer otherwise about some of them."""
    numbers = random.Random(number)
    pairs = [tuple(sorted(f"{place:032x}" for place in numbers.sample(range(12), 2))) for _ in range(20)]
    return {(a, b): numbers.choice(ANSWERS) for a, b in pairs}


@dataclass(frozen=True)
class Job:
    """What a child is to do: `steps` are weights by name; its pictures have numbers from `first` on.

    `once` ends it when it is refused; otherwise it tries again.
    """

    directory: Path
    model: str
    seed: int
    first: int
    held: tuple[int, ...]
    steps: dict[str, int]
    jumping_clock: bool = False
    as_nobody: bool = False
    once: bool = False
    file_limit: int | None = None


def work(job: Job, out: Connection) -> None:
    """Work until killed. Sends ("ready",), ("open",) or ("refused", why), and around each step ("begin", step, numbers)
    and ("done", step, numbers) or ("failed", why); of a search ("served", ids).
    """
    logging.disable()
    scorer = Scorer.load(job.model, provider="cpu", threads=1)
    diptych.store.sqlite.backend._SAVE_AFTER = 5  # so that the index is saved on the way, too,
    diptych.store.sqlite.backend._JOURNAL = 20  # and the journal shortened
    if job.as_nobody and os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    if job.jumping_clock:
        diptych.store.sqlite.database.datetime = Jumping  # pyright: ignore[reportPrivateImportUsage]
    if job.file_limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (job.file_limit, resource.RLIM_INFINITY))
    out.send(("ready",))
    while True:
        try:
            collection = Collection.open(job.directory, scorer, create=True)
            break
        except StoreError as error:
            out.send(("refused", str(error)))
            if job.once:
                return
            sleep(0.005)
    out.send(("open",))
    Worker(collection, job, out).run()


class Worker:
    """Does one random step after the other."""

    def __init__(self, collection: Collection, job: Job, out: Connection) -> None:
        self.collection, self.out = collection, out
        self.random, self.next, self.held = random.Random(job.seed), job.first, list(job.held)
        self.steps = job.steps

    def run(self) -> None:
        """Step until killed, whatever is refused."""
        while True:
            weights = {**self.steps}
            if len(self.held) > CROWD:
                weights["remove"] = weights.get("remove", 0) + 3 * sum(weights.values())
            step = self.random.choices(list(weights), list(weights.values()))[0]
            if step != "remove" or self.held:
                self.attempt(step)

    def attempt(self, step: str) -> None:
        """One step, told before and after."""
        numbers: list[int] = []
        if step == "add":
            numbers, self.next = [self.next], self.next + 1
        elif step == "remove":
            numbers = [self.random.choice(self.held)]
        elif step == "label":
            self.next += 1
            numbers = [self.next]
        self.out.send(("begin", step, numbers))
        try:
            getattr(self, step)(*numbers)
        except (DiptychError, OSError) as error:
            self.out.send(("failed", f"{type(error).__name__}: {error}"))
        else:
            self.out.send(("done", step, numbers))

    def add(self, number: int) -> None:
        """Add a picture, with all there can be beside it."""
        (added,) = self.collection.add(
            draw(number), path=where(number), metadata={"number": number}, keep_originals=True
        )
        if added.id != id_of(number) or not added.created:
            raise AssertionError(f"picture {number} was answered by {added}")
        self.held.append(number)

    def remove(self, number: int) -> None:
        """Remove a picture, which must be there."""
        self.held.remove(number)
        self.collection.remove(id_of(number))

    def label(self, number: int) -> None:
        """Label some pairs at once, as a table does."""
        self.collection.store.add_labels([NewLabel(*pair, "copy", answer) for pair, answer in answers(number).items()])

    def save(self) -> None:
        """Write the index cache."""
        self.collection.index.save(self.collection.directory)

    def rebuild(self) -> None:
        """Embed everything anew and make the index."""
        self.collection.rebuild(everything=True)

    def backup(self) -> None:
        """Copy the collection into a new folder."""
        back_up_collection(self.collection.store, copies(self.collection.directory) / f"{self.random.randrange(10**9)}")

    def search(self) -> None:
        """Say what a search finds that asks for everything."""
        result = self.collection.search(draw(0), top=EVERYTHING, candidates=8)
        self.out.send(("served", [match.id for match in result.matches]))


def give_back(copied: Path, directory: Path, out: Connection) -> None:
    """Restore a backup as `index restore --replace` does, told before and after."""
    with diptych.store.sqlite.backend.SqliteBackend.open(copied, read_only=True) as copy:
        out.send("begin")
        restore_collection(copy, directory, replace=True)
        out.send("done")


def copies(directory: Path) -> Path:
    """Where the backups of a tortured collection are."""
    return directory.with_name("copies")


def where(number: int) -> str:
    """The path that the picture of a number is remembered with; there is no such file."""
    return f"/nowhere/{number}.png"


class Jumping(datetime):
    """A clock that shows any time between the years 1 and 9999, another one at every look."""

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        """Any time."""
        return datetime.min.replace(tzinfo=tz) + timedelta(days=random.randrange(3_652_058), seconds=random.random())
