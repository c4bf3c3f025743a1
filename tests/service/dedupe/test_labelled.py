"""A pair that a person called different is not proposed again, by any way of looking for duplicates."""

import io

import numpy as np
import pytest
from PIL import Image

from diptych.dedupe.labelled import NONE, different_pairs, different_pairs_in, places_of
from diptych.store.records import NewLabel
from diptych.store.sqlite.backend import SqliteBackend

A, B, C, D = (letter * 32 for letter in "abcd")


def test_the_latest_label_counts_and_pictures_of_different_things_are_no_copies(tmp_path):
    with SqliteBackend.open(tmp_path / "store", create=True) as store:
        store.add_labels(
            [
                NewLabel(B, A, "copy", "different"),
                NewLabel(A, C, "copy", "different"),
                NewLabel(A, C, "copy", "same"),
                NewLabel(A, D, "thing", "different"),
                NewLabel(B, C, "thing", "different"),
                NewLabel(B, C, "copy", "same"),
                NewLabel(B, D, "copy", "cannot tell"),
            ]
        )
        assert different_pairs(store) == different_pairs(store, "copy") == {(A, B), (A, D)}
        assert different_pairs(store, "thing") == {(A, D), (B, C)}
    assert different_pairs_in(tmp_path / "store") == {(A, B), (A, D)}
    assert different_pairs_in(tmp_path / "none") == different_pairs_in(None) == NONE


def test_pairs_are_places_among_the_pictures_that_are_there():
    assert places_of([(A, C), (B, D)], [C, A, B]).tolist() == [[1, 0]]
    assert places_of([], [A]).shape == (0, 2)
    assert places_of([(A, B)], []).dtype == np.int64


@pytest.fixture
def copies(tmp_path, photo_bytes):
    """A folder with a picture, the same saved again in a worse quality twice, and another picture."""
    folder = tmp_path / "copies"
    folder.mkdir()
    (folder / "a.jpg").write_bytes(photo_bytes(1))
    for name, quality in (("b.jpg", 60), ("c.jpg", 40)):
        Image.open(io.BytesIO(photo_bytes(1))).save(folder / name, quality=quality)
    (folder / "d.jpg").write_bytes(photo_bytes(2))
    return folder


def proposed(found) -> set[tuple[str, str]]:
    """The names of the first picture of every group with each of the others, in order."""
    groups: dict[int, list[str]] = {}
    for row in found.json["rows"]:
        groups.setdefault(row["group"], []).append(row["path"][-5:])
    return {(min(first, other), max(first, other)) for first, *others in groups.values() for other in others}


METHODS = {"network": ("--threshold", 0.5), "phash": ("--method", "phash", "--max-distance", 10)}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("default", [False, True], ids=["store", "default collection"])
def test_the_command_does_not_propose_what_is_labelled_different(
    diptych, copies, artifact, tmp_path, data_home, monkeypatch, method, default
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store = data_home / "diptych" if default else tmp_path / "store"
    model = ("--model", artifact, "--threads", 1)

    def dedupe():
        at = () if default else ("--store", store)
        return diptych("dedupe", copies, *METHODS[method], *(model if method == "network" else ()), *at, "--json")

    assert diptych("index", "add", copies, "--store", store, *model).code == 0
    before = proposed(dedupe())
    assert {pair for pair in before if "d.jpg" not in pair} == {("a.jpg", "b.jpg"), ("a.jpg", "c.jpg")}
    table = tmp_path / "labels.csv"
    table.write_text(f"image_a,image_b,answer\n{copies}/b.jpg,{copies}/a.jpg,different\n")
    assert diptych("label", "--store", store, "--import", table).code == 0
    after = proposed(dedupe())
    assert ("a.jpg", "b.jpg") not in after
    assert after - {("b.jpg", "c.jpg")} <= before, "the others are as they were"
    assert {"a.jpg", "c.jpg"} & {name for pair in after for name in pair}
