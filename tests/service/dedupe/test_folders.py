"""`find_duplicates` of folders and of a collection, in one call and in the shape of imagededup."""

import logging

import pytest
from exported import drawn_collection

from diptych import Collection, Scorer, find_duplicates
from diptych.dedupe.folders import store_of
from diptych.dedupe.pair_cache import LEDGER, PairCache
from diptych.errors import DedupeError
from diptych.scoring.scorer import Scorer as Loaded


@pytest.fixture(scope="module")
def small() -> Scorer:
    return Scorer.load("photo-small", threads=2)


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Drawn photos, an edited copy and an exact copy of one of them; the cache of the user is a folder of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first, *_ = drawn_collection(tmp_path, 5)
    (tmp_path / "photos" / "again.jpg").write_bytes(first.read_bytes())
    return tmp_path / "photos"


def files_of(folder):
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


def test_one_line_finds_the_copies_in_a_folder_and_changes_no_file(photos, small):
    before = files_of(photos)
    found = find_duplicates(str(photos), scorer=small)
    first, again = str(min(set(photos.glob("*.jpg")) - {photos / "again.jpg"})), str(photos / "again.jpg")
    assert sorted(found) == sorted(map(str, before))
    assert (again in found[first], first in found[again]) == (True, True)
    assert found.scores[first][0] == (again, 1.0)
    (group,) = (
        group for group in found.groups if again in [m.picture.path for m in group.others] + [group.keeper.path]
    )
    assert (group.keeper.path in found.to_remove, len({first, again} & set(found.to_remove))) == (False, 1)
    assert files_of(photos) == before


def test_a_second_call_computes_nothing_and_what_cannot_be_read_is_logged_or_told(photos, small, monkeypatch, caplog):
    (photos / "broken.jpg").write_bytes(b"no picture")
    with caplog.at_level(logging.WARNING):
        assert find_duplicates(photos, scorer=small).computed > 0
    assert f"skipped {photos / 'broken.jpg'}" in caplog.text
    assert store_of([photos], small.runtime.revision).is_dir()
    monkeypatch.setattr(Loaded, "encode_pixels", lambda self, pixels: pytest.fail("it was encoded again"))
    told = {}
    assert find_duplicates(photos, scorer=small, on_error=told.__setitem__).computed == 0
    assert list(told) == [str(photos / "broken.jpg")]


def test_a_named_store_is_a_collection_that_can_be_searched_too(photos, small, tmp_path):
    find_duplicates([photos], scorer=small, store=tmp_path / "store")
    with Collection.open(tmp_path / "store", small) as collection:
        assert len(collection) == 5
        assert find_duplicates(collection, threshold=0.99).pictures


def test_what_cannot_be_asked_is_refused_before_a_file_is_read(photos, small, tmp_path, monkeypatch):
    monkeypatch.setattr(Loaded, "encode_pixels", lambda self, pixels: pytest.fail("it was encoded"))
    with pytest.raises(ValueError, match=r"above 0 and at most 1, got 1\.5"):
        find_duplicates(photos, scorer=small, threshold=1.5)
    with pytest.raises(ValueError, match="got 'high'"):
        find_duplicates(photos, scorer=small, threshold="high")  # type: ignore[arg-type]
    with pytest.raises(DedupeError, match="'best' is not a rule"):
        find_duplicates(photos, scorer=small, keep=["best"])
    with pytest.raises(DedupeError, match="nowhere does not exist"):
        find_duplicates(tmp_path / "nowhere", scorer=small)
    (photos.parent / "broken").mkdir()
    (photos.parent / "broken" / "one.jpg").write_bytes(b"no picture")
    with pytest.raises(DedupeError, match=r"1 picture found, and none could be read: .*one\.jpg"):
        find_duplicates(photos.parent / "broken", scorer=small)
    with (
        Collection.open(tmp_path / "store", small, create=True) as collection,
        pytest.raises(ValueError, match="reference is for folders, and a collection has none"),
    ):
        find_duplicates(collection, reference=photos)


def test_the_features_of_references_serve_every_folder_that_is_compared_with_them(photos, small, tmp_path):
    new = tmp_path / "new"
    new.mkdir()
    (photos / "again.jpg").rename(new / "again.jpg")
    find_duplicates(photos, scorer=small)
    store = store_of([photos], small.runtime.revision)
    assert find_duplicates(new, scorer=small, reference=[photos], threshold=1.0).to_remove == [str(new / "again.jpg")]
    assert [path.name for path in store.parent.iterdir()] == [store.name]
    with PairCache(store / LEDGER, small.runtime.revision) as pair_cache:
        assert set(pair_cache.get_files([str(new)])) == {str(new / "again.jpg")}
    find_duplicates(photos, scorer=small)
    with PairCache(store / LEDGER, small.runtime.revision) as pair_cache:
        assert pair_cache.get_files([str(new)]) == {}, "what is compared with the references no more is forgotten"
