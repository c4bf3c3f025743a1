from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from diptych.dedupe.pair_cache import KnownFile, PairCache
from diptych.errors import DedupeError
from diptych.pictures.file_info import Picture
from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.closer_look.votes import LENGTH


@pytest.fixture
def path(tmp_path):
    return tmp_path / "dedupe.sqlite"


def remember(pair_cache: PairCache, pictures: Sequence[Picture]) -> None:
    pair_cache.add_files([KnownFile(picture, 7) for picture in pictures])


def test_files_and_scores_are_there_again_after_it_was_closed(path, picture):
    a, b, c = (
        picture(path=f"/photos/{name}.jpg", taken=taken) for name, taken in (("a", 1.5), ("b", None), ("c", 0.0))
    )
    with PairCache(path, "rev") as pair_cache:
        remember(pair_cache, [a, b, c])
        pair_cache.add_scores([(a.id, b.id), (c.id, a.id)], np.array([1.25, -2.5], np.float32), "match")
    with PairCache(path, "rev") as pair_cache:
        assert pair_cache.get_files(["/photos"]) == {one.path: KnownFile(one, 7) for one in (a, b, c)}
        keys, logits = pair_cache.get_scores([c.id, a.id, b.id], "match")
    assert (keys.tolist(), logits.tolist()) == ([1, 5], [-2.5, 1.25])
    assert logits.dtype == np.float32


def test_only_files_below_the_folders_are_given(path, picture):
    names = ("/photos/a.jpg", "/photos-2/a.jpg", "/photos0.jpg", "/other/photos/a.jpg", "/photos/b/c.jpg")
    with PairCache(path, "rev") as pair_cache:
        remember(pair_cache, [picture(path=name) for name in names])
        assert pair_cache.get_files(["/photos/"]).keys() == {"/photos/a.jpg", "/photos/b/c.jpg"}
        assert len(pair_cache.get_files(["/"])) == 5


def test_a_changed_file_replaces_what_was_known(path, picture):
    old = picture()
    with PairCache(path, "rev") as pair_cache:
        remember(pair_cache, [old])
        remember(pair_cache, [replace(old, bytes=7)])
        assert pair_cache.get_files(["/photos"])[old.path].picture.bytes == 7


def test_scores_of_contents_that_no_file_has_go_with_the_file_and_others_stay(path, picture):
    a, b, c = picture(), picture(), picture()
    twin = picture(id=a.id)
    with PairCache(path, "rev") as pair_cache:
        remember(pair_cache, [a, b, c, twin])
        pair_cache.add_scores([(a.id, b.id), (b.id, c.id)], np.zeros(2, np.float32), "match")
        pair_cache.forget_files([a.path])
        assert len(pair_cache.get_scores([a.id, b.id, c.id], "match")[0]) == 2, "the twin still has it"
        pair_cache.forget_files([twin.path])
        assert pair_cache.get_scores([a.id, b.id, c.id], "match")[0].tolist() == [5]


def test_scores_of_another_model_are_dropped_and_files_stay(path, picture):
    a, b = picture(), picture()
    with PairCache(path, "rev") as pair_cache:
        remember(pair_cache, [a, b])
        pair_cache.add_scores([(a.id, b.id)], np.zeros(1, np.float32), "match")
    with PairCache(path, "other") as pair_cache:
        assert len(pair_cache.get_scores([a.id, b.id], "match")[0]) == 0
        assert len(pair_cache.get_files(["/photos"])) == 2


@pytest.mark.parametrize("content", [b"no database at all " * 100, b""])
def test_what_is_no_ledger_is_refused_with_the_way_out_and_an_empty_file_is_a_new_one(path, content):
    path.write_bytes(content)
    if not content:
        PairCache(path, "rev").close()
        return
    with pytest.raises(DedupeError, match=r"dedupe\.sqlite: file is not a database; .*delete it"):
        PairCache(path, "rev")


def test_a_ledger_of_another_version_is_refused(path):
    with PairCache(path, "rev") as pair_cache:
        pair_cache._connection.execute("PRAGMA user_version=17")
    with pytest.raises(DedupeError, match="format version 17, and this Diptych reads version 16; delete it"):
        PairCache(path, "rev")


def test_a_score_of_one_question_is_not_that_of_another(path, picture):
    a, b = picture(), picture()
    with PairCache(path, "rev") as pair_cache:
        remember(pair_cache, [a, b])
        pair_cache.add_scores([(a.id, b.id)], np.array([1.5], np.float32), "copy")
        assert len(pair_cache.get_scores([a.id, b.id], "thing")[0]) == 0
        pair_cache.add_scores([(b.id, a.id)], np.array([-2.5], np.float32), "thing")
    with PairCache(path, "rev") as pair_cache:
        assert pair_cache.get_scores([a.id, b.id], "copy")[1].tolist() == [1.5]
        assert pair_cache.get_scores([a.id, b.id], "thing")[1].tolist() == [-2.5]


def test_what_an_older_version_knew_is_kept_as_answers_of_its_one_question(path, picture):
    a, b = picture(), picture()
    with PairCache(path, "rev") as pair_cache:
        remember(pair_cache, [a, b])
        pair_cache._connection.executescript(
            "DROP TABLE pairs; DROP TABLE evidence; DROP TABLE hashes; DROP TABLE signatures; "
            "CREATE TABLE pairs (a BLOB NOT NULL, b BLOB NOT NULL, logit REAL NOT NULL, "
            "PRIMARY KEY (a, b)) WITHOUT ROWID; ALTER TABLE files DROP COLUMN inode_changed; PRAGMA user_version=1"
        )
        row = (*sorted((bytes.fromhex(a.id), bytes.fromhex(b.id))), 1.25)
        pair_cache._connection.execute("INSERT INTO pairs VALUES (?,?,?)", row)
    for _ in range(2):
        with PairCache(path, "rev") as pair_cache:
            assert pair_cache.get_scores([a.id, b.id], "match")[1].tolist() == [1.25]
            assert len(pair_cache.get_scores([a.id, b.id], "copy")[0]) == 0
            assert not pair_cache.get_files(["/photos"]), "both are read once more"


def test_what_a_closer_look_saw_is_kept_whichever_model_asks_and_goes_with_the_file(path, picture):
    a, b, c = picture(), picture(), picture()
    seen = Evidence(300, 40, 30, 0.5, agreement=0.9)
    with PairCache(path, "rev") as pair_cache:
        remember(pair_cache, [a, b, c])
        pair_cache.add_evidence([(b.id, a.id)], [seen])
    with PairCache(path, "another") as pair_cache:
        assert pair_cache.get_evidence([(a.id, b.id), (b.id, a.id), (a.id, c.id)]) == [seen, seen, None]
        pair_cache._connection.execute("UPDATE evidence SET seen=?", ('{"of": "a later version"}',))
        assert pair_cache.get_evidence([(a.id, b.id)]) == [None]
        pair_cache.add_evidence([(a.id, b.id)], [seen])
        pair_cache.forget_files([a.path])
        assert pair_cache.get_evidence([(a.id, b.id)]) == [None]


def test_a_ledger_from_before_closer_looks_has_its_scores(path, picture):
    a, b = picture(), picture()
    with PairCache(path, "rev") as pair_cache:
        remember(pair_cache, [a, b])
        pair_cache.add_scores([(a.id, b.id)], np.array([1.5], np.float32), "copy")
        pair_cache._connection.executescript(
            "DROP TABLE evidence; DROP TABLE hashes; DROP TABLE signatures; "
            "ALTER TABLE files DROP COLUMN inode_changed; PRAGMA user_version=2"
        )
    with PairCache(path, "rev") as pair_cache:
        assert pair_cache.get_scores([a.id, b.id], "copy")[1].tolist() == [1.5]
        assert pair_cache.get_evidence([(a.id, b.id)]) == [None]


@pytest.mark.parametrize("version", [4, 5, 6, 7, 8, 9, 10])
def test_looks_that_say_less_are_taken_again(path, picture, version):
    a, b = picture(), picture()
    with PairCache(path, "rev") as pair_cache:
        remember(pair_cache, [a, b])
        pair_cache.add_scores([(a.id, b.id)], np.array([1.5], np.float32), "copy")
        pair_cache.add_evidence([(a.id, b.id)], [Evidence(300, 40, 30, 0.5)])
        pair_cache.add_signatures({a.id: np.zeros((5, LENGTH), np.uint8)})
        without = ("DROP TABLE hashes; " if version < 6 else "") + ("DROP TABLE signatures; " if version < 9 else "")
        pair_cache._connection.executescript(
            f"{without}ALTER TABLE files DROP COLUMN frames; PRAGMA user_version={version}"
        )
    with PairCache(path, "rev") as pair_cache:
        assert pair_cache.get_evidence([(a.id, b.id)]) == [None]
        assert len(pair_cache.get_signatures([a.id])) == (version == 10)
        assert pair_cache.get_scores([a.id, b.id], "copy")[1].tolist() == [1.5]
        assert not pair_cache.get_files(["/photos"]), "older versions do not say how many frames they have"
        remember(pair_cache, [a, b])
        assert pair_cache.get_files(["/photos"]) == {one.path: KnownFile(one, 7) for one in (a, b)}


def test_hashes_are_kept_whichever_model_asks_and_go_with_the_last_file(path, picture):
    a, b = picture(), picture()
    hashes = {a.id: 2**64 - 1, b.id: None}
    with PairCache(path, None) as pair_cache:
        remember(pair_cache, [a, b])
        pair_cache.add_hashes(hashes)
    with PairCache(path, "rev") as pair_cache:
        assert pair_cache.get_hashes() == hashes
        pair_cache.forget_files([a.path])
        assert pair_cache.get_hashes() == {b.id: None}


def test_signatures_are_kept_whichever_model_asks_and_go_with_the_last_file(path, picture):
    a, b, c = picture(), picture(), picture()
    drawn = np.random.default_rng(0).integers(0, 256, (5, LENGTH), np.uint8)
    with PairCache(path, "rev") as pair_cache:
        remember(pair_cache, [a, b])
        pair_cache.add_signatures({a.id: drawn, b.id: drawn[:0]})
    with PairCache(path, "another") as pair_cache:
        found = pair_cache.get_signatures([a.id, b.id, c.id])
        assert found.keys() == {a.id, b.id}
        assert (found[a.id] == drawn).all()
        assert found[b.id].shape == (0, LENGTH)
        pair_cache.forget_files([a.path])
        assert pair_cache.get_signatures([a.id, b.id]).keys() == {b.id}
        pair_cache._connection.execute("UPDATE signatures SET keypoints=?", (b"of another length",))
        assert not pair_cache.get_signatures([b.id]), "what is damaged is computed anew"


def test_scores_stay_where_no_model_is_named(path, picture):
    a, b = picture(), picture()
    with PairCache(path, "rev") as pair_cache:
        remember(pair_cache, [a, b])
        pair_cache.add_scores([(a.id, b.id)], np.array([1.5], np.float32), "copy")
    with PairCache(path, None) as pair_cache:
        assert pair_cache.get_scores([a.id, b.id], "copy")[1].tolist() == [1.5]
    with PairCache(path, "rev") as pair_cache:
        assert pair_cache.get_scores([a.id, b.id], "copy")[1].tolist() == [1.5]
