"""The database of a collection: one SQLite file, one writer, any number of readers."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter

from diptych.errors import StoreError, UnknownPictureError
from diptych.store.filters import Filter, to_sql
from diptych.store.lock import LOCK, WriterLock
from diptych.store.records import Change, FileStamp, NewPicture, Record
from diptych.store.sqlite.labels import Labels
from diptych.store.sqlite.schema import (
    DATABASE,
    DIGESTS,
    FACTS,
    identify_file,
    missing_error,
    prepare_tables,
    row_checksum,
)
from diptych_runtime.atomic import disk_bytes, sync_folder
from diptych_runtime.manifest import PANEL_GRAPH, Manifest
from diptych_runtime.parsing import parse_json

_LAST = "SELECT coalesce(max(sequence), 0) AS last FROM changes"
_WHOLE = f"{FACTS}=(SELECT facts FROM digests WHERE digests.row=pictures.row)"
_STEP = 4096
# A path that is no text was not written by Diptych, whatever its checksum.
_PATH = "d.path IS crc32(p.path) AND typeof(p.path)<>'blob'"
_COLUMNS = (
    "row, id, sha256, p.path, media_type, width, height, metadata, p.revision, added, bytes IS NOT NULL AS kept, stamp,"
    " frames,"
    f" d.facts IS {FACTS} AND {_PATH} AND d.revision IS crc32(p.revision) AS whole"
)
_PLAIN_FACTS = ("id", "path", "width", "height", "added", "media_type", "sha256", "revision", "frames")
_FEATURES = (
    f"row, id, sha256, p.path, p.embedding, p.tokens, bytes, d.facts IS {FACTS} AND {_PATH}"
    " AND d.revision IS crc32(p.revision) AS record_whole,"
    " d.embedding IS crc32(p.embedding) AND d.tokens IS crc32(p.tokens) AS features_whole"
)
_JOINED = "pictures p LEFT JOIN digests d USING (row)"
_AMONG = "IN (SELECT value FROM json_each(?))"
_ROW = "(SELECT row FROM pictures WHERE id=?)"
_MEND = "`diptych index rebuild` embeds it anew"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AdoptedModel:
    """The model that opens a collection: its name or full path, its revision, and the sha256 of its panel graph."""

    model: str
    revision: str
    panel: str

    @classmethod
    def of(cls, model: str, released: Manifest) -> AdoptedModel:
        """A model by the name that it is opened by, and its manifest."""
        return cls(model, released.revision, released.digests[PANEL_GRAPH])


_ADOPTED = TypeAdapter(AdoptedModel)


class Store(Labels):
    """The database of a collection; thread-safe. What a method wrote is on the disk when it returns.

    >>> with Store.open("store", create=True) as store:
    ...     store.insert(pictures)
    """

    def __init__(self, directory: Path, *, read_only: bool, lock: WriterLock | None) -> None:
        super().__init__(directory / DATABASE, read_only=read_only)
        self.directory = directory
        self.identity = ""
        self._lock = lock

    @classmethod
    def open(cls, directory: str | Path, *, create: bool = False, read_only: bool = False) -> Self:
        """Open the collection in a folder, as its only writer or as one reader beside it.

        Raises StoreError for a missing one without `create`, one that is being written, and one of another format.
        """
        directory = Path(directory).absolute()
        path = directory / DATABASE
        if not create and not path.is_file():
            raise missing_error(directory)
        lock, new = None, False
        try:
            if not read_only:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                lock = WriterLock(directory / LOCK, f"the collection {directory}")
                new = not path.exists()
                if not path.is_symlink():  # which is refused below
                    path.touch(mode=0o600)  # SQLite gives its log the same mode
        except OSError as error:
            if lock is not None:
                lock.release()
            raise StoreError(f"{directory} cannot be written: {error.strerror}; choose another folder") from None
        store = cls(directory, read_only=read_only, lock=lock)
        try:
            with store.reading() as connection:
                prepare_tables(connection, path, create=create and not read_only, read_only=read_only)
            store._file = identify_file(path)
            store.identity = store.present_identity()
        except BaseException:
            if new and path.exists() and not path.stat().st_size:
                path.unlink()  # of a full disk nothing is left that looks like a collection
            store.close()
            raise
        return store

    def close(self) -> None:
        """Close the database and let the next writer in."""
        self._close_connections()
        if self._lock is not None:
            self._lock.release()

    def move(self, target: Path) -> None:
        """Close the database and rename its folder before the next writer is let in. Raises OSError, closed too."""
        # First closed, then moved: SQLite removes its log by name, which may be another collection's by then.
        self._close_connections()
        try:
            sync_folder(self.directory)
            self.directory.rename(target)
            sync_folder(target.parent)
        finally:
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def adopted_model(self) -> AdoptedModel | None:
        """The model that was adopted last; None where there is none, or where the pictures are of others since."""
        text = self._read_fact("model")
        try:
            known = None if text is None else _ADOPTED.validate_python(parse_json(text))
        except (ValueError, TypeError):  # not written by Diptych: as good as none, and `models use` replaces it
            return None
        revisions = self.count_revisions()
        return known if known is not None and (not revisions or known.revision in revisions) else None

    def adopt_model(self, model: AdoptedModel, same_panel: Collection[str]) -> int:
        """Make a model the collection's, in one transaction; return how many pictures keep their features.

        They are those of the revisions `same_panel`, which become the model's own.
        """
        values = model.revision, json.dumps(sorted(same_panel))
        of = f"SELECT row FROM pictures WHERE revision {_AMONG}"
        with self._transaction() as connection:
            connection.execute(f"UPDATE digests SET revision=crc32(?) WHERE row IN ({of})", values)
            kept = connection.execute(f"UPDATE pictures SET revision=? WHERE row IN ({of})", values).rowcount
            connection.execute("INSERT OR REPLACE INTO facts VALUES ('model', ?)", (json.dumps(asdict(model)),))
        return kept

    def insert(self, pictures: Sequence[NewPicture]) -> list[bool]:
        """Add pictures in one transaction; says for each whether it is new.

        Of one that is there already, only a missing path or missing kept bytes are filled in. One without metadata gets
        those back that `relocate` kept of the same content.
        """
        added = _format_time(datetime.now(UTC))
        created = []
        with self._transaction() as connection:
            for new in pictures:
                metadata = json.dumps(new.metadata or _read_removed(connection, [new.id]).get(new.id, {}))
                cursor = connection.execute(
                    "INSERT INTO pictures (id, sha256, path, media_type, width, height, metadata, revision, added,"
                    " embedding, tokens, bytes) VALUES (?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO NOTHING",
                    (
                        *(new.id, new.sha256, new.path, new.media_type, new.width, new.height),
                        *(metadata, new.revision, added, new.embedding, new.tokens, new.data),
                    ),
                )
                created.append(cursor.rowcount == 1)
                if created[-1]:  # in one transaction with its step of the journal and its checksums
                    connection.execute("INSERT INTO changes (row) VALUES (?)", (cursor.lastrowid,))
                    connection.execute(f"{DIGESTS} WHERE row=?", (cursor.lastrowid,))
                    beside = (_stamp_text(new.stamp), new.frames, cursor.lastrowid)
                    connection.execute("UPDATE digests SET stamp=?, frames=? WHERE row=?", beside)
                    connection.execute("DELETE FROM removed WHERE id=?", (new.id,))
                else:
                    _fill_in(connection, new.id, new.path, new.data)
        return created

    def complete(self, known: Iterable[tuple[str, str | None, bytes | None]]) -> None:
        """Fill in missing paths and bytes of stored pictures: (id, path or None, bytes or None) each."""
        with self._transaction() as connection:
            for id, path, data in known:
                _fill_in(connection, id, path, data)

    def note_stamps(self, seen: Iterable[tuple[str, str, FileStamp]]) -> None:
        """Remember how files were when they were read: (id, path, stamp) each, of pictures with that path."""
        wanted = {id: (path, _stamp_text(stamp)) for id, path, stamp in seen}
        ids, query = [*wanted], f"SELECT id, p.path, stamp FROM {_JOINED} WHERE id {_AMONG}"
        for start in range(0, len(ids), _STEP):
            found = self._fetch_all(query, (json.dumps(ids[start : start + _STEP]),))
            other = [id for id, path, stamp in found if wanted[id][0] == path and wanted[id][1] != stamp]
            if other:
                with self._transaction() as connection:
                    connection.executemany(
                        "UPDATE digests SET stamp=? WHERE row=(SELECT row FROM pictures WHERE id=? AND path=?)",
                        [(wanted[id][1], id, wanted[id][0]) for id in other],
                    )

    def removed_metadata(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The metadata kept of pictures that `relocate` removed, by id: of those of the given ids that have some."""
        with self.reading() as connection:
            return _read_removed(connection, ids)

    def forget_removed(self, until: datetime) -> None:
        """Forget the metadata of pictures that were removed at a moment or before."""
        if self._fetch_all("SELECT 1 FROM removed WHERE at <= ? LIMIT 1", (_format_time(until),)):
            with self._transaction() as connection:
                connection.execute("DELETE FROM removed WHERE at <= ?", (_format_time(until),))

    def replace_metadata(self, given: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Give stored pictures other metadata, (id, metadata) each; a damaged record stays as it is."""
        with self._transaction() as connection:
            for id, metadata in given:
                text = json.dumps(metadata)
                if connection.execute(f"UPDATE pictures SET metadata=? WHERE id=? AND {_WHOLE}", (text, id)).rowcount:
                    digest = f"(SELECT {FACTS} FROM pictures WHERE pictures.row=digests.row)"
                    connection.execute(f"UPDATE digests SET facts={digest} WHERE row={_ROW}", (id,))

    def replace_features(self, rows: Sequence[tuple[str, bytes, bytes]], revision: str) -> None:
        """Give pictures the features of another model revision: (id, embedding, tokens) each, in one transaction."""
        with self._transaction() as connection:
            for id, embedding, tokens in rows:
                values = embedding, tokens, revision, id
                digests = "embedding=crc32(?), tokens=crc32(?), revision=crc32(?)"
                connection.execute("UPDATE pictures SET embedding=?, tokens=?, revision=? WHERE id=?", values)
                connection.execute(f"UPDATE digests SET {digests} WHERE row={_ROW}", values)
                connection.execute("INSERT INTO changes (row) SELECT row FROM pictures WHERE id=?", (id,))

    def remove(self, ids: Sequence[str]) -> list[bool]:
        """Remove pictures in one transaction; says for each whether it was there. Nothing is kept of them."""
        gone = []
        with self._transaction() as connection:
            for id in ids:
                connection.execute("DELETE FROM removed WHERE id=?", (id,))
                connection.execute("INSERT INTO changes (row) SELECT row FROM pictures WHERE id=?", (id,))
                connection.execute(f"DELETE FROM digests WHERE row={_ROW}", (id,))
                gone.append(connection.execute("DELETE FROM pictures WHERE id=?", (id,)).rowcount == 1)
        return gone

    def relocate(self, places: Iterable[tuple[str, str, str | None]]) -> None:
        """Let pictures follow their files, all in one transaction: (id, path, new path) each.

        Where there is no new path the picture is removed, or if its bytes are kept, only its path; its metadata wait
        for the same content to be added again. One that is not at that path any more is left alone.
        """
        here = "FROM pictures WHERE id=? AND path=?"
        lone = f"{here} AND bytes IS NULL"
        kept, now = "SELECT id, metadata, ?, crc32(id, metadata, ?)", _format_time(datetime.now(UTC))
        with self._transaction() as connection:
            for id, path, new in places:
                if new is None:
                    described = f"{kept} {lone} AND metadata <> '{{}}' AND {_WHOLE}"
                    connection.execute(f"INSERT OR REPLACE INTO removed {described}", (now, now, id, path))
                    connection.execute(f"INSERT INTO changes (row) SELECT row {lone}", (id, path))
                    connection.execute(f"DELETE FROM digests WHERE row=(SELECT row {lone})", (id, path))
                    connection.execute(f"DELETE {lone}", (id, path))
                connection.execute(
                    f"UPDATE digests SET path=crc32(?), stamp=NULL WHERE row=(SELECT row {here})", (new, id, path)
                )
                connection.execute("UPDATE pictures SET path=? WHERE id=? AND path=?", (new, id, path))

    def get(self, id: str) -> Record | None:
        """The record of a picture, or None."""
        found = self._fetch_all(f"SELECT {_COLUMNS} FROM {_JOINED} WHERE id=?", (id,))
        return _read_record(found[0]) if found else None

    def data(self, id: str) -> bytes | None:
        """The kept bytes of a picture, or None."""
        found = self._fetch_all("SELECT bytes FROM pictures WHERE id=?", (id,))
        return found[0]["bytes"] if found else None

    def known_ids(self, ids: Sequence[str], *, kept: bool = False) -> set[str]:
        """The given ids that are in the collection; with `kept`, only those with their bytes."""
        query = f"SELECT id FROM pictures WHERE id {_AMONG} {kept * 'AND bytes IS NOT NULL'}"
        return {row["id"] for row in self._fetch_all(query, (json.dumps(list(ids)),))}

    def records(self, rows: Sequence[int]) -> dict[int, Record]:
        """Records by row number; rows that are gone are left out, and so, with a warning, are damaged ones."""
        query = f"SELECT {_COLUMNS} FROM {_JOINED} WHERE row {_AMONG}"
        whole = {}
        for row in self._fetch_all(query, (json.dumps(list(rows)),)):
            try:
                whole[row["row"]] = _read_record(row)
            except StoreError as fault:
                self._left_out(fault)
        return whole

    def tokens(self, rows: Sequence[int]) -> dict[int, bytes]:
        """Tokens by row number, as written; those that are gone are left out, and, with a warning, damaged ones."""
        query = f"SELECT row, p.tokens, d.tokens FROM {_JOINED} WHERE row {_AMONG}"
        whole = {}
        for row, tokens, digest in self._fetch_all(query, (json.dumps(list(rows)),)):
            if row_checksum(tokens) == digest:
                whole[row] = tokens
            else:
                self._left_out(_make_damage_error(row, "list of tokens", _MEND))
        return whole

    def panels(self, ids: Sequence[str]) -> dict[str, tuple[bytes, bytes]]:
        """(tokens, embedding) by id, as written; those not there are left out. Raises StoreError for damage."""
        query = f"SELECT row, id, p.tokens, p.embedding, d.tokens, d.embedding FROM {_JOINED} WHERE id {_AMONG}"
        found = {}
        for row, id, tokens, embedding, *digests in self._fetch_all(query, (json.dumps(list(ids)),)):
            if [row_checksum(tokens), row_checksum(embedding)] != digests:
                raise _make_damage_error(row, "embedding or list of tokens", _MEND)
            found[id] = tokens, embedding
        return found

    def embeddings_of(self, ids: Sequence[str]) -> dict[str, bytes]:
        """Embeddings float32 by id; those not there are left out. Raises StoreError for damage."""
        query = f"SELECT row, id, p.embedding, d.embedding FROM {_JOINED} WHERE id {_AMONG}"
        found = {}
        for row, id, *both in self._fetch_all(query, (json.dumps(list(ids)),)):
            if not (whole := _check_embedding(*both)):
                raise _make_damage_error(row, "embedding", _MEND)
            found[id] = whole
        return found

    def ids(self, most: int | None = None) -> list[str]:
        """The ids of all pictures, or of the `most` lowest, in order; no record is looked at."""
        query = "SELECT id FROM pictures ORDER BY id LIMIT ?"
        return [id for (id,) in self._fetch_all(query, (-1 if most is None else most,))]

    def page(self, limit: int, after: str | None = None, where: Filter | None = None) -> list[Record]:
        """Up to `limit` records that meet a condition, from behind `after` on. Raises UnknownPictureError."""
        return next(self.pages(limit, where, after), [])

    def pages(self, size: int, where: Filter | None = None, after: str | None = None) -> Iterator[list[Record]]:
        """All that `page` gives, page by page, whatever is removed meanwhile."""
        text, values = to_sql(where or {})
        query = f"SELECT {_COLUMNS} FROM {_JOINED} WHERE row > ? AND {text} ORDER BY row LIMIT ?"
        behind = [] if after is None else self._fetch_all("SELECT row FROM pictures WHERE id=?", (after,))
        if after is not None and not behind:
            raise UnknownPictureError(f"the picture {after} is not there any more; begin with the first page")
        last = behind[0]["row"] if behind else 0
        while rows := self._fetch_all(query, (last, *values, size)):
            yield [_read_record(row) for row in rows]
            last = rows[-1]["row"]

    def rows(self, where: Filter) -> list[int]:
        """The row numbers of the pictures whose metadata meet a condition."""
        text, values = to_sql(where)
        return [row["row"] for row in self._fetch_all(f"SELECT row FROM pictures WHERE {text}", values)]

    def under(self, path: str) -> dict[str, str]:
        """Id and path of the pictures whose path is `path` or lies in the folder `path`."""
        folder = path.rstrip("/") + "/"
        # "0" is the character behind "/": the range is everything beneath the folder, found through the path's index.
        query = "SELECT id, path FROM pictures WHERE path=? OR (path > ? AND path < ?) ORDER BY row"
        return dict(map(tuple, self._fetch_all(query, (path, folder, folder[:-1] + "0"))))

    def changes(self, after: int, limit: int) -> list[Change]:
        """The next steps of the journal behind sequence number `after`, as one consistent view."""
        query = (
            "SELECT c.sequence, row, p.embedding, d.embedding FROM changes c LEFT JOIN pictures p USING (row)"
            " LEFT JOIN digests d USING (row) WHERE c.sequence > ? ORDER BY c.sequence LIMIT ?"
        )
        found = self._fetch_all(query, (after, limit))
        return [Change(sequence, row, _check_embedding(*both)) for sequence, row, *both in found]

    def shorten_journal(self, keep: int) -> None:
        """Forget all steps of the journal but the last `keep` >= 1: who is further behind reads all embeddings."""
        oldest = "(SELECT max(sequence) FROM changes) - ?"
        with self._transaction() as connection:
            connection.execute(f"DELETE FROM changes WHERE sequence <= {oldest}", (max(keep, 1),))

    def embeddings(self, after: int, limit: int) -> dict[int, bytes]:
        """Embeddings by row number behind row `after`, empty where they are damaged."""
        query = f"SELECT row, p.embedding, d.embedding FROM {_JOINED} WHERE row > ? ORDER BY row LIMIT ?"
        return {row: _check_embedding(*both) or b"" for row, *both in self._fetch_all(query, (after, limit))}

    def present_identity(self) -> str:
        """The name the database got when it was made or restored; `identity` is its name when this was opened."""
        return self._read_fact("identity") or ""

    def embedding_checksums(self) -> tuple[int, dict[int, int]]:
        """The number of the last change, and the CRC-32 of every embedding by row, both of one moment."""
        with self.reading() as connection:
            connection.execute("BEGIN")
            try:
                sequence = connection.execute(_LAST).fetchone()[0]
                return sequence, dict(connection.execute("SELECT row, embedding FROM digests"))
            finally:
                connection.execute("COMMIT")

    def sequence(self) -> int:
        """The number of the last change; it only ever grows."""
        return self._fetch_all(_LAST)[0]["last"]

    def count(self) -> int:
        """The number of pictures."""
        return self._fetch_all("SELECT count(*) AS n FROM pictures")[0]["n"]

    def count_revisions(self) -> dict[str, int]:
        """The number of pictures that each model revision embedded."""
        query = "SELECT revision, count(*) AS n FROM pictures GROUP BY revision ORDER BY n DESC"
        return dict(map(tuple, self._fetch_all(query)))

    def list_outdated(self, revision: str, sizes: tuple[int, int], after: int, limit: int) -> list[tuple[int, Record]]:
        """(row, record) behind row `after` of another revision or with features damaged or not of these `sizes`."""
        query = (
            f"SELECT {_COLUMNS} FROM {_JOINED} WHERE row > ? AND"
            " (p.revision <> ? OR length(p.embedding) <> ? OR token_numbers(p.tokens) <> ?"
            " OR crc32(p.embedding) IS NOT d.embedding OR crc32(p.tokens) IS NOT d.tokens) ORDER BY row LIMIT ?"
        )
        return [(row["row"], _read_record(row)) for row in self._fetch_all(query, (after, revision, *sizes, limit))]

    def list_features(self, after: int, limit: int) -> list[sqlite3.Row]:
        """Rows of all features behind row `after`, and whether record and features have their checksums."""
        return self._fetch_all(f"SELECT {_FEATURES} FROM {_JOINED} WHERE row > ? ORDER BY row LIMIT ?", (after, limit))

    def find_damage(self) -> list[str]:
        """The faults that SQLite's own integrity check finds; empty if all is well."""
        return [text for (text,) in self._fetch_all("PRAGMA integrity_check") if text != "ok"]

    def stats(self) -> dict[str, Any]:
        """Counts and sizes: pictures, kept (pictures with bytes), revisions, sequence, disk_bytes."""
        return {
            "directory": str(self.directory),
            "pictures": self.count(),
            "kept": self._fetch_all("SELECT count(*) AS n FROM pictures WHERE bytes IS NOT NULL")[0]["n"],
            "revisions": self.count_revisions(),
            "adopted": known.model if (known := self.adopted_model()) else None,
            "sequence": self.sequence(),
            "disk_bytes": disk_bytes(self.directory),
        }

    def _read_fact(self, key: str) -> str | None:
        found = self._fetch_all("SELECT value FROM facts WHERE key=?", (key,))
        return found[0]["value"] if found else None

    def _left_out(self, fault: StoreError) -> None:
        logger.warning("%s: left out of a search: %s", self.directory, fault)


def _read_removed(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    query = f"SELECT id, metadata FROM removed WHERE id {_AMONG} AND crc32(id, metadata, at)=digest"
    return {id: json.loads(metadata) for id, metadata in connection.execute(query, (json.dumps(list(ids)),))}


def _format_time(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def _fill_in(connection: sqlite3.Connection, id: str, path: str | None, data: bytes | None) -> None:
    if path is not None:
        lacking = "(SELECT row FROM pictures WHERE id=? AND path IS NULL)"
        connection.execute(f"UPDATE digests SET path=crc32(?) WHERE row={lacking}", (path, id))
    connection.execute(
        "UPDATE pictures SET path=coalesce(path, ?), bytes=coalesce(bytes, ?)"
        " WHERE id=? AND (path IS NULL AND ? IS NOT NULL OR bytes IS NULL AND ? IS NOT NULL)",
        (path, data, id, path, data),
    )


def _read_record(row: sqlite3.Row) -> Record:
    """The record in a row selected with `_COLUMNS` from `_JOINED`. Raises StoreError if it is not as it was written."""
    if not row["whole"]:
        raise _make_damage_error(row["row"], "record", f"remove the picture {row['id']} and add it again")
    try:
        metadata = parse_json(row["metadata"])
    except ValueError:  # not written by Diptych, with a checksum that is right
        raise _make_damage_error(row["row"], "metadata", f"remove the picture {row['id']} and add it again") from None
    facts = {name: row[name] for name in _PLAIN_FACTS}
    return Record(**facts, metadata=metadata, original_kept=bool(row["kept"]), stamp=_read_stamp(row["stamp"]))


def _read_stamp(text: str | None) -> FileStamp | None:
    try:
        size, modified = map(int, (text or "").split())
    except ValueError:  # there is none, or a disk gave back other bits
        return None
    return FileStamp(size, modified)


def _stamp_text(stamp: FileStamp | None) -> str | None:
    """A stamp as the column has it."""
    return None if stamp is None else f"{stamp.bytes} {stamp.modified}"


def _check_embedding(embedding: bytes | None, digest: int | None) -> bytes | None:
    """An embedding with its checksum, empty if it has another; None stays None."""
    return embedding if embedding is None or row_checksum(embedding) == digest else b""


def _make_damage_error(row: int, what: str, remedy: str) -> StoreError:
    """The error for a part of a row that has not the checksum it was written with."""
    return StoreError(f"row {row} of the collection is damaged: its {what} has another checksum; {remedy}")
