"""A collection on a Milvus server, as `diptych.store.backend.Backend` wants it."""

from __future__ import annotations

from diptych.store.embedder import Embedder, OnFailure, OnProgress
from diptych.store.index.layout import Kind
from diptych.store.milvus.database import MilvusDatabase
from diptych.store.milvus.rebuild import rebuild
from diptych.store.milvus.verify import verify
from diptych.store.reports import RebuildReport, VerifyReport


class MilvusBackend(MilvusDatabase):
    """Pictures on a Milvus server that can be checked and embedded anew."""

    def verify(self) -> VerifyReport:
        """Check every record, every stored feature and every kept file."""
        return verify(self)

    def rebuild(
        self,
        embedder: Embedder,
        *,
        everything: bool = False,
        index: Kind | None = None,
        on_error: OnFailure | None = None,
        on_progress: OnProgress | None = None,
    ) -> RebuildReport:
        """Embed damaged pictures (with `everything`: all of them) anew."""
        return rebuild(
            self.address, embedder, everything=everything, index=index, on_error=on_error, on_progress=on_progress
        )
