"""A week of writes in an hour: `python tests/endurance/soak_writes.py --minutes 60`.

A service takes and forgets pictures, one after the other, while others search and list. In each round a collection of
100 pictures grows to 700 and shrinks again; at its fullest a backup is made beside the service and verified. At the
end of each round memory, open files, threads and the bytes of the store are written down: in the last quarter they may
be 5 % above the first at most.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
from served import run_service
from soak import LATE, Account, Client, Truth, footprint, own

from diptych import Collection, Scorer
from diptych.store.sqlite.backup import back_up_collection
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.verify import verify_store

FEWEST, MOST, AT_ONCE, GROWTH = 100, 700, 8, 1.05
FIGURES = ("bytes of memory", "open files", "threads", "bytes of the store")


@dataclass
class Week:
    """What became of the writes; `account.wrong` must stay empty."""

    account: Account = field(default_factory=Account)
    writes: int = 0
    backups: int = 0
    rounds: list[tuple[int, ...]] = field(default_factory=list)  # FIGURES at the end of each

    def ends(self) -> dict[str, tuple[float, float]]:
        """Means of the first and of the last quarter of the rounds, by figure; the very first round is left out."""
        rounds = np.array(self.rounds[1:], float)
        quarter = max(1, len(rounds) // 4)
        means = zip(rounds[:quarter].mean(0).tolist(), rounds[-quarter:].mean(0).tolist(), strict=True)
        return dict(zip(FIGURES, means, strict=True))


class Writer(Client):
    """Adds pictures and removes them again."""

    def grow(self, count: int) -> None:
        """Add pictures until it has so many."""
        while len(self.mine) < count:
            pictures = [own(self.number, self.next + place) for place in range(min(AT_ONCE, count - len(self.mine)))]
            self.next += len(pictures)
            form = [("image", (f"{place}.png", data)) for place, data in enumerate(pictures)]
            answer = httpx.post(f"http://127.0.0.1:{self.port()}/v1/images", files=form, timeout=LATE)
            if self.allowed(answer.status_code, answer.json(), 201):
                self.mine += [(item["id"], data) for item, data in zip(answer.json()["data"], pictures, strict=True)]

    def shrink(self, count: int) -> None:
        """Remove any of its pictures until it has so many; of each tenth it is asked whether it is gone."""
        self.leave()  # a connection that was idle since the last time is closed by the service
        while len(self.mine) > count:
            id, _ = self.mine.pop(self.random.randrange(len(self.mine)))
            self.allowed(*self.ask("DELETE", f"/v1/images/{id}"), 200)
            if self.random.random() < 0.1:
                self.allowed(*self.ask("GET", f"/v1/images/{id}"), 404)


def disk_bytes(store: Path) -> int:
    """The bytes of all files of a collection, its log and its index too."""
    return sum(path.stat().st_size for path in store.iterdir())


def copy_whole(store: Path, target: Path, held: int) -> list[str]:
    """Make a backup beside the service and say what is wrong with it; nothing is left of it."""
    with Store.open(store, read_only=True) as source:
        back_up_collection(source, target)
    with Store.open(target, read_only=True) as copy:
        found = [f"backup: {text}" for text in verify_store(copy).problems]
        if copy.count() != held:
            found.append(f"backup: it has {copy.count()} pictures, not {held}")
    shutil.rmtree(target)
    return found


def soak(model: str, minutes: float, seed: int, say: Callable[[str], None] = lambda line: None) -> Week:
    """Run it all; returns what happened."""
    week = Week()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        store, scorer = Path(folder, "store"), Scorer.load(model)
        with Collection.open(store, scorer, create=True) as collection:
            truth = Truth.found(scorer, collection, paint(Path(folder, "drawn")))
        port, process = stack.enter_context(run_service(store, model, scorer.runtime.threads))
        began, over = time.monotonic(), threading.Event()
        writer = Writer(0, truth, week.account, lambda: port, seed)
        reader = Client(1, truth, week.account, lambda: port, seed)
        asking = threading.Thread(target=read, args=(reader, over))
        asking.start()
        try:
            while time.monotonic() - began < 60 * minutes and not week.account.wrong:
                writer.grow(MOST)
                week.account.wrong += copy_whole(store, Path(folder, "copy"), MOST + len(truth.ids))
                week.backups += 1
                writer.shrink(FEWEST)
                week.writes = 2 * writer.next - FEWEST
                week.rounds.append((*footprint(process.pid), disk_bytes(store)))
                say(f"{time.monotonic() - began:5.0f} s {week.writes:8,} writes {week.rounds[-1]}")
        finally:
            over.set()
            asking.join()
            writer.leave()
        stack.close()
        with Collection.open(store, scorer) as collection:
            held = {record.id for record in collection.list(10**6)}
            if held != {*truth.ids, *(id for id, _ in writer.mine)}:
                week.account.wrong.append(f"the collection has {len(held)} pictures, and not those that it should have")
            week.account.wrong += [f"verify: {fault}" for fault in collection.verify().problems]
    return week


def paint(folder: Path, count: int = 60) -> list[Path]:
    """The pictures that stay."""
    folder.mkdir()
    paths = [folder / f"{number}.png" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_bytes(own(10**6, number))
    return paths


def read(client: Client, over: threading.Event) -> None:
    """Search, re-rank and look until it is over."""
    for thing in itertools.cycle((client.search, client.rerank, client.look)):
        if over.wait(0.3):
            break
        status = thing()
        client.account.answers[thing.__name__, status] += 1
    client.leave()


def report(week: Week) -> Iterator[str]:
    """What happened, line by line."""
    yield f"{week.writes:,} writes and {week.backups} backups in {len(week.rounds)} rounds"
    for (what, status), count in sorted(week.account.answers.items(), key=str):
        yield f"{what:8} {status!s:24} {count:9,}"
    if len(week.rounds) > 1:
        for name, (first, last) in week.ends().items():
            yield f"{name:20} {first:14,.1f} {last:14,.1f} {last / first:6.3f}"
    yield f"wrong    {len(week.account.wrong):34,}"
    yield from week.account.wrong[:10]


def grown(week: Week) -> Sequence[str]:
    """The figures that are not flat; one thread or file more is nothing."""
    return [name for name, (first, last) in week.ends().items() if last > GROWTH * first + 1]


def main() -> int:
    """Soak, print, and say whether all was right and flat."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="photo-small")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    week = soak(args.model, args.minutes, args.seed, lambda line: print(line, file=sys.stderr, flush=True))
    print("\n".join(report(week)))
    return bool(week.account.wrong or len(week.rounds) < 5 or grown(week))


if __name__ == "__main__":
    sys.exit(main())
