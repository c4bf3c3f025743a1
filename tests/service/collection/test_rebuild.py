import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from embedded import BEFORE_5

from diptych.collection.collection import Collection
from diptych.collection.rebuild import rebuild_collection
from diptych.errors import StoreError
from diptych.scoring.scorer import Scorer
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.schema import DATABASE, row_checksum
from diptych.store.sqlite.verify import verify_store
from diptych_runtime.errors import ArtifactError, PictureError

PAGE = 4096
UNUSED = 1_000_000 - 2 * PAGE  # bytes that `former` has free, without what tables of later versions take


def healthy(folder) -> bool:
    try:
        with Store.open(folder, read_only=True) as store:
            return verify_store(store).healthy
    except StoreError:
        return False


@pytest.fixture
def whole(collection, photo_bytes):
    """The folder of a closed collection of 12 pictures, all in one file, a part of which nothing uses any more."""
    removed = [collection.add(photo_bytes(seed), keep_originals=True)[0].id for seed in range(50, 54)]
    for id in removed:
        collection.remove(id)
    collection.close()
    with closing(sqlite3.connect(collection.directory / DATABASE)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return collection.directory


def test_whichever_page_of_the_database_is_damaged_it_is_mended_or_said_to_be_past_mending(whole, scorer, tmp_path):
    fates, reasons = Counter(), []
    pages = (whole / DATABASE).stat().st_size // PAGE
    for page in range(1, pages):  # without the first, it is no database
        folder = tmp_path / f"page-{page}"
        shutil.copytree(whole, folder)
        with (folder / DATABASE).open("r+b") as file:
            file.seek(page * PAGE)
            file.write(b"\x55" * 64)
        damaged = not healthy(folder)
        try:
            report = rebuild_collection(folder, scorer)
        except StoreError as error:
            reasons.append(str(error))
        else:
            assert healthy(folder)
            assert report.mended == damaged
            fates[report.mended] += 1
        shutil.rmtree(folder)
    assert fates[True] > 0
    assert len(reasons) > 0
    assert all("cannot be mended. Restore a backup" in reason for reason in reasons)


AWAY = {
    "{} does not exist": lambda gallery: None,
    "{} has no picture any more": lambda gallery: (gallery.mkdir(), (gallery / "NOT MOUNTED").touch()),
    "{} or a file in it cannot be read: Too many levels of symbolic links": lambda gallery: gallery.symlink_to(gallery),
}


@pytest.mark.parametrize("sign", AWAY)
def test_pictures_whose_disk_may_be_away_are_not_dropped_unless_all_may_go(collection, scorer, gallery, sign):
    folder = collection.directory
    below = sum(Path(record.path).parent != gallery for record in collection.list(100))
    collection.add(np.zeros((40, 40, 3), np.uint8))
    collection.close()
    gallery.rename(gallery.with_name("disk"))
    AWAY[sign](gallery)
    report = rebuild_collection(folder, scorer, everything=True, drop=True)
    assert (report.failed, report.removed, report.pictures) == (13, 1, 12), "only what never had a file goes"
    assert report.spared[sign.format(gallery)] == 12 - below
    assert sum(report.spared.values()) == 12
    again = rebuild_collection(folder, scorer, everything=True, drop=True, allow_removal=True)
    assert (again.removed, again.pictures, again.spared) == (12, 0, {})


def test_a_file_that_is_gone_from_among_others_is_dropped_and_so_is_one_with_another_content(
    collection, scorer, gallery, photo_bytes
):
    collection.close()
    (gallery / "01.jpg").unlink()
    (gallery / "02.jpg").write_bytes(photo_bytes(90))
    (gallery / "04.jpg").write_bytes(b"no picture")
    report = rebuild_collection(collection.directory, scorer, everything=True, drop=True)
    assert (report.removed, report.pictures, report.spared) == (3, 9, {})


@pytest.mark.parametrize("kept", [True, False])
def test_a_file_that_is_whole_and_cannot_be_decoded_here_is_not_dropped(collection, scorer, monkeypatch, kept):
    record = collection.list(1)[0]
    collection.close()

    def pixels(data, name=None):
        if name == record.path:
            raise PictureError("HEIF, which cannot be read here")
        return decode(data, name=name)

    decode = scorer.pixels
    monkeypatch.setattr(scorer, "pixels", pixels)
    if not kept:
        Path(record.path).write_bytes(Path(record.path).read_bytes() + b"changed")
    report = rebuild_collection(collection.directory, scorer, everything=True, drop=True, allow_removal=True)
    assert (report.failed, report.removed) == (1, 0 if kept else 1)


@pytest.fixture
def former(collection):
    """The folder of a collection of an earlier version, which kept tokens in float16 as the network gives them."""
    scorer, folder = collection.scorer, collection.directory
    unrounded = replace(scorer.runtime.codec, byte_channels=0)
    collection.close()
    with closing(sqlite3.connect(folder / DATABASE)) as connection, connection:
        for row, path in connection.execute("SELECT row, path FROM pictures").fetchall():
            pixels = scorer.pixels(Path(path))[None]
            tokens = unrounded.pack_tokens(scorer.runtime._panel.run(None, {"pixels": pixels})[0].astype(np.float16))[0]
            connection.execute("UPDATE pictures SET tokens=? WHERE row=?", (tokens, row))
            connection.execute("UPDATE digests SET tokens=? WHERE row=?", (row_checksum(tokens), row))
        connection.executescript(
            f"{BEFORE_5} PRAGMA user_version=3; CREATE TABLE room (b); INSERT INTO room VALUES (zeroblob(1000000));"
            "DROP TABLE room"
        )
    return folder


def test_tokens_that_an_earlier_version_kept_are_those_of_the_files_to_the_bit(former, gallery, scorer, photo_bytes):
    with Collection.open(former, scorer, read_only=True) as collection:
        for record in collection.list():
            assert np.array_equal(collection.panel(record.id)[0], scorer.panels([Path(str(record.path))]).tokens[0])
    with Collection.open(former, scorer) as collection:
        new = collection.add(photo_bytes(77))[0]
        found = {match.id: match for match in collection.search(gallery / "01.jpg", top=13).matches}
        assert set(found) == {record.id for record in collection.list()}
        scores = scorer.logits(scorer.panels([gallery / "01.jpg"]).tokens, collection.panel(new.id)[0][None])
        assert found[new.id].raw_score == pytest.approx(float(scores[0]))
        assert verify_store(collection.store).healthy


def test_a_rebuild_gives_unused_room_back_and_reads_no_file_for_tokens_that_an_earlier_version_kept(
    former, gallery, scorer
):
    with Collection.open(former, scorer) as collection:
        before = {record.id: collection.panel(record.id)[0] for record in collection.list()}
        size = collection.store.path.stat().st_size
    shutil.rmtree(gallery)
    report = rebuild_collection(former, scorer)
    assert (report.pictures, report.embedded, report.failed) == (12, 0, 0)
    with Collection.open(former, scorer) as collection:
        assert all(np.array_equal(collection.panel(id)[0], tokens) for id, tokens in before.items())
        assert verify_store(collection.store).healthy
        assert collection.store.path.stat().st_size < size - UNUSED


def test_an_artifact_of_an_earlier_version_neither_loses_nor_compares_what_is_kept_in_8_bits(
    collection, artifact, gallery, tmp_path
):
    collection.close()
    query = (gallery / "01.jpg").read_bytes()
    shutil.rmtree(gallery)
    before = tmp_path / "before"
    shutil.copytree(artifact, before)
    manifest = json.loads((before / "manifest.json").read_text())
    del manifest["byte_channels"]
    (before / "manifest.json").write_text(json.dumps(manifest))
    scorer = Scorer.load(str(before), provider="cpu", threads=1)
    report = rebuild_collection(collection.directory, scorer, drop=True, allow_removal=True)
    assert (report.pictures, report.embedded, report.failed, report.removed) == (12, 0, 0, 0)
    said = r"have 12 of 12 channels in 8 bits, and this artifact keeps 0: .* export its checkpoint again"
    with Collection.open(collection.directory, scorer) as opened, pytest.raises(ArtifactError, match=said):
        opened.search(query)
    assert healthy(collection.directory)


def test_tokens_that_are_damaged_under_a_right_checksum_are_made_anew(collection, scorer):
    collection.close()
    kept = scorer.runtime.codec.nbytes
    with closing(sqlite3.connect(collection.directory / DATABASE)) as connection, connection:
        for row, tokens in ((2, bytes(kept)), (5, b"T9" + bytes(kept - 2)), (7, b"T8")):
            connection.execute("UPDATE pictures SET tokens=? WHERE row=?", (tokens, row))
            connection.execute("UPDATE digests SET tokens=? WHERE row=?", (row_checksum(tokens), row))
    assert not healthy(collection.directory)
    assert rebuild_collection(collection.directory, scorer).embedded == 3
    assert healthy(collection.directory)
