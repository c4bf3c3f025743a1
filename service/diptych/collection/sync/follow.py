"""Following folders: one run after the other, in a process of its own or in a thread of the service."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Thread

from diptych.collection.collection import Collection
from diptych.collection.sync.run import KEEP_DAYS, Outcome, Run, check_folders
from diptych.collection.sync.seen_files import SeenFiles
from diptych.collection.sync.summary import has_changes, summary_line
from diptych.console import shorten_list
from diptych_runtime.errors import DiptychError
from diptych_runtime.folders import DEFAULT, Exclusion

_WAIT_SECONDS = 10.0  # seconds; a network disk that is away may let a read hang for ever

logger = logging.getLogger(__name__)

Tell = Callable[[Outcome, list[str]], object]


def follow_changes(
    once: Callable[[], Outcome], every: float, *, tell: Tell, fail: Callable[[str], object], over: Event
) -> None:
    """Call `once` until it is `over`, with `every` seconds between two runs.

    `tell` gets each outcome that changed something, with the reasons for what cannot be read any more since the last
    one. A run that fails is said by `fail`, when it is another failure than before, and tried again.
    """
    failure, unread = "", set()
    while not over.is_set():
        try:
            outcome = once()
        except (DiptychError, OSError) as error:
            if failure != str(error):
                failure = str(error)
                fail(f"{failure}; trying again every {every:g} s")
        else:
            reasons = {*outcome.refused.values(), *outcome.closed.values()}
            if has_changes(outcome) or reasons - unread or failure:
                tell(outcome, sorted(reasons - unread))
            failure, unread = "", reasons
        over.wait(every)


class Follower:
    """A thread that keeps an open collection in step with folders and logs the changes: `with Follower(...):`."""

    def __init__(
        self,
        collection: Collection,
        folders: Sequence[Path],
        every: float,
        exclusion: Exclusion = DEFAULT,
        *,
        keep_days: float = KEEP_DAYS,
    ) -> None:
        """`keep_days` are as those of a `Run`. Raises SyncError for a path that is no folder."""
        self.collection, self.folders, self.every = collection, check_folders(folders), every
        self.exclusion, self.keep_days = exclusion, keep_days
        self._over = Event()
        self._thread = Thread(target=self._run, name="diptych-sync", daemon=True)

    def __enter__(self) -> Follower:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Wait a while for the batch that is being added; nothing is lost, and the next start takes up the rest."""
        self._over.set()
        self._thread.join(_WAIT_SECONDS)
        if self._thread.is_alive():
            where = ", ".join(self.folders)
            logger.warning("sync: %s gave no answer for %g s; ending without, nothing is lost", where, _WAIT_SECONDS)

    def _run(self) -> None:
        try:
            with SeenFiles(self.collection.directory, self.collection.scorer.limits) as ledger:
                follow_changes(
                    lambda: Run(self.collection, ledger, self.folders, self.exclusion, keep_days=self.keep_days).go(
                        tick=self._count_files
                    ),
                    self.every,
                    tell=self._tell_outcome,
                    fail=lambda text: logger.warning("sync: %s", text),
                    over=self._over,
                )
        except _EndedError:
            pass
        except Exception:  # the service goes on without, but not in silence
            logger.exception("the folders %s are no longer followed; start again", ", ".join(self.folders))

    def _count_files(self, files: int) -> None:
        if self._over.is_set():
            raise _EndedError

    def _tell_outcome(self, outcome: Outcome, reasons: list[str]) -> None:
        logger.info("sync: %s", summary_line(outcome, len(self.collection)))
        for reason in shorten_list(reasons):
            logger.warning("sync: %s", reason.strip())


class _EndedError(Exception):
    """The service ends in the middle of a run."""
