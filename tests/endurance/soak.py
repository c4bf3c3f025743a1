"""Mixed traffic on a running service: `python tests/endurance/soak.py --minutes 30 --kill decoders`.

Clients search, re-rank, score, add, list, read and remove pictures and send what is none, all at once. Every answer is
compared with what the library gives for the same pictures, bit by bit; memory, open files and threads of the service
are written down meanwhile. With `--kill decoders` a decoding process is killed every few seconds, with `--kill service`
the whole service, which is then started again as its keeper would. The first wrong or late answer ends it.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import http.client
import itertools
import json
import math
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from served import run_service

from diptych import Collection, Scorer
from diptych_studies.benchmarks.collection import draw_cuts

KEPT, LATE, EVERY = 60, 90.0, 5.0
GONE = (ConnectionError, http.client.HTTPException)


def own(client: int, number: int) -> bytes:
    """A picture that nobody else adds."""
    pixels = np.random.default_rng((client, number)).integers(0, 256, (9, 12, 3), np.uint8)
    buffer = BytesIO()
    Image.fromarray(pixels).resize((96, 72), Image.Resampling.BICUBIC).save(buffer, "PNG")
    return buffer.getvalue()


def drawn(folder: Path) -> list[Path]:
    """The pictures that are kept all the time."""
    folder.mkdir()
    paths = [folder / f"{number:02d}.jpg" for number in range(KEPT)]
    for path, picture in zip(paths, draw_cuts(KEPT, 0), strict=True):
        picture.save(path, "JPEG", quality=90)
    return paths


@dataclass
class Truth:
    """What the library says of the kept pictures."""

    photos: list[bytes]
    ids: list[str]
    logits: np.ndarray  # (K, K)

    @classmethod
    def found(cls, scorer: Scorer, collection: Collection, paths: list[Path]) -> Truth:
        """Add the pictures and look at every pair of them."""
        ids = [collection.add(path, keep_originals=True)[0].id for path in paths]
        tokens = np.stack([collection.panel(id)[0] for id in ids])
        logits = np.stack([scorer.logits(tokens[k : k + 1], tokens) for k in range(len(ids))])
        return cls([path.read_bytes() for path in paths], ids, logits)


@dataclass
class Account:
    """What was asked and answered; `wrong` must stay empty."""

    answers: Counter[tuple[str, int | str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    killed: int = 0
    footprint: list[tuple[float, int, int, int]] = field(default_factory=list)  # minute, bytes, files, threads
    log: list[str] = field(default_factory=list)  # the end of what the service wrote, where something was wrong


class Client:
    """One that asks, one thing after the other, and compares."""

    def __init__(self, number: int, truth: Truth, account: Account, port: Callable[[], int], seed: int) -> None:
        self.number, self.truth, self.account, self.port = number, truth, account, port
        self.random = random.Random(f"{seed} {number}")
        self.mine: list[tuple[str, bytes]] = []
        self.next = 0
        self.connection: http.client.HTTPConnection | None = None

    def run(self, ended: Callable[[], bool]) -> None:
        """Ask until the end."""
        things = [self.rerank, self.search, self.score, self.add, self.read, self.remove, self.bad, self.look]
        while not ended():
            thing = self.random.choice(things)
            began = time.monotonic()
            try:
                status: int | str = thing()
            except GONE as error:
                self.leave()
                status = type(error).__name__
                time.sleep(0.2)
            except TimeoutError:
                self.leave()
                self.account.wrong.append(f"{thing.__name__}: no answer within {LATE:g} s")
                status = "late"
            except Exception as error:
                self.account.wrong.append(f"{thing.__name__}: {type(error).__name__}: {error}")
                status = "wrong"
            if time.monotonic() - began > LATE:
                self.account.wrong.append(f"{thing.__name__} took {time.monotonic() - began:.0f} s")
            self.account.answers[thing.__name__, status] += 1
        self.leave()

    def leave(self) -> None:
        """Close the connection; the next question opens another."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and what was answered."""
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port(), timeout=LATE)
        data = None if body is None else json.dumps(body).encode()
        self.connection.request(method, path, data, {"Content-Type": "application/json"} if data else {})
        answer = self.connection.getresponse()
        said = answer.read()
        if answer.status in (429, 503):
            time.sleep(0.5)
        type_ = answer.headers.get("Content-Type", "")
        return answer.status, json.loads(said) if "json" in type_ and said else said

    def expect(self, condition: bool, what: str) -> None:
        """Note a wrong answer."""
        if not condition:
            self.account.wrong.append(what)

    def allowed(self, status: int, answer: Any, *statuses: int) -> bool:
        """Whether it is what was asked for; refusals that a busy or tortured service may give are not wrong."""
        if status in statuses:
            return True
        excused = {429: "overloaded", 503: None, 504: "deadline", 422: "decoder_ended"}
        code = answer["error"]["code"] if isinstance(answer, dict) and "error" in answer else None
        self.expect(status in excused and excused[status] in (None, code), f"{status} {str(answer)[:200]}")
        return False

    def rerank(self) -> int:
        """Stored pictures by id."""
        query = self.random.randrange(KEPT)
        documents = self.random.sample(range(KEPT), self.random.randint(1, KEPT))
        ids = self.truth.ids
        body = {"query": {"id": ids[query]}, "documents": [{"id": ids[k]} for k in documents]}
        status, answer = self.ask("POST", "/v1/rerank", body)
        if self.allowed(status, answer, 200):
            # The query itself comes first: it is the same, whatever its logit.
            ranked = sorted((k != query, -self.truth.logits[query, k], place) for place, k in enumerate(documents))
            wanted = [(logit, place) for _, logit, place in ranked]
            found = [(-result["raw_score"], result["index"]) for result in answer["results"]]
            self.expect(
                found == [(float(a), b) for a, b in wanted], f"rerank of {query}: {found[:3]}, not {wanted[:3]}"
            )
        return status

    def search(self) -> int:
        """A picture sent along: it is in the collection, so it must be found, with the scores of the library."""
        query = self.random.randrange(KEPT)
        body = {"image": inline(self.truth.photos[query]), "top": 5, "candidates": self.random.choice([0, 20, 100])}
        status, answer = self.ask("POST", "/v1/search", body)
        if self.allowed(status, answer, 200):
            matches = answer["matches"]
            ids = self.truth.ids
            self.expect(
                ids[query] in [match["id"] for match in answer["candidates"]], f"search does not find {query} itself"
            )
            for match in matches:
                if match["raw_score"] is not None and match["id"] in ids:
                    wanted = float(self.truth.logits[query, ids.index(match["id"])])
                    self.expect(match["raw_score"] == wanted, f"search scores {match['raw_score']}, not {wanted}")
        return status

    def score(self) -> int:
        """Pictures sent along, pair by pair."""
        pairs = [(self.random.randrange(KEPT), self.random.randrange(KEPT)) for _ in range(self.random.randint(1, 4))]
        sides = zip(*pairs, strict=True)
        queries, documents = ([inline(self.truth.photos[k]) for k in side] for side in sides)
        status, answer = self.ask("POST", "/v1/score", {"queries": queries, "documents": documents})
        if self.allowed(status, answer, 200):
            found = [item["raw_score"] for item in answer["data"]]
            wanted = [float(self.truth.logits[pair]) for pair in pairs]
            self.expect(found == wanted, f"score gives {found}, not {wanted}")
        return status

    def add(self) -> int:
        """A picture of one's own."""
        if len(self.mine) > 20:
            return self.remove()
        data = own(self.number, self.next)
        self.next += 1
        status, answer = self.ask("POST", "/v1/images", {"image": inline(data)})
        if self.allowed(status, answer, 200, 201):
            self.mine.append((answer["data"][0]["id"], data))
        return status

    def read(self) -> int:
        """The record and the features of a picture of one's own: what was acknowledged is there."""
        if not self.mine:
            return self.add()
        id, data = self.random.choice(self.mine)
        status, answer = self.ask("GET", f"/v1/images/{id}")
        if self.allowed(status, answer, 200):
            self.expect((answer["id"], answer["width"], answer["height"]) == (id, 96, 72), f"{id} is {answer}")
            status, answer = self.ask("POST", "/v1/score", {"queries": {"id": id}, "documents": inline(data)})
            if self.allowed(status, answer, 200):
                self.expect(answer["data"][0]["score"] > 0.5, f"{id} is not like itself")
        return status

    def remove(self) -> int:
        """What was removed is gone."""
        if not self.mine:
            return self.add()
        id, _ = self.mine.pop(0)  # whatever becomes of it: a service that is killed may not come to say so
        status, answer = self.ask("DELETE", f"/v1/images/{id}")
        if self.allowed(status, answer, 200):
            self.allowed(*self.ask("GET", f"/v1/images/{id}"), 404)
        return status

    def bad(self) -> int:
        """No picture, a broken one, no JSON object, an unknown id."""
        photo = self.truth.photos[0]
        worse = self.random.choice([b"no picture", photo[: len(photo) // 2], b"\x89PNG\r\n\x1a\n" + bytes(60)])
        bodies = [
            ("/v1/search", {"image": inline(worse)}),
            ("/v1/score", {"queries": "x", "documents": []}),
            ("/v1/rerank", [1, 2]),
            ("/v1/rerank", {"query": {"id": "0" * 32}, "documents": [inline(photo)]}),
        ]
        path, body = self.random.choice(bodies)
        status, answer = self.ask("POST", path, body)
        self.allowed(status, answer, 422)
        return status

    def look(self) -> int:
        """Pages, figures and health."""
        path = self.random.choice(["/v1/images?limit=100", "/info", "/metrics", "/healthz", "/readyz"])
        status, answer = self.ask("GET", path)
        self.allowed(status, answer, 200)
        return status


def inline(data: bytes) -> str:
    """A picture as a request has it."""
    return "data:image/png;base64," + base64.b64encode(data).decode()


def children(pid: int) -> list[int]:
    """Of a process and of its children."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *children(child)]
    return found


def footprint(pid: int) -> tuple[int, int, int]:
    """Bytes, open files and threads of a process and of all below it."""
    total = [0, 0, 0]
    for one in (pid, *children(pid)):
        with contextlib.suppress(OSError, KeyError):  # it has just ended
            status = dict(line.split(":", 1) for line in Path(f"/proc/{one}/status").read_text().splitlines())
            files = len(list(Path(f"/proc/{one}/fd").iterdir()))
            for place, value in enumerate((int(status["RssAnon"].split()[0]) * 1024, files, int(status["Threads"]))):
                total[place] += value
    return total[0], total[1], total[2]


def decoders(pid: int) -> list[int]:
    """The processes that decode, below those of a service."""
    return [child for child in children(pid) if not children(child)]


def soak(model: str, minutes: float, clients: int, kill: str | None, seed: int, requests: float = math.inf) -> Account:
    """Run it all, until the minutes are over or so many requests are answered; returns what happened."""
    account = Account()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        store, scorer = Path(folder, "store"), Scorer.load(model)
        with Collection.open(store, scorer, create=True) as collection:
            truth = Truth.found(scorer, collection, drawn(Path(folder, "drawn")))
        port, process = stack.enter_context(run_service(store, model, scorer.runtime.threads))
        began = time.monotonic()
        end = began + 60 * minutes
        ports = [port]
        threads = [
            threading.Thread(target=Client(k, truth, account, lambda: ports[-1], seed).run, args=(lambda: over(),))
            for k in range(clients)
        ]

        def over() -> bool:
            return time.monotonic() > end or bool(account.wrong) or account.answers.total() >= requests

        for thread in threads:
            thread.start()
        for tick in itertools.count(1):
            threads[0].join(EVERY)
            if over():
                break
            if process.poll() is not None:
                account.wrong.append(f"the service ended by itself with {process.returncode}")
                break
            if tick % 2 == 0:
                account.footprint.append(((time.monotonic() - began) / 60, *footprint(process.pid)))
            if kill == "decoders" and (found := decoders(process.pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(random.Random(f"{seed} {tick}").choice(found), signal.SIGKILL)
                    account.killed += 1
            elif kill == "service":
                process.kill()
                process.wait()
                account.killed += 1
                port, process = stack.enter_context(run_service(store, model, scorer.runtime.threads))
                ports.append(port)
        for thread in threads:
            thread.join()
        stack.close()
        if account.wrong:
            account.log = store.with_name("service.log").read_text(errors="replace").splitlines()[-60:]
        with Collection.open(store, scorer) as collection:
            verdict = collection.verify()
            account.wrong += [f"verify: {fault}" for fault in verdict.problems]
    return account


def report(account: Account) -> Iterator[str]:
    """What happened, line by line."""
    for (what, status), count in sorted(account.answers.items(), key=str):
        yield f"{what:8} {status!s:24} {count:9,}"
    yield f"killed   {account.killed:34,}"
    for minute, memory, files, threads in account.footprint[:: max(1, len(account.footprint) // 10)]:
        yield f"minute {minute:6.1f}  {memory / 2**20:7.1f} MiB  {files:4} files  {threads:3} threads"
    yield f"wrong    {len(account.wrong):34,}"
    yield from account.wrong[:10]
    yield from account.log


def main() -> int:
    """Soak, print, and say whether all was right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="photo-small")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--requests", type=int, default=math.inf, help="end after so many answers")
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--kill", choices=("decoders", "service"))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    account = soak(args.model, args.minutes, args.clients, args.kill, args.seed, args.requests)
    print("\n".join(report(account)))
    return bool(account.wrong)


if __name__ == "__main__":
    sys.exit(main())
