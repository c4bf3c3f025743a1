"""Work on the pictures of a collection that workers share, while one process alone writes to the collection.

A worker leaves a part, whole or not at all, in the job's folder beside the collection; the process takes it over, and
then the part goes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from diptych.batch.parts.disk import explain_disk_errors
from diptych.batch.parts.manifest import Step, make_job_id
from diptych.batch.workers.executor import Describe, Executor, RetryQueue, Say
from diptych.batch.workers.tasks import PartWork, WorkerConfig
from diptych.collection.collection import Collection
from diptych.console import format_count


@dataclass(frozen=True)
class WorkerPool:
    """A pool of workers: the executor, each worker's configuration, and a callback told of those that were lost."""

    engine: Executor
    config: WorkerConfig
    say: Say = lambda text: None

    def say_blind(self, count: int) -> None:
        """Say that this process could read so many files which no worker could."""
        if count:
            files = format_count(count, "picture")
            self.say(f"{files} could be read here and not by workers; does each of these see the folders?")


@dataclass(frozen=True)
class SharedParts:
    """The folder in which workers leave their parts, with one folder in it for each job."""

    folder: Path

    @classmethod
    def for_collection(cls, collection: Collection, name: str) -> SharedParts:
        """The shared parts of a collection for work of this name. Raises StoreError if it is not in a folder."""
        return cls(collection.directory / f"{name}.parts")

    def list_jobs(self) -> list[Path]:
        """List the folders of jobs that were not done when their runs ended."""
        return sorted(path for path in self.folder.iterdir() if path.is_dir()) if self.folder.is_dir() else []

    @contextmanager
    def begin_job(self) -> Iterator[Path]:
        """Make the folder of a new job, to be filled inside the block; it goes if that fails."""
        folder = self.folder / make_job_id()
        folder.mkdir(parents=True)
        try:
            yield folder
        except BaseException:
            self.clear()
            raise

    def complete_parts(
        self, job: Path, step: Step, work: PartWork, workers: WorkerPool, describe: Describe
    ) -> Iterator[tuple[int, Path]]:
        """Let the workers complete the parts; yields the number and file of each, which goes with the next one."""
        attempts = RetryQueue(range(step.parts), describe, workers.say)
        following, done = 0, set()
        for number in workers.engine.run(partial(work, folder=str(job), config=workers.config), attempts):
            done.add(number)
            while following in done:
                path = job / step.part_file(following)
                yield following, path
                path.unlink()
                done.remove(following)
                following += 1

    def clear(self) -> None:
        """Take away everything; a worker of a killed run may still put a part there, which the next run takes away."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def explain_errors(self) -> AbstractContextManager[None]:
        """Turn errors of the system inside the block into errors with the next step."""
        return explain_disk_errors(self.folder, "run the same command again")
