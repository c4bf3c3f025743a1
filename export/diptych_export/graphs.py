"""The graphs of networks: torch to ONNX, of a pair network with the one node of our own and its body."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.inliner
import torch
from onnxscript import optimizer
from torch import Tensor, nn

from diptych_export.custom_op import OPSETS, function_body
from diptych_export.folding import PairModule, fold_network
from diptych_model.network import PairNetwork
from diptych_model.networks.aligned import STRIDE, AlignedPairNetwork
from diptych_model.networks.losses import LossesNetwork
from diptych_runtime.closer_look.comparison import SIDE
from diptych_runtime.errors import ArtifactError
from diptych_runtime.kernel import DOMAIN
from diptych_runtime.session import open_session, run_session

OPSET = 23  # the first with the operator Attention
LOOK_OPSET = 18  # of the networks of the closer look, which need no operator of our own
PREPROCESSING = (
    "uint8 RGB (B, S, S, 3): EXIF orientation applied, transparency laid on white, squashed to a square, not cropped; "
    "bicubic, after a box reduction to no less than twice the size; JPEGs are decoded at the smallest DCT scale that "
    "keeps both sides at S or more. The panel graph scales the values to [0, 1]."
)
# The dense bias (C, T, T) stays a small table and two gathers in the file: ONNX Runtime folds it when it loads.
_LARGEST_FOLDED = 256


class Graphs(NamedTuple):
    """The panel graph (pixels -> tokens, embeddings), the pair graph (tokens_a, tokens_b -> logits) and, where the
    mixer has attention across the seam, the explain graph (tokens_a, tokens_b -> attention).
    """

    panel: onnx.ModelProto
    pair: onnx.ModelProto
    explain: onnx.ModelProto | None = None


class PanelModule(nn.Module):
    """Pixels uint8 (B, S, S, 3) -> tokens float32 (B, N, M, d) and unit embeddings float32 (B, e)."""

    def __init__(self, network: PairNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Normalise and encode."""
        return self.network.encode(pixels.to(torch.float32).permute(0, 3, 1, 2) / 255)


class ExplainModule(nn.Module):
    """Tokens float32 (B, N, M, d) of two panels -> attention across the seam float32 (B, N M, N M)."""

    def __init__(self, network: PairNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, tokens_a: Tensor, tokens_b: Tensor) -> Tensor:
        """Relate, and tell which patch looked at which."""
        return self.network.attention(tokens_a, tokens_b)


def export_graphs(network: PairNetwork, *, opset: int = OPSET) -> Graphs:
    """The ONNX graphs of a network, batch dynamic.

    Of a network whose seam is open in pixels the pair graph is the whole network, and the tokens are pixels. Raises
    ArtifactError for an opset that is none of `OPSETS`.
    """
    if opset not in OPSETS:
        raise ArtifactError(
            f"opset {opset} cannot be written: use --opset {OPSET}, which ONNX Runtime reads from 1.23 on, or for "
            f"older runtimes one of {', '.join(str(older) for older in OPSETS if older < OPSET)}"
        )
    network = fold_network(network)
    size = network.config.pixels
    pixels = torch.zeros(2, size, size, 3, dtype=torch.uint8)  # a batch of one would be taken for a constant
    with torch.no_grad():
        tokens, _ = network.encode(pixels.permute(0, 3, 1, 2) / 255)
    pair = {"tokens_a": tokens, "tokens_b": tokens.clone()}  # of one tensor given twice the exporter makes one input
    return Graphs(
        _export_module(PanelModule(network), {"pixels": pixels}, ["tokens", "embeddings"], opset),
        _export_module(PairModule(network), pair, ["logits"], opset),
        _export_module(ExplainModule(network), pair, ["attention"], opset) if network.has_attention else None,
    )


def inline_functions(graph: onnx.ModelProto) -> onnx.ModelProto:
    """The graph in standard operators only, for runtimes without our node and functions."""
    model = onnx.inliner.inline_local_functions(graph)
    optimizer.optimize(model, output_size_limit=_LARGEST_FOLDED)
    return model


def export_aligned(network: AlignedPairNetwork) -> onnx.ModelProto:
    """The ONNX graph pair float32 (1, 7, H, W) -> odds float32 (1,) of an aligned-pair network, height and width
    dynamic. Raises ArtifactError where ONNX Runtime and torch differ.
    """
    rows, columns = (STRIDE * torch.export.Dim(name, min=1, max=512) for name in ("rows", "columns"))
    pair = torch.rand(1, 7, 6 * STRIDE, 7 * STRIDE, generator=torch.Generator().manual_seed(0))
    graph = _export_module(network, {"pair": pair}, ["odds"], LOOK_OPSET, {"pair": {2: rows, 3: columns}})
    _require_same_odds(graph, network, pair, pair[:, :, :STRIDE, : 3 * STRIDE])
    return graph


def export_losses(network: LossesNetwork) -> onnx.ModelProto:
    """The ONNX graph views uint8 (B, 2, 2, 192, 192, 8) -> odds float32 (B, 2, 11) of a network of losses. Raises
    ArtifactError where ONNX Runtime and torch differ.
    """
    shape = 2, 2, 2, SIDE, SIDE, 8
    views = torch.randint(256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    graph = _export_module(network, {"views": views}, ["odds"], LOOK_OPSET)
    _require_same_odds(graph, network, views)
    return graph


def _require_same_odds(graph: onnx.ModelProto, network: nn.Module, *inputs: Tensor) -> None:
    """Raise ArtifactError where the graph of a network of the closer look differs from torch."""
    session = open_session(graph.SerializeToString())
    for given in inputs:
        with torch.inference_mode():
            expected = network(given).numpy()
        (odds,) = run_session(session, {session.get_inputs()[0].name: given.numpy()})
        if not np.allclose(odds, expected, atol=1e-4, rtol=1e-4):
            raise ArtifactError(f"the graph of {type(network).__name__} says {odds}, and torch {expected}")


def _export_module(
    module: nn.Module,
    inputs: dict[str, Tensor],
    outputs: list[str],
    opset: int,
    dynamic: dict[str, dict[int, Any]] | None = None,
) -> onnx.ModelProto:
    """The graph of a module that takes and gives named tensors, `dynamic` in these dimensions of its inputs, by default
    in the batch of all.
    """
    batch = torch.export.Dim("batch")
    with torch.no_grad(), _quiet_exporter():
        program = torch.onnx.export(
            module.eval(),
            tuple(inputs.values()),
            dynamo=True,
            opset_version=opset,
            input_names=list(inputs),
            output_names=outputs,
            dynamic_shapes=dynamic or {name: {0: batch} for name in inputs},
            optimize=False,
            verbose=False,
        )
    assert program is not None
    optimizer.optimize(program.model, output_size_limit=_LARGEST_FOLDED)
    model = program.model_proto
    for value in [] if dynamic else [*model.graph.input, *model.graph.output]:
        if not value.type.tensor_type.shape.dim[0].dim_param:
            raise ArtifactError(
                f"the exporter made the batch of {value.name!r} a constant; the network must not use len()"
            )
    _strip_metadata(model)
    if any(node.domain == DOMAIN for node in model.graph.node):
        # Only now: every pass of the exporter would inline the function.
        model.functions.append(function_body(opset))
    onnx.checker.check_model(model, full_check=True)
    return model


def _strip_metadata(model: onnx.ModelProto) -> None:
    """Remove the metadata that the exporter adds: stack traces, which carry the paths of this machine."""
    graph = model.graph
    for item in [model, graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer]:
        item.ClearField("metadata_props")
        item.ClearField("doc_string")


@contextmanager
def _quiet_exporter() -> Iterator[None]:
    """The exporter warns of its own deprecated calls, and logs that torchvision, which nothing here uses, is absent."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
