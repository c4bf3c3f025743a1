import os
from pathlib import Path

import pytest

from diptych.collection.ingest import (
    BATCH,
    BATCH_BYTES,
    METADATA_BYTES,
    checked_metadata,
    make_batches,
)
from diptych_runtime.parsing import DEPTH


def sized(folder: Path, *sizes: int) -> list[Path]:
    """Files of these sizes that take no room on the disk."""
    paths = [folder / f"{place:03d}" for place in range(len(sizes))]
    for path, size in zip(paths, sizes, strict=True):
        path.touch()
        os.truncate(path, size)
    return paths


def nested(depth: int) -> dict:
    return {"in": nested(depth - 1)} if depth > 1 else {"in": 1}


def test_batches_keep_the_order_and_hold_at_most_64_files_and_few_large_ones(tmp_path):
    paths = sized(tmp_path, *[1] * (2 * BATCH + 3))
    found = list(make_batches(iter(paths)))
    assert [len(batch) for batch in found] == [BATCH, BATCH, 3]
    assert [path for batch in found for path in batch] == paths
    assert list(make_batches([])) == []
    assert list(make_batches([tmp_path / "gone.jpg"])) == [[tmp_path / "gone.jpg"]], "to be refused by name"
    half, over = BATCH_BYTES // 2, BATCH_BYTES + 1
    batches = make_batches(sized(tmp_path, half, half, 1, over, over, 1, half))
    assert [[int(path.name) for path in batch] for batch in batches] == [[0, 1], [2], [3], [4], [5, 6]]


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
