"""The cache of earlier runs, beside the collection: files with their digests, hashes of contents, scores of pairs."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from pydantic import TypeAdapter

from diptych.errors import DedupeError
from diptych.pictures.file_info import Facts, Picture
from diptych.store.sqlite.cache import CacheDatabase, in_one_step, paths_below, version_of
from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.calibration.questions import MATCH
from diptych_runtime.closer_look.comparison import Comparison
from diptych_runtime.closer_look.votes import LENGTH

T = TypeVar("T")

LEDGER = "dedupe.sqlite"
_EVIDENCE_OF = TypeAdapter(Evidence)
_VERSION = 19

# Pairs are named by the ids of contents, so a file that changes its name keeps its scores and one that changes its
# content has none. An id is 16 bytes here, the lower one first. A score is of one question of the model.
_PAIRS = """
CREATE TABLE pairs (question TEXT NOT NULL, a BLOB NOT NULL, b BLOB NOT NULL, logit REAL NOT NULL,
  PRIMARY KEY (question, a, b)) WITHOUT ROWID;
"""
# What is of no model, so that another one finds it: what a closer look at a pair saw and what a comparison in full size
# did, as JSON; perceptual hashes of contents (NULL: too little to be hashed); and the signatures of their keypoints, 32
# bytes each, one after the other. Of an earlier version these say less, and are made again.
_OF_NO_MODEL = """
DROP TABLE IF EXISTS files;
CREATE TABLE files (path TEXT PRIMARY KEY, id BLOB NOT NULL, bytes INTEGER NOT NULL, modified INTEGER NOT NULL,
  width INTEGER NOT NULL, height INTEGER NOT NULL, format TEXT NOT NULL, exif INTEGER NOT NULL, taken REAL,
  frames INTEGER NOT NULL, trailing INTEGER NOT NULL, is_damaged INTEGER NOT NULL, bits INTEGER NOT NULL,
  has_alpha INTEGER NOT NULL, is_lossless INTEGER NOT NULL, descriptions TEXT NOT NULL,
  inode_changed INTEGER NOT NULL);
CREATE INDEX files_id ON files (id);
DROP TABLE IF EXISTS evidence;
CREATE TABLE evidence (a BLOB NOT NULL, b BLOB NOT NULL, seen TEXT NOT NULL, PRIMARY KEY (a, b)) WITHOUT ROWID;
DROP TABLE IF EXISTS comparisons;
CREATE TABLE comparisons (a BLOB NOT NULL, b BLOB NOT NULL, seen TEXT NOT NULL, PRIMARY KEY (a, b)) WITHOUT ROWID;
DROP TABLE IF EXISTS hashes;
CREATE TABLE hashes (id BLOB PRIMARY KEY, phash INTEGER) WITHOUT ROWID;
DROP TABLE IF EXISTS signatures;
CREATE TABLE signatures (id BLOB PRIMARY KEY, keypoints BLOB NOT NULL) WITHOUT ROWID;
"""
_TABLES = f"{_PAIRS} CREATE TABLE model (revision TEXT NOT NULL); {_OF_NO_MODEL}"
# Models of the time of version 1 have a single question.
_LIFT = f"""
ALTER TABLE pairs RENAME TO old;
{_PAIRS}
INSERT INTO pairs SELECT '{MATCH}', a, b, logit FROM old;
DROP TABLE old;
"""
_COLUMNS = f"path, id, bytes, modified, {', '.join(Facts._fields)}, inode_changed"
_FLAGS = ("is_damaged", "has_alpha", "is_lossless")

# The types of rows as they are written.
_TYPES: dict[str, list[tuple[type, ...]]] = {
    "files": [(str, bytes, int, int, int, int, str, int, taken, *[int] * 6, str, int) for taken in (float, type(None))],
    "hashes": [(bytes, int), (bytes, type(None))],
    "signatures": [(bytes, bytes)],
    "pairs": [(bytes, bytes, float)],
}


class KnownFile(NamedTuple):
    """A picture file, and the time (ns) at which its inode last changed."""

    picture: Picture
    inode_changed: int


class PairCache(CacheDatabase):
    """Files and scored pairs in one SQLite database; a write is on the disk when its method returns.

    It has no lock of its own: its user has the collection beside it open for writing.
    """

    error, remedy = DedupeError, "the next run computes again what it holds"

    def __init__(self, path: Path | None, revision: str | None) -> None:
        """Open or make it, by default in memory; scores of another `revision` are dropped. Raises DedupeError."""
        self.path = path or Path(":memory:")
        with self._translate_errors():
            self._connection = self.connect(self.path)
        try:
            with self._translate_errors():
                self._prepare_tables(revision)
        except BaseException:
            self._connection.close()
            raise

    def get_files(self, folders: Iterable[str]) -> dict[str, KnownFile]:
        """The files known below these folders, by path."""
        found = {}
        for folder in folders:
            query = f"SELECT {_COLUMNS} FROM files WHERE path > ? AND path < ?"
            for path, id, bytes_, modified, *rest, changed in self._read_rows("files", query, paths_below(folder)):
                facts = dict(zip(Facts._fields, rest, strict=True))
                facts |= {name: bool(facts[name]) for name in _FLAGS}
                found[path] = KnownFile(Picture(id.hex(), path, bytes_, modified, **facts), changed)
        return found

    def add_files(self, files: Sequence[KnownFile]) -> None:
        """Remember files; earlier entries of their paths are replaced."""
        rows = [
            (p.path, bytes.fromhex(p.id), p.bytes, p.modified, *(getattr(p, name) for name in Facts._fields), changed)
            for p, changed in files
        ]
        self._write_rows("files", rows)

    def forget_files(self, paths: Sequence[str]) -> None:
        """Forget files, and the scores of contents that no file has any more."""
        with self._transaction() as connection:
            connection.executemany("DELETE FROM files WHERE path=?", [(path,) for path in paths])
            for table in ("pairs", "evidence", "comparisons"):
                connection.execute(
                    f"DELETE FROM {table} WHERE a NOT IN (SELECT id FROM files) OR b NOT IN (SELECT id FROM files)"
                )
            for table in ("hashes", "signatures"):
                connection.execute(f"DELETE FROM {table} WHERE id NOT IN (SELECT id FROM files)")

    def forget_all_but(self, paths: Collection[str]) -> None:
        """Forget the files at other paths, and the scores of contents that no file has any more."""
        with self._translate_errors():
            known = [path for (path,) in self._connection.execute("SELECT path FROM files")]
        if old := sorted(set(known).difference(paths)):
            self.forget_files(old)

    def get_scores(self, ids: Sequence[str], question: str) -> tuple[np.ndarray, np.ndarray]:
        """Known pairs among the contents of these ids: keys int64 (n,) ascending, and logits float32 (n,).

        They answer the question. The key of contents at the places i < j is i * len(ids) + j.
        """
        place = {bytes.fromhex(id): number for number, id in enumerate(ids)}
        keys, logits = [], []
        for a, b, logit in self._read_rows("pairs", "SELECT a, b, logit FROM pairs WHERE question=?", (question,)):
            if a in place and b in place:
                low, high = sorted((place[a], place[b]))
                keys.append(low * len(ids) + high)
                logits.append(logit)
        found = np.array(keys, np.int64)
        order = np.argsort(found)
        return found[order], np.array(logits, np.float32)[order]

    def add_scores(self, pairs: Sequence[tuple[str, str]], logits: np.ndarray, question: str) -> None:
        """Remember the logits float32 (n,) of n pairs of ids, as they answer a question."""
        rows = [(question, *_pair_ids(pair), float(logit)) for pair, logit in zip(pairs, logits, strict=True)]
        self._write_rows("pairs", rows)

    def get_evidence(self, pairs: Sequence[tuple[str, str]]) -> list[Evidence | None]:
        """The evidence of closer looks at these pairs of ids; None where there was no look, or it is damaged."""
        found = [self._get_seen("evidence", pair, _EVIDENCE_OF.validate_json) for pair in pairs]
        return [None if one is None else _in_order(one, pair) for one, pair in zip(found, pairs, strict=True)]

    def add_evidence(self, pairs: Sequence[tuple[str, str]], seen: Sequence[Evidence]) -> None:
        """Remember the evidence of closer looks at pairs of ids."""
        both = [(_pair_ids(pair), _in_order(evidence, pair)) for pair, evidence in zip(pairs, seen, strict=True)]
        self._write_rows("evidence", [(*ids, json.dumps(asdict(evidence))) for ids, evidence in both])

    def get_comparison(self, a: str, b: str) -> Comparison | None:
        """What was seen of a pair of ids in full size, the lower id first; None where it was not, or it is damaged."""
        return self._get_seen("comparisons", (a, b), lambda text: Comparison.from_json(json.loads(text)))

    def add_comparison(self, a: str, b: str, seen: Comparison) -> None:
        """Remember what was seen of a pair of ids in full size, the lower id first."""
        self._write_rows("comparisons", [(*_pair_ids((a, b)), json.dumps(seen.as_json()))])

    def get_signatures(self, ids: Sequence[str]) -> dict[str, np.ndarray]:
        """The signatures uint8 (P, 32) of the keypoints of contents, by id: of those that are known."""
        query = "SELECT id, keypoints FROM signatures WHERE id=?"
        rows = [row for id in ids for row in self._read_rows("signatures", query, (bytes.fromhex(id),))]
        whole = {id.hex(): keypoints for id, keypoints in rows if len(keypoints) % LENGTH == 0}  # damage is made anew
        return {id: np.frombuffer(keypoints, np.uint8).reshape(-1, LENGTH) for id, keypoints in whole.items()}

    def add_signatures(self, signatures: Mapping[str, np.ndarray]) -> None:
        """Remember the signatures of contents."""
        self._write_rows("signatures", [(bytes.fromhex(id), one.tobytes()) for id, one in signatures.items()])

    def get_hashes(self) -> dict[str, int | None]:
        """The perceptual hashes, 64 bits, of contents by id; None where there is too little to be seen."""
        rows = self._read_rows("hashes", "SELECT id, phash FROM hashes")
        return {id.hex(): None if phash is None else phash % 2**64 for id, phash in rows}

    def add_hashes(self, hashes: Mapping[str, int | None]) -> None:
        """Remember the perceptual hashes of contents."""
        self._write_rows("hashes", [(bytes.fromhex(id), _to_signed(phash)) for id, phash in hashes.items()])

    def _write_rows(self, table: str, rows: Sequence[tuple]) -> None:
        """Write rows of a table, in place of earlier ones with the same keys."""
        if rows:
            marks = ",".join("?" * len(rows[0]))
            with self._transaction() as connection:
                connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", rows)

    def _read_rows(self, table: str, query: str, values: Sequence[object] = ()) -> Iterator[tuple]:
        """The rows of a query, which must have the types of their table, as SQLite itself does not ensure."""
        with self._translate_errors():
            for row in self._connection.execute(query, values):
                if tuple(map(type, row)) not in _TYPES[table]:
                    raise DedupeError(
                        f"{self.path} is damaged: its table {table} has values of another type than Diptych writes; "
                        f"delete it: {self.remedy}"
                    )
                yield row

    def _get_seen(self, table: str, pair: tuple[str, str], parse: Callable[[str], T]) -> T | None:
        """What is known of a pair of ids; None for nothing, and for what is damaged, which is made again."""
        with self._translate_errors():
            query = f"SELECT seen FROM {table} WHERE a=? AND b=?"
            row = self._connection.execute(query, _pair_ids(pair)).fetchone()
        with suppress(ValueError, TypeError, KeyError):  # as pydantic's are
            return None if row is None else parse(row[0])
        return None

    def _prepare_tables(self, revision: str | None) -> None:
        connection = self._connection
        version = version_of(connection)
        if version == 0:
            in_one_step(connection, _TABLES, _VERSION)
        elif version in range(1, _VERSION):
            in_one_step(connection, (_LIFT if version == 1 else "") + _OF_NO_MODEL, _VERSION)
        elif version != _VERSION:
            raise DedupeError(
                f"{self.path} has the format version {version}, and this Diptych reads version {_VERSION}; delete it: "
                f"{self.remedy}"
            )
        known = connection.execute("SELECT revision FROM model").fetchone()
        if revision is not None and known != (revision,):
            with self._transaction():
                connection.execute("DELETE FROM pairs")
                connection.execute("DELETE FROM model")
                connection.execute("INSERT INTO model VALUES (?)", (revision,))


def _pair_ids(pair: tuple[str, str]) -> list[bytes]:
    """The ids of a pair as its tables have them."""
    return sorted(map(bytes.fromhex, pair))


def _in_order(seen: Evidence, pair: tuple[str, str]) -> Evidence:
    """The evidence of a pair of ids as of the lower one first, or the other way."""
    return seen if pair[0] < pair[1] else seen.with_sides_swapped


def _to_signed(phash: int | None) -> int | None:
    """A hash as SQLite holds it, whose integers have a sign."""
    return phash if phash is None or phash < 2**63 else phash - 2**64
