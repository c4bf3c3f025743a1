import errno

import pytest

from diptych.batch.parts.manifest import Step
from diptych.batch.workers.executor import Serial
from diptych.batch.workers.shared_folder import SharedParts, WorkerPool
from diptych.errors import BatchError

STEP = Step("items", 5, 2)


def leave(number, *, folder, means):
    with open(f"{folder}/items-{number:06d}.part", "w") as file:  # noqa: PTH123
        file.write(f"{number} by {means.model}")


def test_a_part_goes_when_the_next_one_is_asked_for(collection, means):
    exchange = SharedParts.of(collection, "items")
    with exchange.begun() as job:
        pass
    met = []
    for number, path in exchange.parts(job, STEP, leave, WorkerPool(Serial(), means), STEP.describe):
        assert [other.name for other in job.iterdir()] == [path.name]
        met.append((number, path.read_text(encoding="utf-8")))
    assert met == [(number, f"{number} by {means.model}") for number in range(3)]
    assert list(job.iterdir()) == []


def test_a_job_has_a_folder_of_its_own_until_all_are_cleared(collection):
    exchange = SharedParts.of(collection, "items")
    assert exchange.jobs() == []
    with exchange.begun() as one, exchange.begun() as other:
        pass
    assert exchange.jobs() == sorted([one, other])
    exchange.clear()
    assert exchange.jobs() == []
    assert not (collection.directory / "items.parts").exists()


def test_parts_come_in_order_whoever_is_done_first(collection, means):
    class Backwards(Serial):
        def run(self, work, attempts):
            yield from reversed(list(super().run(work, attempts)))

    exchange = SharedParts.of(collection, "items")
    with exchange.begun() as job:
        pass
    crew = WorkerPool(Backwards(), means)
    assert [number for number, _ in exchange.parts(job, STEP, leave, crew, STEP.describe)] == [0, 1, 2]


def test_a_job_that_could_not_begin_leaves_nothing(collection):
    exchange = SharedParts.of(collection, "items")
    with pytest.raises(FileNotFoundError), exchange.begun() as job:
        (job / "half" / "of it").touch()
    assert not exchange.folder.exists()


def test_what_the_system_refuses_says_what_to_do(collection):
    exchange = SharedParts.of(collection, "items")
    said = r"a\.part: No space left on device; what is done is kept, so mend that and run the same command again"
    with pytest.raises(BatchError, match=said), exchange.explained():
        raise OSError(errno.ENOSPC, "No space left on device", "a.part")


def test_a_lost_worker_is_said_with_what_it_was_at(collection, means):
    said = []

    class Losing(Serial):
        def run(self, work, attempts):
            attempts.lost(attempts.take(), "SIGKILL")
            yield from super().run(work, attempts)

    exchange = SharedParts.of(collection, "items")
    crew = WorkerPool(Losing(), means, said.append)
    with exchange.begun() as job:
        pass
    assert len(list(exchange.parts(job, STEP, leave, crew, STEP.describe))) == 3
    assert said == ["a worker was lost (SIGKILL); the items 1 to 2 are done again"]
