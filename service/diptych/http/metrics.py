"""The metrics for Prometheus at `/metrics`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from diptych.collection.registry import Collections
from diptych.errors import StoreError
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
        histogram = partial(Histogram, buckets=_SECONDS, registry=self.registry)
        counter = partial(Counter, registry=self.registry)
        self._requests = histogram(
            "diptych_request_seconds", "Requests by route, method and status.", ("route", "method", "status")
        )
        self._stages = histogram("diptych_stage_seconds", "Where requests spend their time.", ("stage",))
        self._refusals = counter("diptych_rejections_total", "Answers that are no success, by error code.", ("reason",))
        self.ready = Gauge(
            "diptych_ready", "1 if the service can answer, as /readyz says, else 0.", registry=self.registry
        )
        self._counts = counter("diptych_done_total", "Pictures encoded and pairs looked at.", ("what",))
        runtime, facts = scorer.runtime, {"version": version("diptych"), "model": scorer.runtime.name}
        facts |= {name: getattr(runtime, name) for name in ("revision", "provider", "attention_path", "pair_path")}
        Info("diptych_service", "What runs, and on what.", registry=self.registry).info(facts)

        def sum_over_schedulers(name: str) -> int:
            return sum(getattr(one, name) for one in {one.scheduler for one in (scorer, *collections.scorers())})

        waiting, in_flight = (partial(sum_over_schedulers, name) for name in ("waiting", "in_flight"))
        self.add_gauge("diptych_pairs_waiting", "Pairs that nobody has begun with.", waiting)
        self.add_gauge("diptych_pairs_in_flight", "Pairs being looked at.", in_flight)
        self.registry.register(_Indexes(collections))
        for one in (scorer, *collections.scorers()):
            one.scheduler.waited = lambda seconds: self.add_stages({"turn": seconds})

    def render_text(self) -> bytes:
        """Render all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def count_request(self, route: str, method: str, status: int, seconds: float, refusal: str | None = None) -> None:
        """Count a request that was answered, and the error code of an answer that is no success."""
        self._requests.labels(route, method, str(status)).observe(seconds)
        if refusal is not None:
            self._refusals.labels(refusal).inc()

    def count_items(self, what: str, number: int) -> None:
        """Count so many more "pictures" or "pairs"."""
        self._counts.labels(what).inc(number)

    def add_stages(self, timings: Mapping[str, float]) -> None:
        """Add the seconds that one request spent in stages."""
        for name, seconds in timings.items():
            self._stages.labels(name).observe(seconds)

    @contextmanager
    def time_stage(self, stage: str) -> Iterator[None]:
        """Time the enclosed block, as a span too."""
        began = time.perf_counter()
        try:
            with span(stage):
                yield
        finally:
            self.add_stages({stage: time.perf_counter() - began})

    def add_gauge(self, name: str, about: str, value: Callable[[], float]) -> None:
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
                count, changes = collection.backend.index_state()
                pictures.add_metric((name,), count)
                if changes is not None:
                    generation.add_metric((name,), changes)
        damaged = len(self._collections.list_faults())
        yield pictures
        yield generation
        yield GaugeMetricFamily("diptych_collections_damaged", "Collections that could not be opened.", value=damaged)
