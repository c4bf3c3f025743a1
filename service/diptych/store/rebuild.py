"""Embedding stored pictures anew, wherever they are. A store knows no model: the caller of a rebuild brings one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from diptych.store.originals import Keeper, is_whole
from diptych.store.records import Record
from diptych_runtime.errors import PictureError
from diptych_runtime.runtime import Runtime

BATCH = 64  # pictures at a time

OnFailure = Callable[[Record, Exception], None]
OnProgress = Callable[[int], None]


# The features (embedding, tokens) of stored pictures, as `NewPicture` has them; where the file of one is gone or cannot
# be read, the error stands in their place.
Embed = Callable[[Keeper, Sequence[Record]], list[tuple[bytes, bytes] | PictureError]]


@dataclass
class RebuildReport:
    """The numbers of pictures in all, of those embedded anew, and of those that failed, some of which were removed.

    `mended` says whether the database itself was damaged, and is whole again. `spared` are the numbers of pictures that
    were not removed since their disk may be away, by the sign of that. `foreign` counts those that are still of another
    model, with which the collection cannot be searched.
    """

    pictures: int = 0
    embedded: int = 0
    failed: int = 0
    removed: int = 0
    mended: bool = False
    spared: dict[str, int] = field(default_factory=dict)
    foreign: int = 0


@dataclass
class Rebuild:
    """A rebuild of a collection by a model, as it was asked for, and the `report` of it, which grows.

    Damaged pictures and those of another model are embedded, with `everything` all of them. Of those that cannot be
    read any more the ones are removed that `may_drop` says, unless their bytes, kept or in their file, are whole.
    `on_progress` gets the number of pictures after each batch.
    """

    runtime: Runtime
    embed_stored: Embed
    everything: bool = False
    may_drop: Callable[[Record], bool] | None = None
    on_error: OnFailure | None = None
    on_progress: OnProgress | None = None
    report: RebuildReport = field(default_factory=RebuildReport)

    def embed_pictures(self, store: Keeper, records: Sequence[Record]) -> list[tuple[Record, bytes, bytes]]:
        """Embed pictures of a store: (record, embedding, tokens) of those that can be read; the others are refused."""
        good = []
        for record, made in zip(records, self.embed_stored(store, records), strict=True):
            if isinstance(made, PictureError):
                self.refuse_picture(store, record, made)
            else:
                good.append((record, *made))
        return good

    def refuse_picture(self, store: Keeper, record: Record, error: Exception) -> None:
        """Count a picture that cannot be embedded, say why, and remove it if it may go."""
        self.report.failed += 1
        if self.on_error is not None:
            self.on_error(record, error)
        if self.may_drop is not None and not is_whole(store, record) and self.may_drop(record):
            store.remove([record.id])
            self.report.removed += 1

    def count_batch(self, done: int, embedded: int) -> None:
        """Count a batch of `done` pictures, of which the `embedded` ones are safely written."""
        self.report.embedded += embedded
        if self.on_progress is not None:
            self.on_progress(done)
