import os
from pathlib import Path

import pytest

from diptych.collection.ingest import (
    BATCH,
    BATCH_BYTES,
    METADATA_BYTES,
    AlreadyStored,
    Incoming,
    checked_metadata,
    make_batches,
    read_new,
    to_rows,
)
from diptych.pictures.content import Content
from diptych.store.sqlite.database import Store
from diptych_runtime.parsing import DEPTH


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store", create=True) as store:
        yield store


def sized(folder: Path, *sizes: int) -> list[Path]:
    """Files of these sizes that take no room on the disk."""
    paths = [folder / f"{place:03d}" for place in range(len(sizes))]
    for path, size in zip(paths, sizes, strict=True):
        path.touch()
        os.truncate(path, size)
    return paths


def nested(depth: int) -> dict:
    return {"in": nested(depth - 1)} if depth > 1 else {"in": 1}


def test_batches_keep_the_order_and_hold_at_most_64_files(tmp_path):
    paths = sized(tmp_path, *[1] * (2 * BATCH + 3))
    found = list(make_batches(iter(paths)))
    assert [len(batch) for batch in found] == [BATCH, BATCH, 3]
    assert [path for batch in found for path in batch] == paths
    assert list(make_batches([])) == []
    assert list(make_batches([tmp_path / "gone.jpg"])) == [[tmp_path / "gone.jpg"]], "to be refused by name"


def test_large_files_make_small_batches_and_the_largest_one_alone(tmp_path):
    half, over = BATCH_BYTES // 2, BATCH_BYTES + 1
    paths = sized(tmp_path, half, half, 1, over, over, 1, half)
    assert [[path.name for path in batch] for batch in make_batches(paths)] == [
        ["000", "001"],
        ["002"],
        ["003"],
        ["004"],
        ["005", "006"],
    ]


def test_what_is_there_already_is_recognised_by_its_bytes_and_not_decoded_again(store, scorer, photo_bytes):
    data = photo_bytes(1)
    new = read_new(data, store.known_ids, scorer, name=None, keep=False)
    assert isinstance(new, Content)
    assert new.data is None, "nobody keeps them"
    store.insert(to_rows([Incoming(new, "/a.jpg", {"n": 1})], scorer))
    assert read_new(data, store.known_ids, scorer, name=None, keep=False) == AlreadyStored(new.id, None)
    assert read_new(data, store.known_ids, scorer, name=None, keep=True) == AlreadyStored(new.id, data)


def test_metadata_comes_back_as_json_keeps_it_and_is_the_callers_own_no_more():
    given = {"tags": ("a", "b"), 3: None, "ä": [1.5, {"x": True}]}
    kept = checked_metadata(given)
    assert kept == {"tags": ["a", "b"], "3": None, "ä": [1.5, {"x": True}]}
    given["ä"].clear()  # type: ignore[union-attr]
    assert kept["ä"] == [1.5, {"x": True}]


def test_metadata_that_nobody_could_read_back_is_refused():
    assert checked_metadata(nested(DEPTH)) == nested(DEPTH)
    with pytest.raises(ValueError, match=r"metadata .* 128 levels deep"):
        checked_metadata(nested(DEPTH + 1))
    filled = {"x": "ä" * (METADATA_BYTES // 2 - 5)}
    assert checked_metadata(filled) == filled
    with pytest.raises(ValueError, match="may have 65,536 bytes as JSON, and this has 65,537"):
        checked_metadata({"x": filled["x"] + "ä"})
    looped: dict = {}
    looped["self"] = [looped]
    for bad in ({"x": "\ud800"}, {"\udfff": 1}, {"x": float("inf")}, {"x": {1}}, "x", looped, {1: 10**5000}):
        with pytest.raises(ValueError, match="metadata"):
            checked_metadata(bad)  # type: ignore[arg-type]
