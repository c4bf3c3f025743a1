"""What a table asks a server for, which is none here."""

from types import SimpleNamespace

import pytest

from diptych.errors import UnreachableError
from diptych.store.milvus.rows import Layout
from diptych.store.milvus.table import Table


class Recorded:
    """A server that notes how readings are to be; it is `away` for as long as somebody says."""

    def __init__(self, *, strong: bool) -> None:
        self.address = SimpleNamespace(strong=strong)
        self.away = False
        self.levels: list[str] = []

    def ask(self, method: str, name: str, *arguments: object, **options: object) -> list:
        self.levels.append(str(options.get("consistency_level")))
        if self.away:
            raise UnreachableError("away", seconds=1.0)
        return []


def made(*, strong: bool = False) -> tuple[Table, Recorded]:
    server = Recorded(strong=strong)
    layout = Layout(revision="0" * 12, dimension=10, token_bytes=96)
    return Table(server, layout, "photos"), server  # pyright: ignore[reportArgumentType]


def test_the_first_reading_and_that_after_a_server_was_away_wait_for_all_that_was_written():
    table, server = made()
    for _ in range(3):
        table.query("", ["record"])
    assert server.levels == ["Strong", "Bounded", "Bounded"]
    server.away = True
    for _ in range(2):
        with pytest.raises(UnreachableError):
            table.query("", ["record"])
    server.away = False
    server.levels.clear()
    table._call_table("upsert", [])
    for _ in range(2):
        table.query("", ["record"])
    assert server.levels == ["None", "Strong", "Bounded"]
    table, server = made(strong=True)
    for _ in range(3):
        table.query("", ["record"])
    assert server.levels == ["Strong"] * 3, "where every reading is to wait"
