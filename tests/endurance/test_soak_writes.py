"""The soak of writes, for a few rounds of few pictures. docs/studies/2026-11-faults.md has a long one."""

import soak_writes
from soak_writes import Week, grown

from diptych import Collection

DEPENDS_ON = ("service/diptych/collection", "service/diptych/http", "service/diptych/store")


def test_rounds_of_writes_with_backups_lose_nothing(artifact, monkeypatch):
    monkeypatch.setattr(soak_writes, "FEWEST", 4)
    monkeypatch.setattr(soak_writes, "MOST", 40)
    week = soak_writes.soak(str(artifact), minutes=0.01, seed=1)
    assert week.account.wrong == []
    assert week.backups == len(week.rounds) >= 1
    assert week.writes >= 36 * 2
    assert {what for what, _ in week.account.answers} >= {"search"}


def test_a_backup_that_lacks_a_picture_is_found_out(scorer, photo_bytes, tmp_path):
    with Collection.open(tmp_path / "store", scorer, create=True) as collection:
        collection.add([photo_bytes(seed) for seed in range(3)])
    assert soak_writes.copy_whole(tmp_path / "store", tmp_path / "copy", held=3) == []
    (found,) = soak_writes.copy_whole(tmp_path / "store", tmp_path / "copy", held=4)
    assert found == "backup: it has 3 pictures, not 4"


def test_what_grows_by_more_than_a_twentieth_is_named():
    flat = [(100, 50, 10, 1000)] * 9
    assert grown(Week(rounds=flat)) == []
    assert grown(Week(rounds=[*flat[:7], (100, 50, 10, 1051), (104, 50, 10, 1052)])) == ["bytes of the store"]
    assert grown(Week(rounds=[(10, 1, 1, 1), *flat])) == [], "the first round warms up"
