"""Kills the upgrade of a store of Diptych 0.1: `python tests/endurance/torture_upgrade.py --cycles 300 --seed 1`.

The store of a fixture, with a thousand more pictures and their pairs, is opened by a child, which brings it to the
present format and is killed at a moment drawn from the seed, often several times. Then it is opened in peace, and all
that was in it before has to be there. `first` is the first format of 0.1, `undigested` the one before checksums.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import shutil
import sqlite3
import sys
import tarfile
import tempfile
import time
import zlib
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from campaign import Tally, campaign, kill_after

from diptych.collection.sync.seen_files import SeenFiles
from diptych.dedupe.pair_cache import LEDGER, PairCache
from diptych.pictures.content import picture_id
from diptych.store.sqlite.backend import SqliteBackend
from diptych.store.sqlite.schema import DATABASE, DIGESTS, open_connection
from diptych_runtime.decoder import PictureLimits
from diptych_runtime.manifest import Manifest

FIXTURE = Path(__file__).parents[1] / "service/fixtures/0.1-first.tar.xz"
STORES = ("first", "undigested")
PICTURES = 1000


class Old:
    """A store of an old format, and what is in it."""

    def __init__(self, folder: Path, kind: str) -> None:
        with tarfile.open(FIXTURE) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 has it
            archive.extractall(folder)
        self.store, self.kind = folder / "store", kind
        manifest = Manifest.load(folder / "artifact")
        self.runtime = SimpleNamespace(
            name=manifest.name, revision=manifest.revision, embedding_dim=manifest.embedding_dim
        )
        self._fill()
        with closing(sqlite3.connect(self.store / DATABASE)) as database:
            self.pictures = set(database.execute("SELECT * FROM pictures"))
        with closing(sqlite3.connect(self.store / LEDGER)) as ledger:
            self.pairs = set(ledger.execute("SELECT a, b, logit FROM pairs"))
        with SeenFiles(self.store, PictureLimits(), read_only=True) as seen:
            self.seen = seen.files(["/"])
        if not (len(self.pictures) > PICTURES < len(self.pairs) and self.seen):
            raise AssertionError("the fixture has not what is to be tortured")

    def _fill(self) -> None:
        """Add pictures and pairs, with the features of one that is there."""
        ids = [hashlib.sha256(b"%d" % number).hexdigest() for number in range(PICTURES)]
        with closing(open_connection(self.store / DATABASE, read_only=False)) as database:
            database.execute("BEGIN")
            for sha256 in ids:
                row = database.execute(
                    "INSERT INTO pictures (id, sha256, media_type, width, height, metadata, revision, added, embedding,"
                    " tokens) SELECT ?, ?, media_type, width, height, metadata, revision, added, embedding, tokens"
                    " FROM pictures WHERE row=(SELECT min(row) FROM pictures)",
                    (picture_id(sha256), sha256),
                ).lastrowid
                database.execute("INSERT INTO changes (row) VALUES (?)", (row,))
                database.execute(f"{DIGESTS} WHERE row=?", (row,))
            if self.kind == "undigested":
                database.execute("DROP TABLE digests")
                database.execute("DROP TABLE IF EXISTS labels")
                database.execute("DROP TABLE IF EXISTS removed")
                database.execute("PRAGMA user_version=1")
            database.execute("COMMIT")
        with closing(sqlite3.connect(self.store / LEDGER)) as ledger, ledger:
            pairs = [(bytes.fromhex(one)[:16], bytes.fromhex(two)[:16]) for one, two in pairwise(ids)]
            ledger.executemany("INSERT INTO pairs VALUES (?,?,?)", [(*sorted(pair), 0.5) for pair in pairs])

    def upgrade(self, store: Path) -> None:
        """Bring everything in a store to the present format, and save its index."""
        with (
            SqliteBackend.searchable(store, cast(Any, self.runtime)),
            SeenFiles(store, PictureLimits()),
            PairCache(store / LEDGER, self.runtime.revision),
        ):
            pass

    def differences(self, store: Path) -> tuple[list[str], list[str]]:
        """(lost, false): what a store that was upgraded lacks, and what is wrong in it."""
        with SqliteBackend.searchable(store, cast(Any, self.runtime)) as opened:
            false = [f"verify: {text}" for text in opened.verify().problems]
            stored = {row["row"]: row["embedding"] for row in opened.list_features(0, len(self.pictures) + 1)}
            if not np.array_equal(opened.index.rows(), sorted(stored)):
                false.append("the index has other rows than the database")
            elif opened.index.checksums() != {row: zlib.crc32(embedding) for row, embedding in stored.items()}:
                false.append("the index has other embeddings than the database")
        with closing(sqlite3.connect(store / DATABASE)) as database:
            pictures = set(database.execute("SELECT * FROM pictures"))
            if database.execute("SELECT count(*) FROM digests").fetchone()[0] != len(self.pictures):
                false.append("there are not as many checksums as pictures")
        with closing(sqlite3.connect(store / LEDGER)) as ledger:
            pairs = set(ledger.execute("SELECT a, b, logit FROM pairs"))
        with SeenFiles(store, PictureLimits()) as files:
            seen = files.files(["/"])
        held = (("pictures", self.pictures, pictures), ("pairs", self.pairs, pairs))
        held += (("files", set(self.seen.items()), set(seen.items())),)
        lost = [f"{len(before - now)} {name} are gone" for name, before, now in held if before - now]
        false += [f"{len(now - before)} {name} were not there before" for name, before, now in held if now - before]
        return lost, false


def torture(kind: str, cycles: int, seed: int) -> Tally:
    """Upgrade fresh copies of an old store so many times."""
    tally, draw = Tally(), random.Random(f"{kind} {seed}")
    with tempfile.TemporaryDirectory() as folder:
        old, store = Old(Path(folder, "old"), kind), Path(folder, "store")
        shutil.copytree(old.store, store)
        began = time.monotonic()
        old.upgrade(store)  # one that nothing happens to, to see how long it takes
        longest = 1.1 * (time.monotonic() - began)
        for _ in range(cycles):
            shutil.rmtree(store)
            shutil.copytree(old.store, store)
            while True:
                if ended := kill_after(draw.uniform(0, longest), lambda: old.upgrade(store)):
                    raise AssertionError("an upgrade ended with an error")
                tally.acknowledged += ended is None
                if draw.random() < 0.6:
                    break
            old.upgrade(store)
            lost, false = old.differences(store)
            tally.cycles, tally.lost, tally.false = tally.cycles + 1, tally.lost + lost, tally.false + false
            if not tally.survived:
                break
    return tally


def main() -> int:
    """Run what the command line asks for: 0 if nothing was lost, 1 if something was."""
    parser = argparse.ArgumentParser(description="Kill the upgrade of an old store.")
    return campaign(parser, STORES, lambda kind, args: torture(kind, args.cycles, args.seed))


if __name__ == "__main__":
    sys.exit(main())
