"""The metrics for Prometheus at `/metrics`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from diptych.collection.registry import Collections
from diptych.errors import StoreError
from diptych.scoring.scheduler import PairScheduler
from diptych.scoring.scorer import Scorer
from diptych.scoring.tracing import span

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)


class Metrics:
    """The figures of one service; every name begins with `diptych_`.

    Stages of a request: "queue" until a worker takes it, "decode", "panel" (where pictures are added, until they are on
    the disk), "retrieve", "pair" (with "turn", the wait for the scheduler's turn, in it).
    """

    def __init__(self, scorer: Scorer, collections: Collections) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Histogram(
            *("diptych_request_seconds", "Requests by route, method and status.", ("route", "method", "status")),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._stages = Histogram(
            *("diptych_stage_seconds", "Where requests spend their time.", ("stage",)),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._refusals = Counter(
            *("diptych_rejections_total", "Answers that are no success, by error code.", ("reason",)),
            registry=self.registry,
        )
        self._counts = Counter(
            *("diptych_done_total", "Pictures encoded and pairs looked at.", ("what",)), registry=self.registry
        )
        runtime = scorer.runtime
        Info("diptych_service", "What runs, and on what.", registry=self.registry).info(
            {
                "version": version("diptych"),
                "model": runtime.name,
                "revision": runtime.revision,
                "provider": runtime.provider,
                "attention_path": runtime.attention_path,
                "pair_path": runtime.pair_path,
            }
        )

        def schedulers() -> set[PairScheduler]:
            return {one.scheduler for one in (scorer, *collections.scorers())}

        self.live(
            *("diptych_pairs_waiting", "Pairs that nobody has begun with."),
            lambda: sum(one.waiting for one in schedulers()),
        )
        self.live(
            *("diptych_pairs_in_flight", "Pairs being looked at."), lambda: sum(one.in_flight for one in schedulers())
        )
        self.registry.register(_Indexes(collections))
        for one in schedulers():
            one.waited = lambda seconds: self.stage("turn", seconds)

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self.registry)

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request that was answered."""
        self._requests.labels(route, method, str(status)).observe(seconds)

    def refusal(self, reason: str) -> None:
        """An answer that is no success."""
        self._refusals.labels(reason).inc()

    def done(self, what: str, count: int) -> None:
        """`count` more "pictures" or "pairs"."""
        self._counts.labels(what).inc(count)

    def stage(self, name: str, seconds: float) -> None:
        """Seconds that one request spent in a stage."""
        self._stages.labels(name).observe(seconds)

    def stages(self, timings: Mapping[str, float]) -> None:
        """Seconds of several stages."""
        for name, seconds in timings.items():
            self.stage(name, seconds)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Time the enclosed block, as a span too."""
        began = time.perf_counter()
        try:
            with span(stage):
                yield
        finally:
            self.stage(stage, time.perf_counter() - began)

    def live(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Register a gauge that is computed at each scrape."""
        Gauge(name, about, registry=self.registry).set_function(value)


class _Indexes(Collector):
    """Gauges of the open collections, computed at each scrape."""

    def __init__(self, collections: Collections) -> None:
        self._collections = collections

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """As the registry calls it."""
        pictures = GaugeMetricFamily("diptych_collection_pictures", "Pictures in the index.", labels=("collection",))
        generation = GaugeMetricFamily("diptych_index_generation", "Changes in the index.", labels=("collection",))
        for name, collection in self._collections.open_ones().items():
            with suppress(StoreError):  # one that cannot be asked right now has no figures
                count, changes = collection.backend.indexed()
                pictures.add_metric((name,), count)
                if changes is not None:
                    generation.add_metric((name,), changes)
        damaged = len(self._collections.damaged())
        yield pictures
        yield generation
        yield GaugeMetricFamily("diptych_collections_damaged", "Collections that could not be opened.", value=damaged)
