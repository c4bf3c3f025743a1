from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from diptych.dedupe.pair_cache import KnownFile, PairCache
from diptych.errors import DedupeError
from diptych.pictures.file_info import Picture
from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.closer_look.comparison import NOTHING, Comparison
from diptych_runtime.closer_look.votes import LENGTH

SEEN = Evidence(300, 40, 30, 0.5, aligned_odds=2.5, corners=((0.0, 0.0), (0.5, 0.0), (0.5, 0.5), (0.0, 0.5)))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "dedupe.sqlite"


def remember(pair_cache: PairCache, pictures: Sequence[Picture]) -> None:
    pair_cache.add_files([KnownFile(picture, 7) for picture in pictures])


def add_all(pair_cache: PairCache, a: Picture, b: Picture) -> None:
    """Everything that the cache knows of two pictures."""
    remember(pair_cache, [a, b])
    pair_cache.add_scores([(a.id, b.id)], np.array([1.5], np.float32), "copy")
    pair_cache.add_evidence([(b.id, a.id)], [SEEN])
    low, high = sorted((a.id, b.id))
    pair_cache.add_comparison(low, high, Comparison(NOTHING, NOTHING))
    pair_cache.add_hashes({a.id: 2**64 - 1, b.id: None})
    pair_cache.add_signatures({a.id: np.ones((5, LENGTH), np.uint8), b.id: np.ones((0, LENGTH), np.uint8)})


def known_of(pair_cache: PairCache, a: Picture, b: Picture) -> list[bool]:
    """Whether scores, evidence, a comparison, and hash and signatures of the first picture are known."""
    scores = len(pair_cache.get_scores([a.id, b.id], "copy")[0]) > 0
    compared = pair_cache.get_comparison(*sorted((a.id, b.id))) is not None
    of_one = [a.id in pair_cache.get_hashes(), a.id in pair_cache.get_signatures([a.id])]
    return [scores, pair_cache.get_evidence([(b.id, a.id)]) == [SEEN], compared, *of_one]


def test_what_was_added_is_there_again_after_it_was_closed(path, picture):
    a, b, c = (
        picture(path=f"/photos/{name}.jpg", taken=taken) for name, taken in (("a", 1.5), ("b", None), ("c", 0.0))
    )
    with PairCache(path, "rev") as pair_cache:
        remember(pair_cache, [replace(a, bytes=7), b, c])
        remember(pair_cache, [a])
        add_all(pair_cache, a, b)
        pair_cache.add_scores([(a.id, b.id), (c.id, a.id)], np.array([1.25, -2.5], np.float32), "thing")
    with PairCache(path, "rev") as pair_cache:
        assert pair_cache.get_files(["/photos"]) == {one.path: KnownFile(one, 7) for one in (a, b, c)}
        keys, logits = pair_cache.get_scores([c.id, a.id, b.id], "thing")
        assert pair_cache.get_scores([a.id, b.id], "copy")[1].tolist() == [1.5], "of another question"
        assert pair_cache.get_evidence([(b.id, a.id), (a.id, b.id), (a.id, c.id)]) == [
            SEEN,
            SEEN.with_sides_swapped,
            None,
        ]
        assert pair_cache.get_hashes() == {a.id: 2**64 - 1, b.id: None}
        assert [len(one) for one in pair_cache.get_signatures([a.id, b.id, c.id]).values()] == [5, 0]
    assert (keys.tolist(), logits.tolist(), logits.dtype) == ([1, 5], [-2.5, 1.25], np.float32)


def test_only_files_below_the_folders_are_given(path, picture):
    names = ("/photos/a.jpg", "/photos-2/a.jpg", "/photos0.jpg", "/other/photos/a.jpg", "/photos/b/c.jpg")
    with PairCache(path, "rev") as pair_cache:
        remember(pair_cache, [picture(path=name) for name in names])
        assert pair_cache.get_files(["/photos/"]).keys() == {"/photos/a.jpg", "/photos/b/c.jpg"}
        assert len(pair_cache.get_files(["/"])) == 5


def test_what_is_known_of_a_content_goes_with_its_last_file(path, picture):
    a, b = picture(), picture()
    twin = picture(id=a.id)
    with PairCache(path, "rev") as pair_cache:
        add_all(pair_cache, a, b)
        remember(pair_cache, [twin])
        pair_cache.forget_files([a.path])
        assert known_of(pair_cache, a, b) == [True] * 5
        pair_cache.forget_files([twin.path])
        assert known_of(pair_cache, a, b) == [False] * 5
        assert pair_cache.get_hashes() == {b.id: None}


@pytest.mark.parametrize(("revision", "scores"), [("rev", True), (None, True), ("another", False)])
def test_only_scores_are_of_one_model(path, picture, revision, scores):
    a, b = picture(), picture()
    with PairCache(path, "rev") as pair_cache:
        add_all(pair_cache, a, b)
    with PairCache(path, revision) as pair_cache:
        assert known_of(pair_cache, a, b) == [scores, True, True, True, True]
        assert len(pair_cache.get_files(["/photos"])) == 2


def test_damaged_values_count_as_unknown(path, picture):
    a, b = picture(), picture()
    with PairCache(path, "rev") as pair_cache:
        add_all(pair_cache, a, b)
        for table, column in (("evidence", "seen"), ("comparisons", "seen"), ("signatures", "keypoints")):
            value = b"of another length" if table == "signatures" else '{"of": "another"}'
            pair_cache._connection.execute(f"UPDATE {table} SET {column}=?", (value,))
        assert known_of(pair_cache, a, b) == [True, False, False, True, False]


def test_what_is_no_cache_of_this_version_is_refused_with_the_way_out(path):
    path.write_bytes(b"")
    with PairCache(path, "rev") as pair_cache:
        pair_cache._connection.execute("PRAGMA user_version=20")
    with pytest.raises(DedupeError, match="format version 20, and this Diptych reads version 19; delete it"):
        PairCache(path, "rev")
    path.write_bytes(b"no database at all " * 100)
    with pytest.raises(DedupeError, match=r"dedupe\.sqlite: file is not a database; .*delete it"):
        PairCache(path, "rev")


@pytest.mark.parametrize("version", [1, 2, 5, 14])
def test_of_an_earlier_version_scores_stay_and_all_else_is_made_again(path, picture, version):
    a, b = picture(), picture()
    with PairCache(path, "rev") as pair_cache:
        add_all(pair_cache, a, b)
        old = f"ALTER TABLE files DROP COLUMN frames; PRAGMA user_version={version};"
        if version < 5:
            old += "DROP TABLE evidence; DROP TABLE hashes; DROP TABLE signatures; DROP TABLE comparisons;"
        if version == 1:
            old += "ALTER TABLE pairs RENAME TO new; CREATE TABLE pairs (a BLOB NOT NULL, b BLOB NOT NULL, logit REAL "
            old += "NOT NULL, PRIMARY KEY (a, b)) WITHOUT ROWID; INSERT INTO pairs SELECT a, b, logit FROM new;"
            old += "DROP TABLE new;"
        pair_cache._connection.executescript(old)
    for _ in range(2):
        with PairCache(path, "rev") as pair_cache:
            question = "match" if version == 1 else "copy"
            assert pair_cache.get_scores([a.id, b.id], question)[1].tolist() == [1.5]
            assert known_of(pair_cache, a, b)[1:] == [False] * 4
            assert not pair_cache.get_files(["/photos"])
