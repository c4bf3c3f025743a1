"""A table of a thousand pairs, some of which cannot be scored, and jobs over it."""

import csv
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from diptych.batch.job import Job
from diptych.batch.workers.executor import Serial
from diptych.batch.workers.tasks import WorkerConfig

LABELS = ("plain", 'with "quotes", commas', "zwölf\nlines")
ROWS = 1000


@pytest.fixture
def pairs(gallery: Path) -> Path:
    """A table of 1,000 pairs, some of them with pictures that cannot be read, with a column to keep through."""
    names = sorted(str(path.relative_to(gallery)) for path in gallery.rglob("*.jpg"))
    (gallery / "broken.jpg").write_bytes(b"no picture")
    rng = np.random.default_rng(0)
    with (gallery / "pairs.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["label", "image_b", "image_a"])
        for row in range(ROWS):
            a, b = (names[place] for place in rng.integers(0, len(names), 2))
            a = "broken.jpg" if row % 211 == 7 else "gone.jpg" if row % 307 == 5 else "" if row == 700 else a
            writer.writerow([LABELS[row % 3], b, a])
    return gallery / "pairs.csv"


@pytest.fixture
def means(artifact: Path) -> WorkerConfig:
    """The small model on one thread."""
    return WorkerConfig(str(artifact), "cpu", 1)


@pytest.fixture
def job(means: WorkerConfig):
    """`job(table, output, format="jsonl")`; the format is otherwise CSV."""

    def make(table: Path, output: Path, format: str = "csv", **options) -> Job:
        return Job(table, output, format, **{"config": means, **options})

    return make


@pytest.fixture
def run(job):
    """`run(table, output)` scores a table in this process."""

    def score(table: Path, output: Path, format: str = "csv", *, resume: bool = False, force: bool = False, **options):
        return job(table, output, format, **options).run(Serial(), resume=resume, force=force)

    return score


@pytest.fixture
def stopped(job):
    """`stopped(table, output, 2)` runs a job and lets it die after two parts with pairs."""

    def stop(table: Path, output: Path, parts: int, **options) -> None:
        done = []

        @contextmanager
        def bar(unit, count, initial):
            def tick(items):
                done.append(unit)
                if done.count("pair") == parts:
                    raise KeyboardInterrupt

            yield tick

        with pytest.raises(KeyboardInterrupt):
            job(table, output, bar=bar, **options).run(Serial())

    return stop
