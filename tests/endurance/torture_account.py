"""What must be true of a tortured collection: an account of what was acknowledged, and how it is settled."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import random
import zlib
from collections.abc import Callable, Iterator
from logging.handlers import BufferingHandler
from pathlib import Path
from time import monotonic
from typing import Any
from unittest.mock import patch

import numpy as np
from campaign import Tally
from torture_work import EVERYTHING, Job, answers, draw, id_of, where, work

from diptych import Collection, Scorer
from diptych.errors import UnknownPictureError
from diptych.store.records import Record
from diptych.store.sqlite.candidates import CandidateIndex
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.schema import DATABASE
from diptych.store.sqlite.verify import verify_store
from diptych_runtime.errors import DiptychError

# Children are forked from a process that has imported everything and opened no session of ONNX Runtime.
WARM = multiprocessing.get_context("forkserver")
WARM.set_forkserver_preload(["torture_work"])


class Torture:
    """A collection in a folder, its account, and the cycles that one fault puts it through."""

    def __init__(self, directory: Path, model: str, fault: str, seed: int, slower: float = 1.0) -> None:
        self.directory, self.model, self.slower = directory, model, slower
        Store.open(directory, create=True).close()
        self.scorer = Scorer.load(model, provider="cpu", threads=1)
        self.random = random.Random(f"{fault} {seed}")
        self.tally = Tally()
        self.next = 1
        self.ordered = True  # whether pictures are listed in the order in which they were acknowledged
        self.held: list[int] = []  # acknowledged, in that order
        self.doubtful: set[int] = set()  # begun and not acknowledged: may have happened or not
        self.begun: dict[str, int] = {}  # all that were ever begun to be added, by their ids
        self.labels: dict[tuple[str, str], str] = {}  # acknowledged answers about pairs
        self.labelling: int | None = None  # the number of those that were begun and not acknowledged
        self.warnings = BufferingHandler(10**6)  # of the warnings of one cycle
        self.warnings.setLevel(logging.WARNING)
        logging.getLogger("diptych").addHandler(self.warnings)
        self.truth: dict[int, tuple[bytes, bytes]] = {}  # (embedding, tokens)

    def job(self, steps: dict[str, int], **options: Any) -> Job:
        """The next job; each has numbers of its own."""
        self.next += 10_000
        seed = self.random.randrange(2**32)
        options = {"held": tuple(self.held), **options}
        return Job(self.directory, self.model, seed, self.next, steps=steps, **options)

    @contextlib.contextmanager
    def child(self, job: Job) -> Iterator[Child]:
        """A child at work, which is killed at the end of the block; then all its words are in the account."""
        child = Child(self, job)
        try:
            yield child
        finally:
            child.end()

    def believe(self, *words: Any) -> None:
        """Put one message of a child into the account."""
        match words:
            case ("begin", "add" | "remove", numbers):
                self.doubtful.update(numbers)
                self.begun |= {id_of(number): number for number in numbers}
            case ("done", "add", numbers):
                self.tally.acknowledged += 1
                self.doubtful.difference_update(numbers)
                self.held += numbers
            case ("done", "remove", numbers):
                self.tally.acknowledged += 1
                self.doubtful.difference_update(numbers)
                self.held = [number for number in self.held if number not in numbers]
            case ("begin", "label", (number,)):
                self.labelling = number
            case ("done", "label", (number,)):
                self.tally.acknowledged += 1
                self.labels |= answers(number)
                self.labelling = None
            case ("failed" | "refused", _):
                self.tally.noticed += 1
            case ("served", ids):
                self.compare(ids, "a search while at work")

    def true(self, number: int) -> tuple[bytes, bytes]:
        """(embedding, tokens) that the picture of a number has, computed here."""
        if number not in self.truth:
            panels = self.scorer.panels([draw(number)])
            self.truth[number] = (panels.embeddings[0].tobytes(), panels.tokens[0].tobytes())
        return self.truth[number]

    def compare(self, ids: list[str], place: str) -> None:
        """Whether what must be there is, in order, once, and nothing else."""
        surely = [id_of(number) for number in self.held if number not in self.doubtful]
        possible = {id_of(number) for number in {*self.held, *self.doubtful}}
        self.tally.lost += [f"{place}: {id} is gone" for id in set(surely) - set(ids)]
        self.tally.false += [f"{place}: {id} was removed or never sent" for id in set(ids) - possible]
        if len(set(ids)) < len(ids):
            self.tally.false.append(f"{place}: something is there twice")

    def reckon(self) -> None:
        """Open the collection and compare it with the account: what is listed, every record and feature with what is
        computed anew, the index with the database, a search with one on an index made from scratch, and `verify`.
        """
        tally = self.tally
        tally.cycles += 1
        self.warnings.buffer.clear()
        try:
            with Collection.open(self.directory, self.scorer, create=True) as collection:
                listed = [record.id for record in collection.list(EVERYTHING)]
                self.compare(listed, "the list")
                surely = {id_of(number): None for number in self.held if number not in self.doubtful}
                if self.ordered and [id for id in listed if id in surely] != list(surely):
                    tally.wrong.append("the list is in another order than the pictures came in")
                self.settle(listed)
                for number in self.held:
                    self.inspect(collection, number)
                self.compare_labels(collection)
                self.compare_index(collection)
                verdict = collection.verify()
                remarks = verdict.remarks if collection.store.sequence() else []  # nothing ever added has no cache
                tally.wrong += [f"verify: {text}" for text in (*verdict.problems, *remarks)]
        except Exception as error:
            tally.wrong.append(f"{type(error).__name__}: {error}")
        warnings = [record.getMessage() for record in self.warnings.buffer]
        tally.noticed += bool(warnings)
        # A cache that has its checksum is right: it was not written from an index that differed from the database.
        tally.wrong += [text for text in warnings if "after the replay" in text]

    def reckon_copy(self, folder: Path) -> None:
        """A backup has pictures that were added at some time, each of them as it was, or no name of its own yet."""
        if not (folder / DATABASE).exists():
            return
        with Store.open(folder, read_only=True) as copy:
            ids = [record.id for record in copy.page(EVERYTHING)]
            self.tally.wrong += [f"backup: {text}" for text in verify_store(copy).problems]
            self.tally.false += [f"backup: {id} was never sent" for id in set(ids) - self.begun.keys()]
            sent = [id for id in ids if id in self.begun]
            self.tally.false += [
                f"backup: {id} has other bytes" for id in sent if copy.data(id) != draw(self.begun[id])
            ]

    def settle(self, listed: list[str]) -> None:
        """What was doubtful is now known."""
        numbers = {id_of(number): number for number in {*self.held, *self.doubtful}}
        self.held = [numbers[id] for id in listed if id in numbers]
        self.doubtful.clear()

    def inspect(self, collection: Collection, number: int) -> None:
        """One picture: its record, bytes and features are the right ones, and its own embedding finds it."""
        id, (embedding, tokens) = id_of(number), self.true(number)
        record = collection.get(id)
        kept_tokens, kept_embedding = collection.panel(id)
        found = {
            "record": (record.path, record.metadata, record.width) == (where(number), {"number": number}, 8),
            "bytes": collection.content(id)[0] == draw(number),
            "features": (kept_embedding.tobytes(), kept_tokens.tobytes()) == (embedding, tokens),
        }
        self.tally.false += [f"picture {id} has other {what}" for what, right in found.items() if not right]
        rows, cosines = collection.index.search(np.frombuffer(embedding, "<f4"), 3)
        (row,) = [row for row, record in collection.store.records(rows.tolist()).items() if record.id == id] or [None]
        if row is None or cosines[rows == row][0] < cosines[0] - 1e-6:
            self.tally.lost.append(f"picture {id} is not found by its own embedding")

    def compare_labels(self, collection: Collection) -> None:
        """Every answer that was acknowledged is there, and of those that were begun together all or none."""
        found = {one.pair: one.answer for one in collection.labels()}
        begun = {} if self.labelling is None else answers(self.labelling)
        if found not in (self.labels, self.labels | begun):
            self.tally.lost += [f"the label of {pair} is gone" for pair in self.labels.keys() - found.keys()]
            self.tally.false.append("labels say what nobody answered, or a part of what was answered at once")
        self.labels, self.labelling = dict(found), None

    def compare_index(self, collection: Collection) -> None:
        """The index holds every row of the database with its bits, and answers like one made from nothing."""
        store, index, runtime = collection.store, collection.index, self.scorer.runtime
        stored = {row["row"]: row["embedding"] for row in store.list_features(0, EVERYTHING)}
        held = index.rows().tolist()
        if held != sorted(stored):
            self.tally.wrong.append("the index has other rows than the database")
        elif index.checksums() != {row: zlib.crc32(embedding) for row, embedding in stored.items()}:
            self.tally.wrong.append("the index has other embeddings than the database")
        fresh = CandidateIndex.rebuilt(store, runtime.embedding_dim, runtime.revision)
        query = draw(self.random.randrange(100))
        here = collection.search(query, top=EVERYTHING, candidates=8)
        with patch.object(store, "_index", fresh):
            anew = collection.search(query, top=EVERYTHING, candidates=8)
        if {match.id: match.similarity for match in here.matches} != {m.id: m.similarity for m in anew.matches}:
            self.tally.wrong.append("a search gives other results than on an index made from nothing")

    def fill(self, count: int = 40) -> None:
        """Have that many pictures, added in peace; some before them are removed, so that the database has holes."""
        if len(self.held) >= count:
            return
        with Collection.open(self.directory, self.scorer, create=True) as collection:
            for _ in range(count + 10):
                self.next += 1
                data = draw(self.next)
                collection.add(data, path=where(self.next), metadata={"number": self.next}, keep_originals=True)
                self.held.append(self.next)
            for number in self.held[5:15]:
                collection.remove(id_of(number))
            self.held = self.held[:5] + self.held[15:]
        self.tally.acknowledged += count + 20

    def consult(self, directory: Path, before: dict[str, Record], scores: dict[str, float | None]) -> None:
        """Ask a damaged copy for everything: answers are right, or there is an error; a gap is named by `verify`."""
        tally, errors, missing = self.tally, [], set()
        tally.cycles += 1

        def ask(what: Callable[..., Any], *values: Any) -> Any:
            try:
                return what(*values)
            except UnknownPictureError:
                missing.add(values[0])
            except DiptychError as error:
                errors.append(error)
            except Exception as error:
                tally.wrong.append(f"{what.__name__}: {type(error).__name__}: {error}")
            return None

        collection = ask(Collection.open, directory, self.scorer)
        if collection is None:
            tally.noticed += 1
            return
        with collection:
            for number in self.held:
                id, (embedding, tokens) = id_of(number), self.true(number)
                for what, wanted in ((collection.get, before[id]), (collection.content, (draw(number), "image/png"))):
                    if (found := ask(what, id)) not in (None, wanted):
                        tally.false.append(f"{what.__name__} of {id} gives {found}")
                panel = ask(collection.panel, id)
                if panel is not None and tuple(part.tobytes() for part in panel) != (tokens, embedding):
                    tally.false.append(f"{id} has other features")
            result = ask(lambda: collection.search(draw(0), top=EVERYTHING, candidates=EVERYTHING))
            if result is not None and any(scores.get(match.id) != match.raw_score for match in result.matches):
                tally.false.append("a search gives other scores")
            listed = ask(collection.list, EVERYTHING) or []
            verdict = ask(verify_store, collection.store)
        wanted = set(map(id_of, self.held))
        places = {"search": [match.id for match in result.matches] if result else []}
        places["list"] = [record.id for record in listed]
        tally.false += [f"{place}: {id} was never there" for place, ids in places.items() for id in set(ids) - wanted]
        tally.false += [
            f"list: {record} is another" for record in listed if before.get(record.id) not in (None, record)
        ]
        if errors or not verdict.healthy:
            tally.noticed += 1
        elif missing or any(sorted(ids) != sorted(wanted) for ids in places.values()):
            tally.lost.append(f"pictures are missing without a word: {missing or places}")


class Child:
    """A child of a torture, and what it says."""

    def __init__(self, torture: Torture, job: Job) -> None:
        self.torture = torture
        self.words, theirs = WARM.Pipe(duplex=False)
        self.process = WARM.Process(target=work, args=(job, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.said: list[str] = []

    def hear(self, seconds: float) -> bool:
        """Take one message, if one comes within that time."""
        try:
            if not self.words.poll(seconds):
                return False
            words = self.words.recv()
        except (EOFError, ConnectionResetError):
            return False
        self.torture.believe(*words)
        self.said.append(words[0])
        return True

    def hear_for(self, seconds: float) -> None:
        """Take messages for a while, which is longer on a machine that was said to be slower."""
        end = monotonic() + seconds * self.torture.slower
        while (left := end - monotonic()) > 0:
            if not self.hear(left):
                return

    def hear_until(self, word: str, seconds: float = 60.0) -> bool:
        """Take messages until one begins with that word; whether it came."""
        end = monotonic() + seconds
        while (left := end - monotonic()) > 0 and self.hear(left):
            if self.said[-1] == word:
                return True
        return False

    def end(self) -> None:
        """kill -9, and take all its last messages."""
        self.process.kill()
        while self.hear(10.0):
            pass
        self.process.join()
