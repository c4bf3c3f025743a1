"""The source that a candidate index follows: embeddings by row, and the journal of what became of them."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from diptych.store.index.layout import Kind
from diptych.store.records import Change


class Source(Protocol):
    """The database beside an index."""

    directory: Path
    identity: str

    def index_kind(self) -> Kind:
        """The kind of index that was asked for."""
        ...

    def sequence(self) -> int:
        """The number of the last change; it only ever grows."""
        ...

    def count(self) -> int:
        """The number of pictures."""
        ...

    def embeddings(self, after: int, limit: int) -> dict[int, bytes]:
        """Embeddings by row number behind row `after`, empty where they are damaged."""
        ...

    def changes(self, after: int, limit: int) -> list[Change]:
        """The next steps of the journal behind sequence number `after`."""
        ...

    def embedding_checksums(self) -> tuple[int, dict[int, int]]:
        """The number of the last change, and the CRC-32 of every embedding by row, both of one moment."""
        ...
