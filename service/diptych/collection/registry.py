"""`Collections`: several collections by name, which share one scorer and are found by requests at the same time."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Condition, Lock

from diptych.collection.collection import Collection
from diptych.collection.own_model import Scorers
from diptych.collection.root import Root, check_name, collections_in, list_names
from diptych.errors import (
    CollectionKeptError,
    CollectionNameError,
    DamagedCollectionError,
    StoreError,
    UnknownCollectionError,
)
from diptych.scoring.scorer import Scorer
from diptych.store.sqlite.database import Store
from diptych_runtime.atomic import disk_bytes
from diptych_runtime.errors import DiptychError
from diptych_runtime.paths import shell_word

DEFAULT = "default"
MOST_OPEN = 128  # collections of a root that are open at once
AGAIN_SECONDS = 10.0  # seconds after which one that could not be opened is tried once more
REMOVAL_SECONDS = 30.0  # seconds for those who are at a collection that is to be removed or closed
_SHOWN = 20

logger = logging.getLogger(__name__)


@dataclass
class _Place:
    """A collection, or None while it is closed; with a `fault`, why it could not be opened, and when that was
    (`failed`). `users` counts who is at it right now; `used` orders places by their last use.
    """

    name: str
    collection: Collection | None
    fault: str = ""
    users: int = 0
    leaving: bool = False
    used: int = 0
    failed: float = 0.0
    changing: Lock = field(default_factory=Lock)  # held while it is opened or closed

    @property
    def is_due(self) -> bool:
        """True if whoever asks for it next opens it."""
        return self.collection is None and (not self.fault or time.monotonic() - self.failed > AGAIN_SECONDS)


@dataclass(frozen=True)
class Summary:
    """A collection in a few figures, None where they are not to be known; a damaged one has a `fault` instead.

    `model` and `revision` are those that it was opened with.
    """

    name: str
    pictures: int | None
    disk_bytes: int | None
    generation: int | None
    fault: str | None
    model: str | None = None
    revision: str | None = None


class Collections:
    """The collections of a service: those in the folders of a root, one that somebody else looks after, or none.

    Thread-safe; each collection has its own locks, so that none waits for another.

    >>> with Collections.open("root", Scorer.load()) as collections:
    ...     collections.create("shoes")
    ...     with collections.borrow("shoes") as shoes:
    ...         shoes.add("boot.jpg")
    """

    def __init__(
        self, places: dict[str, _Place], home: tuple[Root, Scorers] | None = None, most: int = MOST_OPEN
    ) -> None:
        """Prefer `Collections.open` and `Collections.of`."""
        self._places, self._home, self._most = places, home, most
        self._uses = count(1)
        self._changed = Condition()  # of places and their users; never held while a disk is waited for
        self._changing = Lock()  # one collection is made or removed at a time

    @classmethod
    def of(cls, stored: Collections | Collection | None) -> Collections:
        """These collections, or just this one under the name "default", which stays its owner's to close, or none."""
        if isinstance(stored, Collections):
            return stored
        return cls({} if stored is None else {DEFAULT: _Place(stored.name, stored)})

    @classmethod
    def open(
        cls,
        root: str | os.PathLike[str],
        scorer: Scorer,
        *,
        load: Callable[[str], Scorer] | None = None,
        most: int = MOST_OPEN,
    ) -> Collections:
        """Open the collections in the folders of `root`, which is made if it is not there.

        At most `most` are open at once: others are opened when they are asked for, each in the place of the idle one
        whose last use is longest ago.

        With `load`, which makes a scorer of a model's name, each has the scorer of its own model (`own_model`), and
        `scorer` is that of new ones; without it all have that. One that cannot be opened is kept as damaged, with the
        reason, and takes no other down. Raises StoreError if another process has the root or it cannot be written.
        """
        home, scorers = Root(Path(root)), Scorers(scorer, load)
        home.tidy()
        places = {name: _Place(str(home.folder / name), None) for name in collections_in(home.folder)}
        collections = cls(places, (home, scorers), most)
        for place in list(places.values())[:most]:
            collections._open_place(place)
        return collections

    def close(self) -> None:
        """Close the collections of a root, once they are idle; after half a minute all the same."""
        if self._home is None:
            return
        end = time.monotonic() + REMOVAL_SECONDS
        with self._changing:
            for place in self._places.values():
                self._wait_idle(place, end - time.monotonic())
                if place.collection is not None:
                    place.collection.close()
            self._home[0].release()

    def __enter__(self) -> Collections:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_fixed(self) -> bool:
        """True if collections can neither be made nor removed, as there is no root."""
        return self._home is None

    def scorers(self) -> list[Scorer]:
        """The scorers of the collections of a root, one for each model, first the default one."""
        return [] if self._home is None else [*self._home[1]]

    def names(self) -> list[str]:
        """The names of all, damaged ones too, in alphabetical order."""
        with self._changed:
            return sorted(self._places)

    def open_ones(self) -> dict[str, Collection]:
        """The usable collections, by name."""
        with self._changed:
            places = sorted(self._places.items())
        found = ((name, place.collection) for name, place in places if not place.leaving)
        return {name: collection for name, collection in found if collection is not None}

    def list_faults(self) -> dict[str, str]:
        """The faults of damaged collections, which could not be opened, by name."""
        with self._changed:
            return {name: place.fault for name, place in sorted(self._places.items()) if place.fault}

    def resolve(self, name: str | None) -> str:
        """The name that is meant, without one the only collection's or "default". Raises UnknownCollectionError."""
        names = self.names()
        there = f"there are {list_names(names, _SHOWN)}" if names else "there is none yet"
        if name is None:
            name = names[0] if len(names) == 1 else DEFAULT
            if name not in names and names:
                raise CollectionNameError(f"expected the name of a collection, as there are several; {there}")
        if name not in names:
            raise UnknownCollectionError(f"no collection is called {name[:64]!r}; {there}")
        return name

    def is_closed(self, name: str | None) -> bool:
        """True if `borrow` would have to open the collection of this name first, which may take long."""
        with self._changed, suppress(UnknownCollectionError, CollectionNameError):
            return self._home is not None and self._places[self.resolve(name)].is_due
        return False

    @contextmanager
    def borrow(self, name: str | None = None) -> Iterator[Collection]:
        """Lend a collection to the block, in which it is neither removed nor closed. Raises DamagedCollectionError."""
        with self._changed:
            name = self.resolve(name)
            place = self._places[name]
            if place.leaving:
                raise UnknownCollectionError(f"the collection {name} is being removed")
            place.users += 1
            place.used = next(self._uses)
        try:
            collection = self._open_place(place)
            if collection is None:
                raise DamagedCollectionError(
                    f"the collection {name} could not be opened: {place.fault}. Mend it with "
                    f"`diptych index rebuild --store {shell_word(place.name)}`, unless that says otherwise, and create "
                    "it once more by its name, which opens it"
                )
            yield collection
        finally:
            with self._changed:
                place.users -= 1
                self._changed.notify_all()
            if self._home is not None and len(self._places) > self._most:
                self._close_idle()

    def summary(self, name: str) -> Summary:
        """The figures of one collection. Raises UnknownCollectionError."""
        place = self._places.get(name)
        if place is not None and place.collection is None and self._home is not None:
            return _closed_summary(name, Path(place.name), place.fault)
        with self.borrow(name) as collection:
            backend, runtime = collection.backend, collection.scorer.runtime
            figures = (backend.count(), backend.disk_bytes(), backend.index_state()[1])
            return Summary(name, *figures, None, runtime.name, runtime.revision)

    def summaries(self) -> list[Summary]:
        """The figures of all."""
        found = []
        for name in self.names():
            with suppress(UnknownCollectionError):  # removed meanwhile
                found.append(self.summary(name))
        return found

    def create(self, name: str) -> bool:
        """Make a collection, or open a damaged one; False if it was there. It is on the disk when this returns.

        Raises CollectionNameError, DamagedCollectionError, and StoreError if it cannot be written.
        """
        root, _ = self._require_root()
        check_name(name)
        with self._changing:
            if name in self.names() and name not in self.list_faults():
                return False
            new = name not in collections_in(root.folder)
            if new:
                root.make(name)
            with self._changed:
                self._places[name] = _Place(str(root.folder / name), None)
            with self.borrow(name):  # or it says what is wrong
                return new

    def remove(self, name: str, pictures: int = 0, *, seconds: float = REMOVAL_SECONDS) -> None:
        """Remove a collection with exactly so many pictures and all that Diptych keeps of them, for good.

        Waits up to `seconds` for those who are at it, while nobody else gets it. Raises
        UnknownCollectionError, DamagedCollectionError, CollectionKeptError if it has another number of pictures,
        somebody stays, its folder is a link or holds what is not Diptych's, and StoreError if the disk does not do it.
        """
        root, _ = self._require_root()
        with self._changing:
            with self.borrow(name) as collection:
                _check_count(name, collection, pictures)
                place = self._places[name]
                place.leaving = True  # from now on nobody gets it, and nobody closes it
            try:
                if not self._wait_idle(place, seconds):
                    raise CollectionKeptError(f"the collection {name} is still being used; try again in a moment")
                root.check_removable(name)
                _check_count(name, collection, pictures)  # who was still at it may have added some
                try:
                    root.remove(name, collection.store)
                except StoreError as error:
                    place.collection, place.fault = None, str(error)
                    raise
                with self._changed:
                    del self._places[name]
            finally:
                place.leaving = False

    def _open_place(self, place: _Place) -> Collection | None:
        """The collection of a place, opened if it is closed; None if that fails."""
        if self._home is None:
            return place.collection
        with place.changing:
            opening = place.is_due
            if opening:
                _try_opening(place, self._home[1])
        if opening:
            self._close_idle()
        return place.collection

    def _close_idle(self) -> None:
        """Close idle collections, the least recently used first, until no more are open than may be."""
        while True:
            with self._changed:
                there = [place for place in self._places.values() if place.collection is not None]
                idle = [place for place in there if not (place.users or place.leaving)]
                if len(there) <= self._most or not idle:
                    return
                place = min(idle, key=lambda one: one.used)
                place.users += 1  # so that nobody else closes it
            try:
                with place.changing:
                    with self._changed:
                        closing = None if place.users > 1 else place.collection
                        if closing is not None:
                            place.collection = None
                    if closing is not None:
                        closing.close()
            finally:
                with self._changed:
                    place.users -= 1
                    self._changed.notify_all()

    def _require_root(self) -> tuple[Root, Scorers]:
        if self._home is None:
            raise StoreError("no collection can be made or removed here; start `diptych serve --collections ROOT`")
        return self._home

    def _wait_idle(self, place: _Place, seconds: float) -> bool:
        """Lend a collection no more, and wait until it is idle; False if some users stay."""
        with self._changed:
            place.leaving = True
            return self._changed.wait_for(lambda: not place.users, max(0.0, seconds))


def _try_opening(place: _Place, scorers: Scorers) -> None:
    """Open the collection of a place, or note its fault there."""
    directory = Path(place.name)
    place.fault = ""
    try:
        place.collection = Collection.open(directory, scorers.of(directory))
    except Exception as error:  # whatever damage does to one of them, the others must open
        known = isinstance(error, DiptychError)
        place.fault = str(error) if known else f"{type(error).__name__}: {error}"
        place.failed = time.monotonic()
        logger.error("the collection %s could not be opened: %s", directory.name, place.fault, exc_info=not known)


def _closed_summary(name: str, folder: Path, fault: str) -> Summary:
    """The figures of a collection that is not open, without opening it for searches."""
    try:
        if not fault:
            with Store.open(folder, read_only=True) as store:
                return Summary(name, store.count(), disk_bytes(folder), None, None)
    except StoreError as error:
        fault = str(error)
    return Summary(name, None, disk_bytes(folder), None, fault)


def _check_count(name: str, collection: Collection, pictures: int) -> None:
    if len(collection) != pictures:
        raise CollectionKeptError(
            f"pictures in the collection {name}: {len(collection)}, and {pictures} were said to go; nothing was removed"
        )
