"""Embedding the pictures of a collection anew, wherever it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from diptych.collection.ingest import features
from diptych.errors import UnknownPictureError
from diptych.scoring.scorer import Scorer
from diptych.scoring.threads import map_pictures
from diptych.store.embedder import OnFailure, OnProgress
from diptych.store.index.layout import Kind
from diptych.store.location import Address, Location, parse_location
from diptych.store.originals import Keeper, original
from diptych.store.records import Record
from diptych.store.reports import RebuildReport
from diptych.store.sqlite import rebuild as sqlite
from diptych_runtime.errors import PictureError
from diptych_runtime.runtime import Runtime


def rebuild(
    where: Location,
    scorer: Scorer,
    *,
    everything: bool = False,
    drop: bool = False,
    index: Kind | None = None,
    on_error: OnFailure | None = None,
    on_progress: OnProgress | None = None,
) -> RebuildReport:
    """Bring a collection to the scorer's model, mend its damage and make its index anew.

    May be interrupted and run again. With `drop`, pictures that cannot be read any more are removed, but for those
    whose bytes were kept and are whole; `index` is the kind of a folder's index from now on. Raises StoreError.
    """
    found = parse_location(where)
    options: dict[str, Any] = {"everything": everything, "drop": drop, "index": index}
    options |= {"on_error": on_error, "on_progress": on_progress}
    if isinstance(found, Address):
        from diptych.store.milvus import rebuild as milvus

        return milvus.rebuild(found, ScorerEmbedder(scorer), **options)
    return sqlite.rebuild(found, ScorerEmbedder(scorer), **options)


class ScorerEmbedder:
    """Embeds stored pictures from their files, decoded as the scorer decodes and on its threads (`store.Embedder`)."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer

    @property
    def runtime(self) -> Runtime:
        """The scorer's model."""
        return self.scorer.runtime

    def __call__(self, store: Keeper, records: Sequence[Record], /) -> list[tuple[bytes, bytes] | PictureError]:
        """(embedding, tokens) of each picture, or why there are none."""
        contents = map_pictures(lambda record: self._pixels(store, record), records, self.runtime.threads)
        made = iter(features([pixels for pixels in contents if not isinstance(pixels, PictureError)], self.scorer))
        return [content if isinstance(content, PictureError) else next(made) for content in contents]

    def _pixels(self, store: Keeper, record: Record) -> np.ndarray:
        """A stored picture as the network sees it, from its file. Raises PictureError if there is none any more."""
        try:
            data = original(store, record, self.scorer.limits)
        except UnknownPictureError as error:
            raise PictureError(str(error)) from None
        return self.scorer.pixels(data, name=record.path)
