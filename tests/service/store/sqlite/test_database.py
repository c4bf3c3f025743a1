import os
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from embedded import BEFORE_5, tamper

from diptych.errors import StoreError, UnknownPictureError
from diptych.store.records import NewLabel, NewPicture
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.schema import DATABASE, VERSION, open_connection


def new(number: int, **changes) -> NewPicture:
    id = f"{number:032x}"
    values = {
        "id": id,
        "sha256": id * 2,
        "path": f"/pictures/{number}.jpg",
        "media_type": "image/jpeg",
        "width": 31,
        "height": 17,
        "metadata": {"number": number},
        "revision": "r1",
        "embedding": np.full(3, number, "<f4").tobytes(),
        "tokens": np.full(5, number, "<f2").tobytes(),
        "data": None,
    }
    return NewPicture(**{**values, **changes})


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store", create=True) as store:
        yield store


def test_a_row_number_is_never_given_twice(store):
    store.insert([new(1)])
    store.remove([new(1).id])
    store.insert([new(1)])
    assert [change.row for change in store.changes(0, 10)] == [1, 1, 2]


def test_pages_go_on_where_pictures_are_removed_meanwhile(store):
    store.insert([new(number) for number in range(7)])
    pages = store.pages(3)
    first = next(pages)
    store.remove([record.id for record in first])
    assert [record.id for page in pages for record in page] == [new(number).id for number in range(3, 7)]
    with pytest.raises(UnknownPictureError, match="is not there any more; begin with the first page"):
        store.page(3, first[-1].id)


def damage(store, column, value):
    tamper(store, f"UPDATE pictures SET {column}=? WHERE row=1", value)


@pytest.mark.parametrize(
    ("column", "value", "ask"),
    [
        ("tokens", new(1).tokens[:-1] + b"\x01", lambda store: store.panels([new(1).id])),
        ("embedding", new(1).embedding[:-1] + b"\x01", lambda store: store.panels([new(1).id])),
        ("metadata", '{"number": 3}', lambda store: store.get(new(1).id)),
        ("metadata", "{", lambda store: store.page(5)),
        ("path", None, lambda store: store.get(new(1).id)),
        ("revision", "r3", lambda store: store.get(new(1).id)),
        ("width", 32, lambda store: store.get(new(1).id)),
        ("embedding", new(1).embedding[:-1] + b"\x01", lambda store: store.embeddings_of([new(1).id])),
        ("path", b"\xff\xfe", lambda store: store.page(5)),
    ],
)
def test_what_is_not_as_it_was_written_is_an_error_and_not_an_answer(store, column, value, ask):
    store.insert([new(1), new(2)])
    assert ask(store)
    damage(store, column, value)
    if isinstance(value, bytes) and column == "path":  # no text, though its checksum is right
        tamper(store, "UPDATE digests SET path=(SELECT crc32(path) FROM pictures WHERE row=1) WHERE row=1")
    with pytest.raises(StoreError, match=r"row 1 of the collection is damaged: its .* has another checksum; "):
        ask(store)


@pytest.mark.parametrize(
    ("column", "value", "ask"),
    [
        ("tokens", new(1).tokens[:-1] + b"\x01", lambda store: store.tokens([1, 2])),
        ("revision", "r3", lambda store: store.records([1, 2])),
        ("metadata", "{", lambda store: store.records([1, 2])),
    ],
)
def test_what_is_damaged_is_left_out_of_a_search_with_a_warning_and_the_others_are_not(
    store, column, value, ask, caplog
):
    store.insert([new(1), new(2)])
    before = ask(store)
    damage(store, column, value)
    assert ask(store) == {2: before[2]}
    (warning,) = caplog.messages
    assert "left out of a search: row 1 of the collection is damaged" in warning


@pytest.mark.parametrize("column", ["embedding", "tokens"])
def test_damaged_features_are_out_of_date_until_they_are_replaced(store, column):
    store.insert([new(1), new(2)])
    sizes = len(new(1).embedding), len(new(1).tokens) // 2
    assert store.list_outdated("r1", sizes, 0, 10) == []
    damage(store, column, getattr(new(2), column))
    assert [row for row, _ in store.list_outdated("r1", sizes, 0, 10)] == [1]
    store.replace_features([(new(1).id, new(1).embedding, new(1).tokens)], "r1")
    assert store.list_outdated("r1", sizes, 0, 10) == []
    assert store.tokens([1]) == {1: new(1).tokens}
    store.remove([new(1).id, new(2).id])
    assert tamper(store, "SELECT count(*) FROM digests") == 0


def test_other_metadata_are_no_damage_and_mend_none(store):
    store.insert([new(1), new(2)])
    damage(store, "metadata", "{")
    store.replace_metadata([(new(n).id, {"label": n}) for n in (1, 2, 3)])
    assert {row: record.metadata for row, record in store.records([1, 2]).items()} == {2: {"label": 2}}
    with pytest.raises(StoreError, match="row 1 of the collection is damaged"):
        store.get(new(1).id)


@pytest.mark.parametrize(
    ("version", "lacking"),
    [(1, "DROP TABLE digests; DROP TABLE labels;"), (2, "DROP TABLE labels;"), (3, ""), (4, "")],
)
def test_a_reader_reads_an_earlier_version_as_it_is_also_while_a_writer_brings_it_to_ours(tmp_path, version, lacking):
    with Store.open(tmp_path, create=True) as store:
        store.insert([new(1, frames=8), new(2)])
        assert [record.frames for record in store.page(9)] == [8, None]
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        connection.executescript(f"{BEFORE_5} {lacking} PRAGMA user_version={version};")
    with Store.open(tmp_path, read_only=True) as reader:
        assert reader.tokens([1]) == {1: new(1).tokens}
        assert reader.labels() == []
        assert [record.frames for record in reader.page(9)] == [None, None]
        assert tamper(reader, "PRAGMA user_version") == version
        with Store.open(tmp_path) as writer:
            writer.insert([new(3, frames=3)])
            writer.add_labels([NewLabel(new(1).id, new(2).id, "copy", "same")])
            assert [record.frames for record in writer.page(5)] == [None, None, 3]
        assert [record.id for record in reader.page(5)] == [new(1).id, new(2).id, new(3).id]
        assert tamper(reader, "PRAGMA user_version") == VERSION
    with Store.open(tmp_path) as store:
        damage(store, "tokens", b"other")
        with pytest.raises(StoreError, match="list of tokens has another"):
            store.panels([new(1).id])


@pytest.mark.parametrize("version", [0, VERSION + 1, 99])
def test_a_format_that_was_never_ours_or_is_newer_is_refused_with_both_numbers(tmp_path, version):
    with Store.open(tmp_path, create=True) as store:
        tamper(store, f"PRAGMA user_version={version}")
    for create in (True, False):
        with pytest.raises(StoreError, match=f"version {version}, and this Diptych reads version {VERSION}; "):
            Store.open(tmp_path, create=create)


def test_writes_are_synchronous_and_in_a_write_ahead_log(store):
    with closing(open_connection(store.path, read_only=False)) as connection:  # as every connection of a store
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_a_new_store_is_its_owners_alone_and_a_folder_that_is_there_stays_as_it_is(tmp_path):
    before = os.umask(0o022)
    try:
        (tmp_path / "there").mkdir()
        for name, mode in (("new", 0o700), ("there", 0o755)):
            with Store.open(tmp_path / name, create=True) as store:
                store.insert([new(1, data=b"bytes")])
                assert {path.stat().st_mode & 0o777 for path in (tmp_path / name).glob("*.sqlite*")} == {0o600}
            assert (tmp_path / name).stat().st_mode & 0o777 == mode
    finally:
        os.umask(before)
