"""The gate of every export: torch against what the written graphs really compute."""

from __future__ import annotations

import ctypes
import importlib.util
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

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

    Of logits, where `pairs` is not 0, over so many pairs besides, each query's with its candidates; `flips` are those
    two of one query that torch puts in the other order, and further apart than two errors of the tolerance.
    """

    graph: str
    output: str
    against: str
    batches: tuple[int, ...]
    largest: float
    pairs: int = 0
    flips: int = 0


@dataclass(frozen=True)
class Parity:
    """The result of the parity gate: all differences, the change of a logit by keeping tokens in float16 (stated, not
    judged), and the comparisons left out here, with the reason.
    """

    differences: tuple[Difference, ...]
    half_precision: float
    tolerance: float = TOLERANCE
    left_out: tuple[str, ...] = ()

    @property
    def largest(self) -> float:
        """The largest difference of all."""
        return max(difference.largest for difference in self.differences)

    def require(self) -> None:
        """Raise ArtifactError unless every difference is at most `tolerance`, which a NaN is not, and nothing flips."""
        bad = [d for d in self.differences if not d.largest <= self.tolerance]
        if bad:
            worst = "; ".join(f"{d.output} by {d.largest:.2g} ({d.graph} graph, {d.against})" for d in bad)
            raise ArtifactError(
                f"the graphs do not compute what torch computes: {worst}; at most {self.tolerance:g} is allowed, "
                "so nothing was written"
            )
        if flipped := [d for d in self.differences if d.flips]:
            worst = "; ".join(f"{d.flips:,} among {d.pairs:,} pairs ({d.against})" for d in flipped)
            raise ArtifactError(f"the graphs rank other than torch: {worst}; so nothing was written")

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, as written into the manifest."""
        return {"largest": self.largest, **asdict(self)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Parity:
        """The parity result that a manifest holds."""
        differences = tuple(Difference(**difference) for difference in stored["differences"])
        return cls(differences, stored["half_precision"], stored["tolerance"], tuple(stored.get("left_out", ())))

    def text(self) -> str:
        """A table for people."""
        rows = [
            (
                *(d.graph, d.output, d.against, ",".join(map(str, d.batches)), f"{d.largest:.1e}"),
                f"{d.flips} in {d.pairs:,} pairs" if d.pairs else "",
            )
            for d in self.differences
        ]
        lines = format_table(("graph", "output", "against torch", "batches", "largest difference", "rank flips"), rows)
        left_out = "".join(f"\nnot compared: {text}" for text in self.left_out)
        return f"{lines}\nfloat16 tokens change a logit by at most {self.half_precision:.1e}{left_out}"


def compare_graphs(
    network: PairNetwork,
    graphs: Graphs,
    *,
    batches: tuple[int, ...] = BATCHES,
    pairs: int = PAIRS,
    seed: int = 0,
    on_pairs: OnPairs = lambda total: lambda count: None,
) -> Parity:
    """Compare the outputs of torch with every way in which the graphs are run.

    ONNX Runtime on the node's body, on its kernel and on the inlined graph, and OpenVINO, where it is installed, on
    the inlined graph: in each batch size, and the pair graph over `pairs` pairs besides, which are ranked; onnx's
    reference evaluator in a batch of two. The pictures are drawn at random; the pair and explain graphs get the tokens
    that torch makes of them. `on_pairs` is told how many pairs will be run to be ranked, torch's among them, and gives
    what is told how many more were.
    """
    network = freeze_network(network)
    asked = max(1, math.isqrt(pairs))
    pixels = drawn_pixels(max(*batches, asked) + 1, network.config.pixels, seed)
    with torch.no_grad():
        parts = [network.encode(part.permute(0, 3, 1, 2) / 255) for part in torch.from_numpy(pixels).split(_CHUNK)]
        tokens, embeddings = (torch.cat(part).numpy() for part in zip(*parts, strict=True))
    if not np.abs(tokens).max() < np.finfo(np.float16).max:
        raise ArtifactError(
            f"tokens reach {np.abs(tokens).max():.3g}: they must be finite and fit float16 to be stored"
        )
    most = max(*batches, 2)
    # Each picture with its neighbour: row i is one pair, whichever batch it comes in.
    feeds = {"tokens_a": tokens[:most], "tokens_b": tokens[1 : most + 1]}
    relate = _torch_runner(network.relate)
    wanted = {"panel": [tokens[:most], embeddings[:most]], "pair": relate(feeds)}
    if graphs.explain is not None:
        wanted["explain"] = _torch_runner(network.attention)(feeds)
    paths, left_out = _list_runners(graphs)
    ranking = [path for path in paths if path[0] == "pair" and path[3] == "all"]
    ran = on_pairs(asked**2 * (1 + len(ranking)))
    logits = _all_pairs(tokens[:asked], relate, ran)
    differences: list[Difference] = []
    for graph, against, run, tried in paths:
        given = {"pixels": pixels[:most]} if graph == "panel" else feeds
        found = _measure_differences(graph, against, run, given, wanted[graph], (2,) if tried == "few" else batches)
        if (graph, against, run, tried) in ranking:
            found = [_add_rank_flips(found[0], logits, _all_pairs(tokens[:asked], run, ran))]
        differences += found
    half = {name: rows.astype(np.float16).astype(np.float32) for name, rows in feeds.items()}
    halved = float(np.abs(relate(half)[0] - wanted["pair"][0]).max())
    return Parity(tuple(differences), halved, left_out=tuple(left_out))


def _all_pairs(tokens: np.ndarray, run: Run, ran: Callable[[int], object]) -> np.ndarray:
    """The logits of every picture with every one, chunk by chunk, of which each is said to have been `ran`: tokens
    (n, N, M, d) -> (n, n), or (n, n, Q).
    """
    rows = []
    for one in tokens:
        chunks = []
        for start in range(0, len(tokens), _CHUNK):
            many = tokens[start : start + _CHUNK]
            chunks.append(run(_pair_feeds(one, many))[0])
            ran(len(many))
        rows.append(np.concatenate(chunks))
    return np.stack(rows)


def _pair_feeds(one: np.ndarray, many: np.ndarray) -> Feeds:
    return {"tokens_a": np.repeat(one[None], len(many), 0), "tokens_b": many}


def _add_rank_flips(found: Difference, logits: np.ndarray, got: np.ndarray) -> Difference:
    """The difference over all pairs, with the number of `logits` (n, n) that are ordered otherwise.

    The logits are torch's. Of logits (n, n, Q) each column is a ranking of its own.
    """
    size = _error_scale(logits)
    allowed = TOLERANCE * size
    # Further apart than both may be wrong.
    surely = logits[:, :, None] - logits[:, None, :] > allowed[:, :, None] + allowed[:, None, :]
    flips = int((surely & (got[:, :, None] < got[:, None, :])).sum())
    largest = float(np.max([found.largest, (np.abs(got - logits) / size).max()]))
    return replace(found, largest=largest, pairs=got.shape[0] * got.shape[1], flips=flips)


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


def _list_runners(graphs: Graphs) -> tuple[list[tuple[str, str, Run, str]], list[str]]:
    """Every way in which a graph is run here, and what is left out.

    A way is the graph, its name, how it is run, and whether all inputs are tried or a few.
    """
    paths: list[tuple[str, str, Run, str]] = []
    left_out = []
    try:
        library = load_kernel()
    except KernelError as error:
        library = None
        left_out.append(f"the kernel: {error}")
    openvino = importlib.util.find_spec("openvino") is not None
    if not openvino:
        left_out.append("OpenVINO: it is not installed")
    for name, graph in zip(Graphs._fields, graphs, strict=True):
        if graph is None:
            continue
        plain = inline_functions(graph) if graph.functions else graph
        paths.append((name, "ONNX Runtime", _onnx_runtime_runner(graph), "all"))
        if graph.functions:
            if library is not None:
                paths.append(
                    (
                        name,
                        f"ONNX Runtime, kernel ({library.instructions})",
                        _onnx_runtime_runner(graph, library),
                        "all",
                    )
                )
            paths.append((name, "ONNX Runtime, inlined", _onnx_runtime_runner(plain), "all"))
        if openvino:
            paths.append((name, "OpenVINO, inlined" if graph.functions else "OpenVINO", _openvino_runner(plain), "all"))
        paths.append((name, "reference evaluator", _evaluator_runner(graph), "few"))
    return paths, left_out


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


def _measure_differences(
    graph: str,
    against: str,
    run: Run,
    feeds: Feeds,
    wanted: list[np.ndarray],
    batches: tuple[int, ...],
) -> list[Difference]:
    largest = [0.0] * len(wanted)
    for batch in batches:
        outputs = run({name: rows[:batch] for name, rows in feeds.items()})
        for index, (want, got) in enumerate(zip(wanted, outputs, strict=True)):
            if got.shape != want[:batch].shape:
                raise ArtifactError(
                    f"the {graph} graph gives {got.shape} for a batch of {batch}, torch {want[:batch].shape}"
                )
            relative = np.abs(got - want[:batch]) / _error_scale(want)[:batch]
            # np.max, unlike max, lets a NaN through to the gate.
            largest[index] = float(np.max([largest[index], relative.max()]))
    names = _OUTPUTS[graph]
    return [Difference(graph, name, against, batches, value) for name, value in zip(names, largest, strict=True)]


def _onnx_runtime_runner(model: onnx.ModelProto, library: Library | None = None) -> Run:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if library is not None:
        options.register_custom_ops_library(str(library.path))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda feeds: [np.asarray(output) for output in session.run(None, feeds)]


def _openvino_runner(model: onnx.ModelProto) -> Run:
    import openvino

    with _signal_stack_kept():
        # Its own choice would be bfloat16 where the processor has it.
        compiled = openvino.Core().compile_model(
            openvino.Core().read_model(model.SerializeToString()), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
        )
    return lambda feeds: [np.asarray(output).copy() for output in compiled(feeds).values()]


class _SignalStack(ctypes.Structure):
    """`stack_t` of the C library: the alternate stack that signals of a thread are handled on."""

    _fields_ = (("sp", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


@contextmanager
def _signal_stack_kept() -> Iterator[None]:
    """Handle the signals of this thread on the same stack as before: OpenVINO 2026.4 leaves it one that it has freed,
    and the next Ctrl-C would end the process by a segmentation fault.
    """
    set_stack, before = ctypes.CDLL(None).sigaltstack, _SignalStack()
    set_stack(None, ctypes.byref(before))
    try:
        yield
    finally:
        set_stack(ctypes.byref(before), None)


def _evaluator_runner(model: onnx.ModelProto) -> Run:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(model)

    def run_evaluator(feeds: Feeds) -> list[np.ndarray]:
        with np.errstate(all="ignore"):
            outputs = evaluator.run(None, feeds)
        assert isinstance(outputs, list)
        return [np.asarray(output) for output in outputs]

    return run_evaluator
