"""kill -9 while a store of 0.1 is upgraded: nothing that was in it is lost (see docs/faults.md)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import torture_upgrade
from campaign import survived
from torture_upgrade import DATABASE, LEDGER, Old

DEPENDS_ON = (
    "service/diptych/collection/sync",
    "service/diptych/dedupe/pair_cache.py",
    "service/diptych/pictures/content.py",
    "service/diptych/store",
    "tests/service/fixtures",
)

PROGRAM = Path(__file__).with_name("torture_upgrade.py")


def rows(environment: dict[str, str], cycles: int, seed: int) -> list[list[str]]:
    found, code = survived(PROGRAM, environment, "--cycles", cycles, "--seed", seed)
    assert code == 0
    assert [row[0] for row in found] == list(torture_upgrade.STORES)
    return found


def test_an_upgrade_survives_many_kills_in_its_middle(environment):
    for _, cycles, killed, _, *bad in rows(environment, 40, 2):
        assert (cycles, bad) == ("40", ["0", "0"])
        assert int(killed) > 20


def test_an_upgrade_that_loses_something_is_found_out(monkeypatch):
    upgrade = Old.upgrade

    def lose(old, store) -> None:
        upgrade(old, store)
        with closing(sqlite3.connect(store / DATABASE)) as database, database:
            database.execute("DELETE FROM pictures WHERE row=7")
        with closing(sqlite3.connect(store / LEDGER)) as ledger, ledger:
            ledger.execute("UPDATE pairs SET logit=0.75 WHERE logit=0.5")

    monkeypatch.setattr(Old, "upgrade", lose)
    tally = torture_upgrade.torture("first", 5, 0)
    assert tally.cycles == 1
    assert {"1 pictures are gone", f"{torture_upgrade.PICTURES - 1} pairs are gone"} <= set(tally.lost)
    assert f"{torture_upgrade.PICTURES - 1} pairs were not there before" in tally.false
