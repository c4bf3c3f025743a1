"""A collection's own model, and the scorers of collections that have several."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from diptych.errors import StoreError
from diptych.store.location import Location
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.schema import is_collection
from diptych_runtime.errors import ArtifactError
from diptych_runtime.manifest import Manifest
from diptych_runtime.models import FORMER, find_artifact, models_by_name, named_model, names_by_revision
from diptych_runtime.paths import shell_word

if TYPE_CHECKING:
    from diptych.scoring.scorer import Scorer


class OwnModel(NamedTuple):
    """A collection's own model, whether it was `adopted` by name, and how many pictures each revision embedded."""

    name: str | None
    adopted: bool
    revisions: dict[str, int]


def own_model(where: Location | None) -> OwnModel:
    """The adopted model, or the one here that embedded all pictures. Raises ArtifactError for one that is gone."""
    if not (isinstance(where, Path) and is_collection(where)):
        return OwnModel(None, False, {})
    adopted, revisions = None, {}
    # What keeps it from being read is said by the command itself, which may mend it.
    with suppress(StoreError), Store.open(where, read_only=True) as database:
        adopted, revisions = database.adopted_model(), database.count_revisions()
    if adopted is not None and (named_model(adopted.model) or Path(adopted.model).exists()):
        return OwnModel(adopted.model, True, revisions)
    known = names_by_revision(models_by_name())
    if adopted is None:
        names = {(FORMER | known).get(revision) for revision in revisions}
        return OwnModel(names.pop() if len(names) == 1 else None, False, revisions)
    if adopted.revision not in known:
        raise ArtifactError(
            f"the collection {where} has the model {adopted.model} ({adopted.revision}), which is not there any more: "
            f"put it back, or say where it is with `diptych models use PATH --store {shell_word(where)}`"
        )
    return OwnModel(known[adopted.revision], True, revisions)


class Scorers:
    """A scorer for each model that collections have: the default one, and others that `load` makes of a model's name.

    Without `load` all have the default one. What is loaded stays, and waits and admits as the default one does.
    Thread-safe: others may go through them while one is loaded.
    """

    def __init__(self, default: Scorer, load: Callable[[str], Scorer] | None = None) -> None:
        self.default, self._load = default, load
        self._by_revision = {default.runtime.revision: default}
        self._loading = Lock()

    def of(self, folder: Path) -> Scorer:
        """The scorer of the model of the collection in a folder. Raises ArtifactError."""
        if self._load is None or (name := own_model(folder).name) is None:
            return self.default
        revision = Manifest.load(find_artifact(name)).revision
        with self._loading:
            if revision not in self._by_revision:
                made, scheduler = self._load(name), self.default.scheduler
                made.scheduler.capacity, made.scheduler.waited = scheduler.capacity, scheduler.waited
                self._by_revision[revision] = made
        return self._by_revision[revision]

    def __iter__(self) -> Iterator[Scorer]:
        return iter([*self._by_revision.values()])
