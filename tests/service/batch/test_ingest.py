import os
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from part_works import Ending

from diptych import Collection
from diptych.batch import ingest as embedding
from diptych.batch.ingest import add_with_workers, embed_part
from diptych.batch.parts.manifest import write_part
from diptych.batch.workers.executor import Serial, WorkerPool
from diptych.batch.workers.pool import Pool
from diptych.batch.workers.tasks import WorkerConfig
from diptych.collection import ingest
from diptych.errors import BatchError
from diptych.pictures.content import describe

SIZE = 4


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(embedding, "_SIZE", SIZE)


@pytest.fixture
def workers(means):
    """The work of workers, done in this process."""
    with Serial() as engine:
        yield WorkerPool(engine, means)


@pytest.fixture
def photos(gallery) -> list[Path]:
    """Twelve files of twelve pictures."""
    return sorted(gallery.rglob("*.jpg"))


@pytest.fixture
def store(tmp_path, scorer):
    """`with store("name") as collection` opens one in a folder of that name."""
    return lambda name="store", **options: Collection.open(tmp_path / name, scorer, **({"create": True} | options))


@pytest.fixture
def described(monkeypatch) -> list[str]:
    """The files that were decoded."""
    names = []
    monkeypatch.setattr(ingest, "describe", lambda *args, name: names.append(name) or describe(*args, name=name))
    return names


def never(path, error):
    pytest.fail(f"{path} was refused: {error}")


def list_contents(collection) -> dict:
    """What a collection holds, without the time."""
    facts = ("path", "metadata", "width", "height", "media_type", "sha256", "revision", "original_kept")
    records = {record.id: [getattr(record, fact) for fact in facts] for record in collection.list(100)}
    return {id: (facts, *(part.tobytes() for part in collection.panel(id))) for id, facts in records.items()}


def test_workers_fill_a_collection_as_one_process_does(gallery, workers, means, store, photo_bytes, monkeypatch):
    """Twelve contents, one of them twice, one named in several ways, and three that cannot be read."""
    monkeypatch.chdir(gallery)
    (gallery / "copy.jpg").write_bytes((gallery / "01.jpg").read_bytes())
    (gallery / "broken.jpg").write_bytes(b"no picture")
    (gallery / "link").symlink_to(gallery / "more", target_is_directory=True)
    odd = Path(os.fsdecode(os.fsencode(gallery) + b"/caf\xe9.jpg"))
    odd.write_bytes(photo_bytes(1))
    files = [*sorted(gallery.glob("*.jpg")), *sorted(gallery.glob("more/*.jpg")), gallery / "gone.jpg"]
    files += [Path(name) for name in ("01.jpg", "link/../02.jpg", "broken.jpg", "./04.jpg")]
    by_path = {str(files[0]): {"label": "shoe"}, str(files[5]): {"label": "boot"}}
    found = {}
    with Pool(2) as pool:
        for name, engine in (("alone", None), ("serial", workers), ("pool", WorkerPool(pool, means))):
            refused = []
            with store(name) as collection:
                add = partial(add_with_workers, collection, files, engine, by_path=by_path)
                added = list(add(on_error=lambda path, error, to=refused: to.append((str(path), str(error)))))
                assert not (collection.directory / "embedding.parts").exists()
                assert len(collection.search(photo_bytes(1), top=12).matches) == 12
                kept = list_contents(collection)
                found[name] = (list(kept.items()), sorted(refused), sorted(one.id for one in added if one.created))
    assert found["serial"] == found["pool"] == found["alone"]
    assert len(found["alone"][0]) == len(found["alone"][2]) == 12
    assert sum("is not UTF-8; rename it" in reason for _, reason in found["alone"][1]) == 1
    assert len(found["alone"][1]) == 4


def test_what_the_collection_has_is_not_decoded_again_and_a_damaged_record_stops_no_other(
    photos, workers, store, described
):
    with store() as collection:
        collection.add(photos[:5])
    with closing(sqlite3.connect(collection.directory / "collection.sqlite")) as connection, connection:
        connection.execute("UPDATE pictures SET width=width+1 WHERE row=1")
    described.clear()
    with store() as collection:
        added = list(add_with_workers(collection, photos, workers, on_error=never))
        assert [one.created for one in added] == [False] * 5 + [True] * 7
        assert sorted(described) == [str(path) for path in photos[5:]]
        assert len(collection) == 12


def test_parts_are_taken_over_in_order_whoever_is_done_first_and_one_that_was_lost_is_done_again(photos, means, store):
    class Backwards(Serial):
        """Loses the first part and does the others from behind."""

        def run(self, work, attempts):
            attempts.requeue_lost(attempts.take_part(), "SIGKILL")
            yield from reversed(list(super().run(work, attempts)))

    said = []
    with store() as collection:
        list(add_with_workers(collection, photos, WorkerPool(Backwards(), means, said.append), on_error=never))
        assert [record.path for record in collection.list(100)] == list(map(str, photos))
    (lost,) = said
    assert lost.startswith("a worker was lost (SIGKILL); the files 1 to 4 (")


@pytest.mark.parametrize("alone", [True, False])
def test_a_run_that_was_stopped_keeps_what_was_yielded_and_the_next_one_does_the_rest(
    photos, alone, workers, store, described
):
    with store() as collection:
        with pytest.raises(KeyboardInterrupt):
            list(add_with_workers(collection, photos, WorkerPool(Ending(), workers.config), on_error=never))
        assert len(collection) == SIZE
        described.clear()
        added = list(add_with_workers(collection, photos, None if alone else workers, on_error=never))
        assert len(added) == len(collection) == 12
        assert sorted(described) == [str(path) for path in photos[SIZE:]]
        assert not (collection.directory / "embedding.parts").exists()


def test_kept_bytes_are_those_the_worker_saw_and_are_written_a_little_at_a_time(
    photos, workers, store, photo_bytes, monkeypatch
):
    def write_and_change(path, data):
        write_part(path, data)
        photos[1].write_bytes(photo_bytes(77))

    sizes, commit = [], Collection.commit
    monkeypatch.setattr(embedding, "BATCH_BYTES", photos[0].stat().st_size)
    monkeypatch.setattr(Collection, "commit", lambda self, new: sizes.append(len(new)) or commit(self, new))
    monkeypatch.setattr(embedding, "write_part", write_and_change)
    with store() as collection:
        added = list(add_with_workers(collection, photos, workers, on_error=never, keep_originals=True))
        assert [collection.content(one.id) for one in added] == [
            (path.read_bytes(), "image/jpeg") for path in (photos[0], *photos[2:], photos[1])
        ]
        assert max(sizes) <= 2


def test_what_workers_do_not_see_is_looked_at_here_and_that_is_said(gallery, photos, means, store):
    class Blind(Serial):
        def run(self, work, attempts):
            gallery.rename(gallery.with_name("elsewhere"))
            yield from super().run(work, attempts)
            gallery.with_name("elsewhere").rename(gallery)

    said = []
    with store() as collection:
        added = list(add_with_workers(collection, photos, WorkerPool(Blind(), means, said.append), on_error=never))
        assert len(added) == len(collection) == 12
    assert said == ["12 pictures could be read here and not by workers; does each of these see the folders?"]


def test_a_worker_without_the_folder_or_the_model_and_a_damaged_part_are_errors(
    photos, means, store, other_artifact, tmp_path
):
    class Damaging(Serial):
        def run(self, work, attempts):
            for number in super().run(work, attempts):
                (part,) = (collection.directory / "embedding.parts").glob("*/files-*.part")
                part.write_bytes(part.read_bytes()[:-9])
                yield number

    with pytest.raises(BatchError, match=r"order.json is not to be seen on .*; every worker has to see the folder of"):
        embed_part(0, folder=str(tmp_path / "nowhere"), config=means)
    other = WorkerConfig(str(other_artifact), "cpu", 1)
    for workers, told in (
        (WorkerPool(Serial(), other), "every worker needs that one"),
        (WorkerPool(Damaging(), means), r"part is damaged .*; run the same command again"),
    ):
        with store(told[:4]) as collection, pytest.raises(BatchError, match=told):
            list(add_with_workers(collection, photos, workers, on_error=never))
