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
from diptych.batch.workers.executor import Serial
from diptych.batch.workers.pool import Pool
from diptych.batch.workers.shared_folder import WorkerPool
from diptych.batch.workers.tasks import WorkerConfig
from diptych.cli.main import main
from diptych.collection import ingest
from diptych.collection.ingest import Added
from diptych.errors import BatchError
from diptych.pictures.content import describe

SIZE = 4


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(embedding, "_SIZE", SIZE)


@pytest.fixture
def crew(means):
    """The work of workers, done in this process."""
    with Serial() as engine:
        yield WorkerPool(engine, means)


@pytest.fixture
def files(gallery) -> list[Path]:
    """Fifteen files: twelve contents, one of them twice, and two that cannot be read."""
    (gallery / "copy.jpg").write_bytes((gallery / "01.jpg").read_bytes())
    (gallery / "broken.jpg").write_bytes(b"no picture")
    return [*sorted(gallery.rglob("*.jpg")), gallery / "gone.jpg"]


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


def everything(collection) -> dict:
    """What a collection holds, without the time."""
    facts = ("path", "metadata", "width", "height", "media_type", "sha256", "revision", "original_kept")
    records = {record.id: [getattr(record, fact) for fact in facts] for record in collection.list(100)}
    return {id: (facts, *(part.tobytes() for part in collection.panel(id))) for id, facts in records.items()}


def filled(collection, files, add) -> tuple[dict, dict[str, str], list[Added]]:
    refused: dict[str, str] = {}
    added = list(add(files, on_error=lambda path, error: refused.update({str(path): str(error)})))
    return everything(collection), refused, added


def test_workers_fill_a_collection_as_one_process_does(files, crew, store):
    with store("alone") as alone:
        expected, refused, added = filled(alone, files, alone.add)
    assert (len(expected), len(refused), len(added)) == (12, 2, 13)
    with store("shared") as shared:
        found, said, told = filled(shared, files, partial(add_with_workers, shared, workers=crew))
        assert found == expected
        assert said == refused
        assert sorted(one.id for one in told if one.created) == sorted(one.id for one in added if one.created)
        assert len(told) == 13
        assert not (shared.directory / "embedding.parts").exists()
        assert len(shared.search(files[0], top=12).matches) == 12


def test_metadata_by_path_are_kept_with_or_without_workers(files, crew, store):
    by_path = {str(files[0]): {"label": "shoe"}, str(files[5]): {"label": "boot"}}
    for number, workers in enumerate((None, crew)):
        with store(f"{number}") as collection:
            list(add_with_workers(collection, files, workers, on_error=lambda *_: None, by_path=by_path))
            kept = {record.path: record.metadata for record in collection.list(100)}
        assert {path: found for path, found in kept.items() if found} == by_path


def test_real_processes_do_the_same(files, means, store):
    with store("alone") as alone:
        expected, refused, _ = filled(alone, files, alone.add)
    with store("shared") as shared, Pool(2) as pool:
        crew = WorkerPool(pool, means)
        found, said, _ = filled(shared, files, partial(add_with_workers, shared, workers=crew))
    assert (list(found.items()), said) == (list(expected.items()), refused), "and they come in the same order"


def test_what_the_collection_has_is_not_decoded_again(gallery, crew, store, described):
    files = sorted(gallery.rglob("*.jpg"))
    with store() as collection:
        collection.add(files[:5])
        described.clear()
        added = list(add_with_workers(collection, files, crew, on_error=never))
        assert [one.created for one in added] == [False] * 5 + [True] * 7
        assert sorted(described) == [str(path) for path in files[5:]]


@pytest.mark.parametrize("again", ["crew", None])
def test_what_workers_left_is_taken_over_and_the_rest_is_done(gallery, again, means, store, described, request):
    files = sorted(gallery.rglob("*.jpg"))
    with store() as collection:
        taken = []
        with pytest.raises(KeyboardInterrupt):
            taken += add_with_workers(collection, files, WorkerPool(Ending(), means), on_error=never)
        assert len(collection) == SIZE
        assert len(list((collection.directory / "embedding.parts").glob("*/files-*.part"))) == 2
        described.clear()
        crew = again and request.getfixturevalue(again)
        added = list(add_with_workers(collection, files, crew, on_error=never))
        assert len(added) == len(collection) == 12
        assert sum(one.created for one in added) == 8
        assert described == []
        assert not (collection.directory / "embedding.parts").exists()


def test_the_command_without_a_cluster_takes_over_what_is_its_own_and_keeps_the_rest(
    gallery, means, store, described, photo_bytes, tmp_path
):
    files = sorted(gallery.rglob("*.jpg"))
    with store() as collection, pytest.raises(KeyboardInterrupt):
        list(add_with_workers(collection, files, WorkerPool(Ending(), means), on_error=never))
    described.clear()
    (tmp_path / "other.jpg").write_bytes(photo_bytes(99))
    add = ["index", "add", "--store", str(tmp_path / "store"), "--model", means.model, "--threads", "1", "--quiet"]
    assert main([*add, str(tmp_path / "other.jpg")]) == 0
    assert len(described) == 1
    assert main([*add, str(gallery)]) == 0
    assert len(described) == 1
    with store() as collection:
        assert len(collection) == 13
        assert not (collection.directory / "embedding.parts").exists()


def test_what_changed_meanwhile_or_is_not_asked_for_is_not_taken_over(gallery, crew, means, store, photo_bytes):
    files = sorted(gallery.rglob("*.jpg"))
    with store() as collection:
        with pytest.raises(KeyboardInterrupt):
            list(add_with_workers(collection, files, WorkerPool(Ending(), means), on_error=never))
        changed, left_out = files[SIZE], files[SIZE + 1]
        changed.write_bytes(photo_bytes(99))
        asked = [path for path in files if path != left_out]
        assert len(list(add_with_workers(collection, asked, crew, on_error=never))) == 11
        paths = {record.path: record.sha256 for record in collection.list(100)}
        assert str(left_out) not in paths
        assert paths[str(changed)] == describe(photo_bytes(99), 32, collection.scorer.limits).sha256


def test_parts_of_another_model_are_of_no_use(gallery, means, crew, store, other_artifact, described, tmp_path):
    from diptych import Scorer

    files = sorted(gallery.rglob("*.jpg"))
    with store() as collection, pytest.raises(KeyboardInterrupt):
        list(add_with_workers(collection, files, WorkerPool(Ending(), means), on_error=never))
    other = Scorer.load(str(other_artifact), provider="cpu", threads=1)
    (tmp_path / "store" / "embedding.parts").rename(tmp_path / "parts")
    with Collection.open(tmp_path / "new", other, create=True) as collection:
        (tmp_path / "parts").rename(collection.directory / "embedding.parts")
        described.clear()
        crew = WorkerPool(crew.engine, WorkerConfig(str(other_artifact), "cpu", 1))
        assert len(list(add_with_workers(collection, files, crew, on_error=never))) == 12
        assert len(described) == 12


def test_kept_bytes_are_those_the_worker_saw(gallery, crew, store, photo_bytes, monkeypatch):
    files = sorted(gallery.rglob("*.jpg"))[:3]
    saved = write_part

    def changed(path, data):
        saved(path, data)
        files[1].write_bytes(photo_bytes(77))

    with store() as collection:
        monkeypatch.setattr(embedding, "write_part", changed)
        added = list(add_with_workers(collection, files, crew, on_error=never, keep_originals=True))
        assert [collection.content(one.id) for one in added] == [
            (path.read_bytes(), "image/jpeg") for path in (files[0], files[2], files[1])
        ]


def test_what_workers_do_not_see_is_looked_at_here_and_that_is_said(gallery, means, store):
    files = sorted(gallery.rglob("*.jpg"))
    said = []

    class Blind(Serial):
        def run(self, work, attempts):
            gallery.rename(gallery.with_name("elsewhere"))
            yield from super().run(work, attempts)
            gallery.with_name("elsewhere").rename(gallery)

    with store() as collection:
        assert (
            len(list(add_with_workers(collection, files, WorkerPool(Blind(), means, said.append), on_error=never)))
            == 12
        )
        assert len(collection) == 12
    assert said == ["12 pictures could be read here and not by workers; does each of these see the folders?"]


def test_a_machine_that_does_not_see_the_folder_or_has_another_model_says_so(
    gallery, means, store, other_artifact, tmp_path
):
    with pytest.raises(BatchError, match=r"order.json is not to be seen on .*; every worker has to see the folder of"):
        embed_part(0, folder=str(tmp_path / "nowhere"), config=means)
    other = WorkerConfig(str(other_artifact), "cpu", 1)
    with store() as collection, Serial() as engine, pytest.raises(BatchError, match="every worker needs that one"):
        list(add_with_workers(collection, sorted(gallery.rglob("*.jpg")), WorkerPool(engine, other), on_error=never))


def test_a_damaged_part_that_was_left_is_done_again_and_one_that_is_new_is_an_error(gallery, means, crew, store):
    files = sorted(gallery.rglob("*.jpg"))
    for share in (0.0, 0.5, 0.99):
        with store(f"store {share}") as collection:
            with pytest.raises(KeyboardInterrupt):
                list(add_with_workers(collection, files, WorkerPool(Ending(), means), on_error=never))
            (part, _) = sorted((collection.directory / "embedding.parts").glob("*/files-*.part"))
            data = part.read_bytes()
            part.write_bytes(data[: int(share * len(data))])
            assert len(list(add_with_workers(collection, files, crew, on_error=never))) == 12

    class Damaging(Serial):
        def run(self, work, attempts):
            for number in super().run(work, attempts):
                (part,) = (collection.directory / "embedding.parts").glob("*/files-*.part")
                part.write_bytes(part.read_bytes()[:-9])
                yield number

    with store() as collection, pytest.raises(BatchError, match=r"part is damaged .*; run the same command again"):
        list(add_with_workers(collection, files, WorkerPool(Damaging(), means), on_error=never))


def test_a_name_that_is_not_utf_8_is_refused_as_by_one_process(tmp_path, crew, store, photo_bytes):
    path = os.fsencode(tmp_path) + b"/caf\xe9.jpg"
    with open(path, "wb") as file:  # noqa: PTH123 - such a name is no Path that anything could show
        file.write(photo_bytes(1))
    files = [Path(os.fsdecode(path))]
    with store() as collection:
        ((_, alone),) = filled(collection, files, collection.add)[1].items()
        ((_, shared),) = filled(collection, files, partial(add_with_workers, collection, workers=crew))[1].items()
    assert shared == alone
    assert "is not UTF-8; rename it" in alone


def test_one_record_that_is_damaged_does_not_stop_the_others(gallery, crew, store):
    files = sorted(gallery.rglob("*.jpg"))
    with store() as collection:
        collection.add(files[:3])
    with closing(sqlite3.connect(collection.directory / "collection.sqlite")) as connection, connection:
        connection.execute("UPDATE pictures SET width=width+1 WHERE row=1")
    with store() as collection:
        assert len(list(add_with_workers(collection, files, crew, on_error=never))) == len(collection) == 12


def test_names_are_used_as_they_were_given(gallery, crew, store, monkeypatch):
    monkeypatch.chdir(gallery)
    (gallery / "link").symlink_to(gallery / "more", target_is_directory=True)
    (gallery / "broken.jpg").write_bytes(b"no picture")
    given = [Path(name) for name in ("01.jpg", "01.jpg", "link/../02.jpg", "broken.jpg", "broken.jpg", "./04.jpg")]
    found = {}
    for name, add in (("alone", Collection.add), ("shared", partial(add_with_workers, workers=crew))):
        with store(name) as collection:
            refused = []
            added = list(add(collection, given, on_error=lambda path, error, to=refused: to.append((path, str(error)))))
            found[name] = (everything(collection), refused, [one.created for one in added])
    assert found["shared"] == found["alone"]
    assert len(found["alone"][1]) == 2


def test_kept_bytes_are_written_a_little_at_a_time(gallery, crew, store, monkeypatch):
    files = sorted(gallery.rglob("*.jpg"))
    monkeypatch.setattr(embedding, "BATCH_BYTES", files[0].stat().st_size)
    sizes = []
    commit = Collection.commit
    monkeypatch.setattr(Collection, "commit", lambda self, new: sizes.append(len(new)) or commit(self, new))
    with store() as collection:
        assert len(list(add_with_workers(collection, files, crew, on_error=never, keep_originals=True))) == 12
        assert max(sizes) <= 2
        assert all(record.original_kept for record in collection.list(100))
