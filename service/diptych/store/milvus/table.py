"""A Milvus collection as a table of rows by their ids, read at once and written so that everyone sees it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from diptych.console import format_count
from diptych.errors import ModelMismatchError, UnreachableError
from diptych.store.location import REPLACED
from diptych.store.milvus.client import SECONDS, SLOW, MissingError, RefusedError, Server
from diptych.store.milvus.rows import FIELD, TEXT, Layout
from diptych_runtime.paths import shell_word

MOST = 16_384  # rows that Milvus gives at once
_NAMED = 1000  # ids in one expression
_SENT = 4 * 2**20  # bytes of rows in one call
_IDS = 2**128
_ID = re.compile("[0-9a-f]{32}")
_HNSW = {"M": 16, "efConstruction": 200}


class Table:
    """The rows of one collection; thread-safe. Fields are those of its layout, and `id` is always among them."""

    def __init__(self, server: Server, layout: Layout, name: str) -> None:
        """The collection called `name`, which may be another one than that of the server's address, for a rebuild."""
        self.server, self.layout, self.name = server, layout, name
        self.level = "Strong" if server.address.strong else "Bounded"
        self._away = True  # the server may have been, since the last reading that waited for all that was written

    def check(self, timeout: float) -> None:
        """Raise UnreachableError if it does not answer in time, ModelMismatchError if its layout changed."""
        self.query('id == ""', [], limit=1, timeout=timeout)
        self._check_layout(timeout)

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Put rows in the place of those with their ids, in parts that Milvus takes; everyone finds them then.

        Raises UnreachableError if some are not there afterwards: lost, or removed meanwhile.
        """
        step = max(1, _SENT // (2 * self.layout.token_bytes + 4 * self.layout.dimension + 1024))
        for start in range(0, len(rows), step):
            self._call_table("upsert", list(rows[start : start + step]))
        ids = {row["id"] for row in rows}
        if missing := ids - self.wait_until_visible(sorted(ids)):
            message = (
                f"took {format_count(len(ids), 'picture')} and lacks {len(missing)} of them ({min(missing)}); try again"
            )
            raise UnreachableError(f"{self.server.address} {message}", seconds=1.0)

    def delete(self, ids: Sequence[str]) -> None:
        """Delete rows; afterwards no reader finds them."""
        for start in range(0, len(ids), _NAMED):
            self._call_table("delete", ids=list(ids[start : start + _NAMED]))
        self.wait_until_visible(ids)

    def rows(self, ids: Sequence[str], fields: Sequence[str]) -> Iterator[dict[str, Any]]:
        """The rows with these ids, in any order; those that are not there are left out."""
        wanted = [id for id in dict.fromkeys(ids) if _ID.fullmatch(id)]
        for start in range(0, len(wanted), _NAMED):
            yield from self.query(f"id in {json.dumps(wanted[start : start + _NAMED])}", fields)

    def scan(
        self, fields: Sequence[str], where: str = "", after: str | None = None, step: int = 256
    ) -> Iterator[dict[str, Any]]:
        """Rows that meet an expression, in the order of their ids, behind `after`; about `step` at a time.

        Not every Milvus answers in an order. But ids are digests, so they are spread evenly: a share of all ids there
        could be has that share of those there are.
        """
        width = max(1, _IDS * step // max(1, self.count()))
        low = -1 if after is None else int(after, 16)
        while low < _IDS - 1:
            high = min(low + width, _IDS - 1)
            within = (f'id > "{low:032x}" and ' if low >= 0 else "") + f'id <= "{high:032x}"'
            rows = self.query(f"{within} and {where}" if where else within, fields, limit=MOST)
            if len(rows) == MOST:
                width //= 8
                continue
            yield from sorted(rows, key=lambda row: row["id"])
            low = high
            if 2 * len(rows) < step:
                width *= 4

    def find_hits(self, embedding: np.ndarray, count: int, where: str, *, with_facts: bool) -> list[dict[str, Any]]:
        """The `count` nearest rows that meet an expression: `id`, `distance` (cosine), and `entity` with the record."""
        (hits,) = self._call_table(
            "search",
            [np.ascontiguousarray(embedding, np.float32)],
            anns_field=self.layout.vector,
            filter=where,
            limit=count,
            output_fields=["id", "record"] if with_facts else ["id"],
            search_params={"metric_type": "IP", "params": {"ef": max(2 * count, 256)}},
            consistency_level=self.level,
        )
        return list(hits)

    def wait_until_visible(self, ids: Sequence[str]) -> set[str]:
        """Wait until every reader sees the writes to these ids; returns the ids that are there then."""
        there = set()
        for start in range(0, len(ids), _NAMED):
            found = self.query(f"id in {json.dumps(list(ids[start : start + _NAMED]))}", [], level="Strong")
            there |= {row["id"] for row in found}
        return there

    def count(self, where: str = "", **options: Any) -> int:
        """The number of rows that meet an expression."""
        return self.query(where, ["count(*)"], **options)[0]["count(*)"]

    def query(self, where: str, fields: Sequence[str], level: str = "", **options: Any) -> list[dict[str, Any]]:
        """Rows that meet an expression, in any order; those that matter to `scan` and `rows` are asked for there."""
        fields = fields if "count(*)" in fields else ["id", *fields]
        return list(
            self._call_table(
                "query", filter=where, output_fields=list(fields), consistency_level=level or self.level, **options
            )
        )

    def _call_table(self, method: str, *arguments: Any, **options: Any) -> Any:
        """A call about this collection. What it refuses after a rebuild is a ModelMismatchError.

        A server that was started anew has yet to read its log: the first reading waits for that.
        """
        if self._away and "consistency_level" in options:
            options["consistency_level"] = "Strong"
        try:
            answer = self.server.ask(method, self.name, *arguments, **options)
            self._away = self._away and options.get("consistency_level") != "Strong"
            return answer
        except UnreachableError:
            self._away = True
            raise
        except MissingError:
            if f"{self.name}{REPLACED}" in self.server.list_names():
                message = f"{self.server.address} is being embedded anew; wait for that"
                raise UnreachableError(message, seconds=10.0) from None
            raise
        except RefusedError:
            self._check_layout(options.get("timeout", SECONDS))
            raise

    def _check_layout(self, timeout: float) -> None:
        now = layout_of(self.server, self.name, timeout)
        if now != self.layout:
            message = f"was embedded anew by another model ({now.revision}); start again with that model"
            raise ModelMismatchError(f"{self.server.address} {message}") from None


def make_collection(server: Server, name: str, layout: Layout, properties: Mapping[str, str] | None = None) -> None:
    """Make an empty collection, or make one ready that is there without its index; others may do the same."""
    from pymilvus import DataType  # pyright: ignore[reportMissingImports]

    schema = server.client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=32)
    schema.add_field(layout.vector, DataType.FLOAT_VECTOR, dim=layout.dimension)
    for text in ("record", "path", *layout.parts):
        schema.add_field(text, DataType.VARCHAR, max_length=TEXT)
    schema.add_field("kept", DataType.BOOL)
    schema.add_field(FIELD, DataType.JSON)
    index = server.client.prepare_index_params()
    index.add_index(layout.vector, index_type="HNSW", metric_type="IP", params=_HNSW)
    if name not in server.list_names():
        try:
            every = {**layout.properties(), **(properties or {})}
            server.call("create_collection", name, schema=schema, properties=every, timeout=SLOW)
        except RefusedError:
            if name not in server.list_names():
                raise
    if not server.call("list_indexes", name):
        server.call("create_index", name, index, timeout=SLOW)
    server.call("load_collection", name, timeout=SLOW)


def layout_of(server: Server, name: str, timeout: float = SECONDS) -> Layout:
    """The layout of a collection. Raises MissingError, and StoreError for one that is not ours to read."""
    try:
        found = properties_of(server, name, timeout)
    except MissingError:
        raise MissingError(
            f"{server.address} holds no collection; make one with `diptych index add --store "
            f"{shell_word(server.address)} PICTURES`, or in Python with create=True"
        ) from None
    return Layout.read(str(server.address), found)


def properties_of(server: Server, name: str, timeout: float = SECONDS) -> dict[str, str]:
    """The properties of a collection beside its fields. Raises MissingError."""
    return server.call("describe_collection", name, timeout=timeout)["properties"]
