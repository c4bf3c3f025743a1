import json
import sqlite3

import numpy as np
import pytest
from embedded import tamper

from diptych.store.records import VerifyReport
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.index_cache import MANIFEST, cache_digest
from diptych.store.sqlite.schema import row_checksum
from diptych.store.sqlite.verify import verify_store


@pytest.fixture
def store(collection):
    """The store of a closed collection of 12 pictures, as another process sees it."""
    collection.close()
    with Store.open(collection.directory, read_only=True) as store:
        yield store


def change_manifest(store: Store, **values: object) -> None:
    """A manifest that was written so: its checksum is right unless that is what is changed."""
    path = store.directory / MANIFEST
    manifest = {**json.loads(path.read_text()), **values}
    signed = {"sha256": cache_digest(store.directory, manifest), **values}
    path.write_text(json.dumps({**manifest, **signed}))


def test_a_whole_collection_has_neither_problems_nor_remarks_and_is_not_changed_by_looking(store):
    before = {path.name: path.read_bytes() for path in store.directory.iterdir() if path.suffix in (".faiss", ".json")}
    assert verify_store(store) == VerifyReport(12, [], [])
    assert before == {name: (store.directory / name).read_bytes() for name in before}


@pytest.mark.parametrize(
    ("column", "value", "fault"),
    [
        ("sha256", "0" * 64, "its id does not belong to its digest"),
        ("bytes", b"other", "its kept bytes have another digest"),
        ("embedding", b"\0\0\0", "its features are cut short"),
        ("tokens", lambda whole: np.full(len(whole) // 2, np.inf, "<f2").tobytes(), "its tokens are not finite"),
        ("tokens", "text", "its features are cut short"),
        (
            "tokens",
            lambda whole: bytes(len(whole)),
            "its embedding or tokens have another checksum; `diptych index rebuild` makes them anew",
        ),
        ("metadata", '{"is": "another"}', "its record has another checksum; remove it and add it again"),
        ("path", "/another", "its record has another checksum; remove it and add it again"),
        ("embedding", np.full(10, np.nan, "<f4").tobytes(), "its embedding has the length nan, expected 1"),
        ("embedding", np.full(10, 0.4, "<f4").tobytes(), "its embedding has the length 1.265, expected 1"),
    ],
    ids=["digest", "bytes", "cut", "infinite", "text", "zeros", "metadata", "path", "nan", "long"],
)
def test_a_damaged_row_is_named_by_its_picture_with_what_is_wrong_and_no_other_row_is(store, column, value, fault):
    (id,) = (record.id for record in store.records([5]).values())
    tamper(
        store, f"UPDATE pictures SET {column}=? WHERE row=5", value(store.tokens([5])[5]) if callable(value) else value
    )
    verdict = verify_store(store)
    assert verdict.problems[0] == f"picture {id}: {fault}"
    assert not [text for text in verdict.problems[1:] if text.startswith("picture")]
    assert (verdict.pictures, verdict.healthy) == (12, False)


def test_features_of_two_sizes_are_counted_by_size(store):
    tamper(store, "UPDATE pictures SET tokens=x'0000' WHERE row<=5")
    *rows, problem = verify_store(store).problems
    assert len(rows) == 5
    said = "features of different sizes (embedding, tokens): 7 with 10 and 192, 5 with 10 and 1"
    assert problem == f"{said}; `diptych index rebuild` mends them"


def test_a_database_that_cannot_be_read_to_its_end_is_a_verdict_and_no_error(collection):
    collection.close()
    path = collection.directory / "collection.sqlite"
    data = bytearray(path.read_bytes())
    for start in range(8192, len(data), 4096):
        data[start : start + 64] = b"\xff" * 64
    path.write_bytes(data)
    with Store.open(collection.directory, read_only=True) as store:
        verdict = verify_store(store)
    assert any(text.startswith("database: ") for text in verdict.problems)
    assert "database disk image is malformed" in verdict.problems[-1]


def test_files_that_went_away_are_a_remark_unless_their_bytes_are_kept(collection, gallery):
    collection.add([gallery / "01.jpg"], keep_originals=True)
    for name in ("01.jpg", "02.jpg", "04.jpg"):
        (gallery / name).unlink()
    verdict = verify_store(collection.store)
    assert verdict.healthy
    assert verdict.remarks[0].endswith("neither kept bytes nor a file, which cannot be embedded again: 2")


def test_a_cache_that_is_behind_or_of_another_state_or_damaged_is_a_remark(store):
    sequence = store.sequence()
    for values, remark in [
        ({"generation": sequence - 5}, "5 changes behind, replayed when it is opened"),
        ({"generation": sequence + 1}, "it belongs to another state of the database; the next writer makes it again"),
        ({"generation": sequence, "identity": "x"}, "it belongs to another state of the database; the next"),
        ({"identity": store.identity, "count": None}, "its manifest is damaged; the next writer makes it again"),
        ({"count": 11}, "it has 12 entries and 12 labels, expected 11; the next writer makes it again"),
        ({"count": 12, "sha256": "0" * 64}, "its checksum is wrong"),
    ]:
        change_manifest(store, **values)
        verdict = verify_store(store)
        assert verdict.healthy, values
        assert [remark in text for text in verdict.remarks] == [True], verdict.remarks


def test_a_cache_whose_entries_are_not_the_databases_is_a_problem_unless_they_are_replayed(store):
    for row in (3, 7):
        other = np.roll(np.frombuffer(store.embeddings(row - 1, 1)[row], "<f4"), 1).tobytes()
        tamper(store, "UPDATE pictures SET embedding=? WHERE row=?", other, row)
        tamper(store, "UPDATE digests SET embedding=? WHERE row=?", row_checksum(other), row)
    fault = "of its entries are not the database's, the first of row"
    assert verify_store(store).problems == [f"index cache: 2 {fault} 3; the next search or writer makes it again"]
    tamper(store, "INSERT INTO changes (row) VALUES (3)")
    assert verify_store(store).problems == [f"index cache: 1 {fault} 7; the next search or writer makes it again"]
    tamper(store, "INSERT INTO changes (row) VALUES (7)")
    verdict = verify_store(store)
    assert (verdict.problems, verdict.remarks) == ([], ["index cache: 2 changes behind, replayed when it is opened"])


def test_a_writer_who_adds_meanwhile_causes_no_false_alarm(collection, photo_bytes):
    class Watched(Store):
        def list_features(self, after: int, limit: int) -> list[sqlite3.Row]:
            rows = super().list_features(after, limit)
            if not rows and len(collection) == 12:
                collection.add(photo_bytes(40), keep_originals=True)
                collection.index.save(collection.directory)
            return rows

    collection.index.save(collection.directory)
    with Watched.open(collection.directory, read_only=True) as store:
        assert verify_store(store).problems == []
        assert len(collection) == 13
        assert verify_store(store).pictures == 13
