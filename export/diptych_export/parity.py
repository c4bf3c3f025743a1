"""The gate of every export: torch against what the written graphs really compute."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import torch
from torch import Tensor

from diptych.console import format_table
from diptych_export.folding import freeze_network
from diptych_export.graphs import Graphs, inline_functions
from diptych_model.network import PairNetwork
from diptych_runtime.errors import ArtifactError
from diptych_runtime.kernel import KernelError, Library, load_kernel

TOLERANCE = 1e-5
BATCHES = (1, 2, 3, 8)
PAIRS = 10_000
_CHUNK = 16
_OUTPUTS = {"panel": ("tokens", "embeddings"), "pair": ("logits",), "explain": ("attention",)}

Feeds = dict[str, np.ndarray]
Run = Callable[[Feeds], list[np.ndarray]]
OnPairs = Callable[[int], Callable[[int], object]]


@dataclass(frozen=True)
class Difference:
    """The largest |torch - other| of one output over the batch sizes tried, relative to `_error_scale` of torch's.

    Of logits, where `pairs` is not 0, over so many pairs besides, each query's with its candidates.
    """

    graph: str
    output: str
    against: str
    batches: tuple[int, ...]
    largest: float
    pairs: int = 0


@dataclass(frozen=True)
class Parity:
    """The result of the parity gate: all differences, and the comparisons left out here, with the reason."""

    differences: tuple[Difference, ...]
    tolerance: float = TOLERANCE
    left_out: tuple[str, ...] = ()

    @property
    def largest(self) -> float:
        """The largest difference of all."""
        return max(difference.largest for difference in self.differences)

    def require(self) -> None:
        """Raise ArtifactError unless every difference is at most `tolerance`, which a NaN is not.

        Then the graphs rank as torch does: only logits that are closer than two errors can change places.
        """
        bad = [d for d in self.differences if not d.largest <= self.tolerance]
        if bad:
            worst = "; ".join(f"{d.output} by {d.largest:.2g} ({d.graph} graph, {d.against})" for d in bad)
            raise ArtifactError(
                f"the graphs do not compute what torch computes: {worst}; at most {self.tolerance:g} is allowed, "
                "so nothing was written"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, as written into the manifest."""
        return {"largest": self.largest, **asdict(self)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Parity:
        """The parity result that a manifest holds; what earlier versions told besides is left out."""
        names = Difference.__dataclass_fields__
        differences = (
            Difference(**{name: value for name, value in one.items() if name in names}) for one in stored["differences"]
        )
        return cls(tuple(differences), stored["tolerance"], tuple(stored.get("left_out", ())))

    def text(self) -> str:
        """A table for people."""
        rows = [
            (
                *(d.graph, d.output, d.against, ",".join(map(str, d.batches)), f"{d.largest:.1e}"),
                f"{d.pairs:,}" if d.pairs else "",
            )
            for d in self.differences
        ]
        lines = format_table(("graph", "output", "against torch", "batches", "largest difference", "pairs"), rows)
        return lines + "".join(f"\nnot compared: {text}" for text in self.left_out)


class _Way(NamedTuple):
    """A way in which a graph is run: its name, and whether all inputs are tried or only a batch of two."""

    graph: str
    name: str
    run: Run
    tries_all: bool = True


def compare_graphs(
    network: PairNetwork,
    graphs: Graphs,
    *,
    pairs: int = PAIRS,
    on_pairs: OnPairs = lambda total: lambda count: None,
) -> Parity:
    """Compare the outputs of torch with every way in which the graphs are run.

    ONNX Runtime on the node's body, on its kernel and on the inlined graph: in each batch size, and the pair graph
    over `pairs` pairs besides; onnx's reference evaluator in a batch of two. The pictures are drawn at random; the pair
    and explain graphs get the tokens that torch makes of them. `on_pairs` is told how many of those pairs will be run,
    torch's among them, and gives what is told how many more were.
    """
    network = freeze_network(network)
    asked = max(1, math.isqrt(pairs))
    most = max(BATCHES)
    pixels = drawn_pixels(max(most, asked) + 1, network.config.pixels, seed=0)
    with torch.no_grad():
        parts = [network.encode(part.permute(0, 3, 1, 2) / 255) for part in torch.from_numpy(pixels).split(_CHUNK)]
        tokens, embeddings = (torch.cat(part).numpy() for part in zip(*parts, strict=True))
    if not np.abs(tokens).max() < np.finfo(np.float16).max:
        raise ArtifactError(
            f"tokens reach {np.abs(tokens).max():.3g}: they must be finite and fit float16 to be stored"
        )
    # Each picture with its neighbour: row i is one pair, whichever batch it comes in.
    feeds = {"tokens_a": tokens[:most], "tokens_b": tokens[1 : most + 1]}
    relate = _torch_runner(network.relate)
    wanted = {"panel": [tokens[:most], embeddings[:most]], "pair": relate(feeds)}
    if graphs.explain is not None:
        wanted["explain"] = _torch_runner(network.attention)(feeds)
    try:
        library, left_out = load_kernel(), ()
    except KernelError as error:
        library, left_out = None, (f"the kernel: {error}",)
    ways = list(_list_ways(graphs, library))
    ranked = [way for way in ways if way.graph == "pair" and way.tries_all]
    ran = on_pairs(asked**2 * (1 + len(ranked)))
    logits = _all_pairs(tokens[:asked], relate, ran)
    differences: list[Difference] = []
    for way in ways:
        given = {"pixels": pixels[:most]} if way.graph == "panel" else feeds
        tried = BATCHES if way.tries_all else (2,)
        largest = _measure_differences(way, given, wanted[way.graph], tried)
        counted = 0
        if way in ranked:
            apart = np.abs(_all_pairs(tokens[:asked], way.run, ran) - logits) / _error_scale(logits)
            largest, counted = [float(np.max([*largest, apart.max()]))], asked**2
        differences += [
            Difference(way.graph, output, way.name, tried, value, counted)
            for output, value in zip(_OUTPUTS[way.graph], largest, strict=True)
        ]
    return Parity(tuple(differences), left_out=left_out)


def _all_pairs(tokens: np.ndarray, run: Run, ran: Callable[[int], object]) -> np.ndarray:
    """The logits of every picture with every one, chunk by chunk, of which each is said to have been `ran`: tokens
    (n, N, M, d) -> (n, n), or (n, n, Q).
    """
    rows = []
    for one in tokens:
        chunks = []
        for start in range(0, len(tokens), _CHUNK):
            many = tokens[start : start + _CHUNK]
            chunks.append(run({"tokens_a": np.repeat(one[None], len(many), 0), "tokens_b": many})[0])
            ran(len(many))
        rows.append(np.concatenate(chunks))
    return np.stack(rows)


def _error_scale(values: np.ndarray) -> np.ndarray:
    """The sizes that errors are relative to: |values|, at least 1 and at least their root mean square.

    For a logit near 0 is the difference of sums that are as large as those of others.
    """
    scale = np.sqrt(np.mean(np.square(values, dtype=np.float64)))
    return np.maximum(np.abs(values), np.fmax(1.0, scale))


def _torch_runner(function: Callable[[Tensor, Tensor], Tensor]) -> Run:
    def run_torch(feeds: Feeds) -> list[np.ndarray]:
        with torch.no_grad():
            return [function(torch.from_numpy(feeds["tokens_a"]), torch.from_numpy(feeds["tokens_b"])).numpy()]

    return run_torch


def _list_ways(graphs: Graphs, library: Library | None) -> Iterator[_Way]:
    """Every way in which the graphs are run here."""
    for name, graph in zip(Graphs._fields, graphs, strict=True):
        if graph is None:
            continue
        yield _Way(name, "ONNX Runtime", _onnx_runtime_runner(graph))
        if graph.functions:
            if library is not None:
                kernel = f"ONNX Runtime, kernel ({library.instructions})"
                yield _Way(name, kernel, _onnx_runtime_runner(graph, library))
            yield _Way(name, "ONNX Runtime, inlined", _onnx_runtime_runner(inline_functions(graph)))
        yield _Way(name, "reference evaluator", _evaluator_runner(graph), tries_all=False)


def drawn_pixels(count: int, size: int, seed: int) -> np.ndarray:
    """Random pictures uint8 (count, size, size, 3) of soft blobs, hard stripes and noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:size, :size] / size
    pictures = np.empty((count, size, size, 3))
    for picture in pictures:
        picture[:] = rng.uniform(0, 255, 3)
        for _ in range(6):
            (row, col), width = rng.uniform(0, 1, 2), rng.uniform(0.05, 0.4)
            blob = np.exp(-((y - row) ** 2 + (x - col) ** 2) / width**2)
            picture += blob[..., None] * rng.uniform(-200, 200, 3)
        angle, period = rng.uniform(0, np.pi), rng.uniform(0.05, 0.5)
        stripes = np.sin((x * np.cos(angle) + y * np.sin(angle)) * 2 * np.pi / period) > 0.6
        picture[stripes] += rng.uniform(-120, 120, 3)
        picture += rng.normal(0, rng.uniform(0, 40), picture.shape)
    return pictures.clip(0, 255).astype(np.uint8)


def _measure_differences(way: _Way, feeds: Feeds, wanted: list[np.ndarray], batches: tuple[int, ...]) -> list[float]:
    """The largest relative difference of each output. Raises ArtifactError for outputs of another shape."""
    largest = [0.0] * len(wanted)
    for batch in batches:
        outputs = way.run({name: rows[:batch] for name, rows in feeds.items()})
        for index, (want, got) in enumerate(zip(wanted, outputs, strict=True)):
            if got.shape != want[:batch].shape:
                raise ArtifactError(
                    f"the {way.graph} graph gives {got.shape} for a batch of {batch}, torch {want[:batch].shape}"
                )
            relative = np.abs(got - want[:batch]) / _error_scale(want)[:batch]
            # np.max, unlike max, lets a NaN through to the gate.
            largest[index] = float(np.max([largest[index], relative.max()]))
    return largest


def _onnx_runtime_runner(model: onnx.ModelProto, library: Library | None = None) -> Run:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if library is not None:
        options.register_custom_ops_library(str(library.path))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda feeds: [np.asarray(output) for output in session.run(None, feeds)]


def _evaluator_runner(model: onnx.ModelProto) -> Run:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(model)

    def run_evaluator(feeds: Feeds) -> list[np.ndarray]:
        with np.errstate(all="ignore"):
            outputs = evaluator.run(None, feeds)
        assert isinstance(outputs, list)
        return [np.asarray(output) for output in outputs]

    return run_evaluator
