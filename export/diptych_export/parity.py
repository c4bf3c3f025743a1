"""The gate of every export: torch against what the written graphs really compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch

from diptych_export.commandline import table
from diptych_export.errors import ArtifactError
from diptych_export.folding import frozen
from diptych_export.graphs import Graphs
from diptych_model.network import PairNetwork

TOLERANCE = 1e-5
BATCHES = (1, 2, 3, 8)
_OUTPUTS = {"panel": ("tokens", "embeddings"), "pair": ("logits",), "explain": ("attention",)}

Feeds = dict[str, np.ndarray]


@dataclass(frozen=True)
class Difference:
    """The largest |torch - other| / max(1, |torch|) of one output over the batch sizes tried."""

    graph: str
    output: str
    against: str
    batches: tuple[int, ...]
    largest: float


@dataclass(frozen=True)
class Parity:
    """All differences, and how much keeping tokens in float16 changes a logit (stated, not judged)."""

    differences: tuple[Difference, ...]
    half_precision: float
    tolerance: float = TOLERANCE

    @property
    def largest(self) -> float:
        """The largest difference of all."""
        return max(difference.largest for difference in self.differences)

    def require(self) -> None:
        """Raise ArtifactError unless every difference is at most `tolerance`; a NaN is not."""
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

    def text(self) -> str:
        """A table for people."""
        rows = [
            (d.graph, d.output, d.against, ",".join(map(str, d.batches)), f"{d.largest:.1e}") for d in self.differences
        ]
        lines = table(("graph", "output", "against torch", "batches", "largest difference"), rows)
        return f"{lines}\nfloat16 tokens change a logit by at most {self.half_precision:.1e}"


def compare(network: PairNetwork, graphs: Graphs, *, batches: tuple[int, ...] = BATCHES, seed: int = 0) -> Parity:
    """Compare torch with ONNX Runtime for each batch size, and with onnx's reference evaluator for a batch of two.

    The pictures are drawn at random; the pair and explain graphs get the tokens that torch makes of them.
    """
    network = frozen(network)
    pixels = drawn_pixels(max(*batches, 2) + 1, network.config.pixels, seed)
    with torch.no_grad():
        encoded = [out.numpy() for out in network.encode(torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255)]
        tokens = encoded[0]
        # Each picture with its neighbour: row i is one pair, whichever batch it comes in.
        pair_feeds = {"tokens_a": tokens[:-1], "tokens_b": tokens[1:]}
        logits = network.relate(torch.from_numpy(tokens[:-1]), torch.from_numpy(tokens[1:])).numpy()
        half = torch.from_numpy(tokens.astype(np.float16).astype(np.float32))
        halved = network.relate(half[:-1], half[1:]).numpy()
    if not np.abs(tokens).max() < np.finfo(np.float16).max:
        raise ArtifactError(
            f"tokens reach {np.abs(tokens).max():.3g}: they must be finite and fit float16 to be stored"
        )
    cases = [
        ("panel", graphs.panel, {"pixels": pixels[:-1]}, [out[:-1] for out in encoded]),
        ("pair", graphs.pair, pair_feeds, [logits]),
    ]
    if graphs.explain is not None:
        with torch.no_grad():
            attention = network.attention(torch.from_numpy(tokens[:-1]), torch.from_numpy(tokens[1:])).numpy()
        cases.append(("explain", graphs.explain, pair_feeds, [attention]))
    differences: list[Difference] = []
    for name, graph, feeds, wanted in cases:
        differences += _differences(name, "ONNX Runtime", _session(graph), feeds, wanted, batches)
        differences += _differences(name, "reference evaluator", _evaluator(graph), feeds, wanted, (2,))
    return Parity(tuple(differences), float(np.abs(halved - logits).max()))


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


def _differences(
    graph: str,
    against: str,
    run: Callable[[Feeds], list[np.ndarray]],
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
            relative = np.abs(got - want[:batch]) / np.maximum(1, np.abs(want[:batch]))
            # np.max, unlike max, lets a NaN through to the gate.
            largest[index] = float(np.max([largest[index], relative.max()]))
    names = _OUTPUTS[graph]
    return [Difference(graph, name, against, batches, value) for name, value in zip(names, largest, strict=True)]


def _session(model: onnx.ModelProto) -> Callable[[Feeds], list[np.ndarray]]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda feeds: [np.asarray(output) for output in session.run(None, feeds)]


def _evaluator(model: onnx.ModelProto) -> Callable[[Feeds], list[np.ndarray]]:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(model)

    def run(feeds: Feeds) -> list[np.ndarray]:
        with np.errstate(all="ignore"):
            outputs = evaluator.run(None, feeds)
        assert isinstance(outputs, list)
        return [np.asarray(output) for output in outputs]

    return run
