"""`diptych estimate`: what many pictures cost, from what one of each costs on this machine.

A group of machines holds all pictures once, in as many shards as its memory asks for. A query is decoded and encoded by
one of them and looked for in every shard, and its candidates are scored by the shards that hold them. More groups
answer more queries.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

import numpy as np

from diptych.bench.demo.collection import draw_collection
from diptych.bench.model import find_processor, resize_photo
from diptych.collection.collection import Collection
from diptych.console import byte_size, format_table
from diptych.errors import BenchError
from diptych.scoring.scorer import Scorer
from diptych.store.sqlite.schema import DATABASE
from diptych.store.sqlite.vectors import Vectors

INDEX_OVERHEAD = 290  # bytes a vector beside itself: 0.8 GB for a million of 512 bytes
MEMORY_SHARE = 0.7  # of a machine's memory that vectors may take

_BUSY = 0.95  # no simulation is needed to see that more than this will not do
_SIMULATED, _NUMBERS = 10_000, 20_000_000  # queries, and numbers that a simulation holds at a time
_SHARDS = 10_000
_MOST = 256  # shards, beyond which more do not make a query faster
_NOBODY = 1e12  # groups, among which no query meets another

_PICTURES = 64
_VECTORS = 100_000
_ROUNDS = 7


@dataclass(frozen=True)
class Figures:
    """Seconds of one core for one: a picture from its JPEG to tokens, a vector compared with, the tokens of a candidate
    read from the database and checked, a pair scored.

    `token_bytes` is what the database has of a picture's tokens, and `record_bytes` what beside tokens and embedding.
    """

    processor: str
    model: str
    embedding_dim: int
    token_bytes: int
    picture_seconds: float
    vector_seconds: float
    fetch_seconds: float
    pair_seconds: float
    record_bytes: float


def measure_figures(scorer: Scorer) -> Figures:
    """Measure the figures of a scorer's model on this machine, in some seconds.

    Pictures and pairs keep all its threads busy meanwhile.
    """
    runtime = scorer.runtime
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        photos = draw_collection(Path(folder, "drawn"), count=_PICTURES)
        files = [resize_photo(path) for path in photos]
        store = Path(folder, "store")
        with Collection.open(store, scorer, create=True) as collection:
            ids = [added.id for added in collection.add(photos)]
            tokens = np.stack([tokens for tokens, _ in collection.panels(ids).values()])
            held = list(range(1, len(ids) + 1))
            fetch = _time_rounds(lambda: collection.store.tokens(held)) / len(held)
        size = (store / DATABASE).stat().st_size / len(ids)
    vectors = Vectors(runtime.embedding_dim)
    points = random.normal(size=(_VECTORS, runtime.embedding_dim)).astype(np.float32)
    vectors.add(range(_VECTORS), points)
    return Figures(
        processor=find_processor(),
        model=runtime.name,
        embedding_dim=runtime.embedding_dim,
        token_bytes=runtime.codec.nbytes,
        picture_seconds=_time_rounds(lambda: scorer.panels(files)) * runtime.threads / len(files),
        vector_seconds=_time_rounds(lambda: vectors.search(points[0], 100)) / _VECTORS,
        fetch_seconds=fetch,
        pair_seconds=_time_rounds(lambda: scorer.logits(tokens[:1], tokens[1:])) * runtime.threads / (len(tokens) - 1),
        record_bytes=size - runtime.released.picture_bytes,
    )


def _time_rounds(work: Callable[[], object]) -> float:
    """The median of some rounds in seconds, after a warm-up round."""
    took = []
    for _ in range(_ROUNDS + 1):
        began = perf_counter()
        work()
        took.append(perf_counter() - began)
    return float(np.median(took[1:]))


@dataclass(frozen=True)
class Machine:
    """A machine to rent: `cores` like those that were measured, `memory` in GiB, `price` in dollars a month.

    A month of disk costs `disk_price` a GiB, and `read_price` a random read a second beyond `free_reads`.
    """

    cores: int
    memory: float
    price: float
    disk_price: float
    free_reads: int
    read_price: float


@dataclass(frozen=True)
class Load:
    """`queries` a second in the mean, `candidates` each, and the seconds that 99 of 100 answers may take at most."""

    pictures: int
    queries: float
    candidates: int
    seconds: float


@dataclass(frozen=True)
class Plan:
    """The machines and costs that a load takes. Bytes are of one copy of everything, `core_seconds` of one query by
    stage, over all shards.

    There are `groups` of `shards` machines; `p50` and `p99` of the answers, in seconds, are simulated, `busy` is the
    share of all cores, `reads` a second are of one machine, `dollars` a month. `bottleneck` is what the number of
    machines is due to: "memory", or the stage with the most core-seconds.
    """

    vector_bytes: float
    token_bytes: float
    record_bytes: float
    compared: float
    core_seconds: dict[str, float]
    shards: int
    groups: int
    machines: int
    busy: float
    p50: float
    p99: float
    reads: float
    filling_hours: float
    dollars: dict[str, float]
    bottleneck: str


def plan_machines(figures: Figures, load: Load, machine: Machine) -> Plan:
    """Plan as few machines as hold the pictures and answer in time. Raises BenchError if none do."""
    count = load.pictures
    load = replace(load, candidates=min(load.candidates, count))
    vector_bytes = count * (4.0 * figures.embedding_dim + INDEX_OVERHEAD)
    token_bytes = count * float(figures.token_bytes)
    record_bytes = count * figures.record_bytes
    held = max(1, math.ceil(vector_bytes / (MEMORY_SHARE * machine.memory * 2**30)))
    if held > _SHARDS:
        raise BenchError(f"{held:,} shards would be needed, and more than {_SHARDS:,} are none; name larger machines")
    shards, groups, p50, p99 = _find_fewest(figures, load, machine, held)
    stages = _estimate_stages(figures, load, shards)
    machines = shards * groups
    disk = token_bytes + record_bytes + count * 4.0 * figures.embedding_dim
    reads = load.queries * load.candidates / machines
    return Plan(
        vector_bytes=vector_bytes,
        token_bytes=token_bytes,
        record_bytes=record_bytes,
        compared=count / shards,
        core_seconds=stages,
        shards=shards,
        groups=groups,
        machines=machines,
        busy=load.queries * sum(stages.values()) / (machines * machine.cores),
        p50=p50,
        p99=p99,
        reads=reads,
        filling_hours=count * figures.picture_seconds / (machines * machine.cores) / 3600,
        dollars={
            "machines": machines * machine.price,
            "disks": groups * disk / 2**30 * machine.disk_price,
            "reads": machines * max(0.0, reads - machine.free_reads) * machine.read_price,
        },
        bottleneck="memory" if shards == held > 1 and groups == 1 else max(stages, key=lambda name: stages[name]),
    )


def _estimate_stages(figures: Figures, load: Load, shards: int) -> dict[str, float]:
    """Estimate the core-seconds of one query by stage, over all shards."""
    return {
        "decoding and encoding": figures.picture_seconds,
        "finding candidates": load.pictures * figures.vector_seconds,
        "reading tokens": load.candidates * figures.fetch_seconds,
        "scoring pairs": load.candidates * figures.pair_seconds,
    }


def _find_fewest(figures: Figures, load: Load, machine: Machine, held: int) -> tuple[int, int, float, float]:
    """Shards, of which there have to be `held`, groups, and the p50 and p99 that they come to."""
    shards = held
    while simulate_queue(figures, load, machine, shards, _NOBODY)[1] > load.seconds:
        # Too slow even with nobody else there: with more shards each has fewer pairs to score.
        if shards > _MOST:
            raise BenchError(
                f"no number of such machines answers 99 of 100 queries within {load.seconds:g} s; allow more time"
            )
        shards = math.ceil(1.2 * shards)
    work = sum(_estimate_stages(figures, load, shards).values())
    groups = max(1, math.ceil(load.queries * work / (_BUSY * shards * machine.cores)))
    while (times := simulate_queue(figures, load, machine, shards, groups))[1] > load.seconds:
        groups = math.ceil(1.05 * groups + 0.1)
    return shards, groups, *times


def simulate_queue(
    figures: Figures, load: Load, machine: Machine, shards: int, groups: float, seed: int = 0
) -> tuple[float, float]:
    """p50 and p99 in seconds of 10,000 queries, fewer for many shards, that come at random (Poisson) to a group.

    A shard serves them in their order. It is taken up by a query for its work over all cores; one core alone encodes it
    and looks for candidates, all of them score its share of the candidates, which is drawn. The slowest shard counts.
    """
    random, queries = np.random.default_rng(seed), min(_SIMULATED, max(1000, _NUMBERS // shards))
    between = random.exponential(groups / load.queries, queries)
    share = random.multinomial(load.candidates, np.full(shards, 1 / shards), queries)
    alone = np.full((queries, shards), load.pictures / shards * figures.vector_seconds)
    alone[np.arange(queries), random.integers(shards, size=queries)] += figures.picture_seconds
    together = share * (figures.pair_seconds + figures.fetch_seconds) / machine.cores
    taken = alone / machine.cores + together
    waited = np.zeros(shards)
    answered = np.empty(queries)
    for query in range(queries):
        # Lindley: who comes waits for what was left when the last one came, less the time since.
        if query:
            waited = np.maximum(0.0, waited + taken[query - 1] - between[query])
        answered[query] = (waited + alone[query] + together[query]).max()
    p50, p99 = np.percentile(answered, [50, 99]).tolist()
    return p50, p99


def format_estimate(figures: Figures, machine: Machine, loads: list[Load], plans: list[Plan]) -> str:
    """Format the figures, the assumptions, and a column for each number of pictures."""
    measured = [
        ("a picture, decoded and encoded", f"{figures.picture_seconds * 1e3:.2f} ms of a core"),
        ("a pair scored", f"{figures.pair_seconds * 1e3:.3f} ms of a core"),
        ("a candidate's tokens read", f"{figures.fetch_seconds * 1e6:.1f} us of a core"),
        ("a million vectors compared with", f"{figures.vector_seconds * 1e9:.1f} ms of a core"),
        ("a picture in the database, beside its features", f"{figures.record_bytes:.0f} bytes"),
        ("a picture's tokens", f"{figures.token_bytes:,} bytes"),
    ]
    first = loads[0]
    rows: list[tuple[str, list[str]]] = [
        ("vectors, in memory", [byte_size(plan.vector_bytes) for plan in plans]),
        ("tokens", [byte_size(plan.token_bytes) for plan in plans]),
        ("records", [byte_size(plan.record_bytes) for plan in plans]),
        *(
            (f"a query: {stage}", [f"{plan.core_seconds[stage] * 1e3:.1f} core-ms" for plan in plans])
            for stage in plans[0].core_seconds
        ),
        ("shards x groups", [f"{plan.shards:,} x {plan.groups:,}" for plan in plans]),
        ("machines", [f"{plan.machines:,}" for plan in plans]),
        ("cores busy", [f"{plan.busy:.0%}" for plan in plans]),
        ("an answer, p50", [f"{plan.p50 * 1e3:.0f} ms" for plan in plans]),
        ("an answer, p99", [f"{plan.p99 * 1e3:.0f} ms" for plan in plans]),
        ("reads a second, a machine", [f"{plan.reads:,.0f}" for plan in plans]),
        ("filling it, on these machines", [f"{plan.filling_hours:,.1f} h" for plan in plans]),
        *((f"a month: {item}", [f"${plan.dollars[item]:,.0f}" for plan in plans]) for item in plans[0].dollars),
        ("a month", [f"${sum(plan.dollars.values()):,.0f}" for plan in plans]),
        ("first bottleneck", [plan.bottleneck for plan in plans]),
    ]
    return "\n".join(
        [
            f"{figures.processor}, one core; model {figures.model}",
            format_table(("measured", ""), measured),
            "",
            f"{first.queries:g} queries a second, {first.candidates} candidates each, p99 within {first.seconds:g} s;",
            f"machines of {machine.cores} such cores and {machine.memory:g} GiB at ${machine.price:g} a month, disk "
            f"${machine.disk_price:g} a GiB, ${machine.read_price:g} a read/s beyond {machine.free_reads:,}",
            format_table(
                ("pictures", *(f"{one.pictures:,}" for one in loads)), [(name, *values) for name, values in rows]
            ),
        ]
    )
