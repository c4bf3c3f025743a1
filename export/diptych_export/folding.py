"""Folding: the MSACs of a network as they are exported, with the same result from fewer and larger products.

Scales whose filters see single positions share one product; H_Y, the second H_Y of H_R and H_phi are linear with
nothing between them, so they are one matrix; queries, keys and values stay packed as the product left them, which is
how the one node of our own takes them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.flop_counter import FlopCounterMode

from diptych_model.attention import relative_attention
from diptych_model.network import PairNetwork
from diptych_model.operators import MSAC, SAC
from diptych_model.panels import from_sequence, to_sequence
from diptych_runtime.kernel import DOMAIN, NAME


def freeze_network(network: PairNetwork) -> PairNetwork:
    """A copy of the network in evaluation mode, float32, on the CPU, without gradients."""
    return copy.deepcopy(network).to("cpu", torch.float32).eval().requires_grad_(False)


def fold_network(network: PairNetwork) -> PairNetwork:
    """A frozen copy of the network that is exported in its place, every MSAC folded."""
    network = freeze_network(network)
    for module in list(network.modules()):
        for name, child in module.named_children():
            if isinstance(child, MSAC):
                setattr(module, name, FoldedMSAC(child))
    return network


def count_graph_flops(network: PairNetwork) -> dict[str, int]:
    """The FLOPs of the exported graphs: "panel" for a picture and "pair" for a pair."""
    network = fold_network(network)
    size, tokens = network.config.pixels, torch.empty(1, *network.config.token_shape)
    return {
        "panel": _count_flops(network.panel, torch.empty(1, 3, size, size)),
        "pair": _count_flops(PairModule(network), tokens, tokens),
    }


def _count_flops(module: nn.Module, *inputs: Tensor) -> int:
    """The FLOPs of `module(*inputs)`, a multiply-add counted as two; of shapes alone, so nothing is computed."""
    shapes = {name: _shape_only(tensor) for name, tensor in [*module.named_parameters(), *module.named_buffers()]}
    with torch.enable_grad(), FlopCounterMode(display=False) as counter:
        functional_call(module, shapes, tuple(map(_shape_only, inputs)))
    return counter.get_total_flops()


def _shape_only(tensor: Tensor) -> Tensor:
    return torch.empty_like(tensor, device="meta")


class PairModule(nn.Module):
    """Tokens float32 (B, N, M, d) of two panels -> logits float32 (B,), or (B, Q) where there are several questions."""

    def __init__(self, network: PairNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, tokens_a: Tensor, tokens_b: Tensor) -> Tensor:
        """Relate."""
        return self.network.relate(tokens_a, tokens_b)


class FoldedMSAC(nn.Module):
    """An MSAC as groups of SACs that share a projection and an attention node."""

    def __init__(self, msac: MSAC) -> None:
        super().__init__()
        self.msac = msac
        joins = msac.H_phi[:, :, 0, 0].split([sac.scale.d_o for sac in msac.sacs], 1)
        members: dict[object, list[tuple[SAC, Tensor]]] = {}
        for number, (sac, join) in enumerate(zip(msac.sacs, joins, strict=True)):
            alike = (sac.scale.d_a, sac.scale.d_o) if _sees_single_positions(sac) else number
            members.setdefault(alike, []).append((sac, join))
        self.groups = nn.ModuleList(_Group(*zip(*group, strict=True)) for group in members.values())

    def forward(self, x: Tensor) -> Tensor:
        """(B * panels, N, M, d) -> (B * panels, ceil(N / s), ceil(M / s), d_phi), as the MSAC gives it."""
        first, *others = (group(x) for group in self.groups)
        for other in others:
            first = first + other
        return from_sequence(first, self.msac.sacs[0].panels, *self.msac.sacs[0].scale.grid(*x.shape[1:3]))

    def seam_attention(self, x: Tensor) -> Tensor:
        """See `MSAC.seam_attention`."""
        return self.msac.seam_attention(x)


class _Group(nn.Module):
    """SACs of equal widths, or one alone, from x to their share of the MSAC's result (B, T, d_phi)."""

    def __init__(self, sacs: Sequence[SAC], joins: Sequence[Tensor]) -> None:
        super().__init__()
        self.sac = sacs[0]
        scale, bias = self.sac.scale, self.sac.bias
        self.heads = sum(sac.scale.heads for sac in sacs)
        self.packed_width = self.heads * (2 * scale.d_a + scale.d_o)
        self.projection: Tensor | None = None
        if len(sacs) > 1:
            filters = [getattr(sac, name) for name in ("H_Q", "H_K", "H_V") for sac in sacs]
            self.projection = _fixed_parameter(torch.cat(filters)[:, :, 0, 0].T)
        tables: list[Tensor] = [sac.bias.table for sac in sacs if sac.bias is not None]
        self.table = _fixed_parameter(torch.cat(tables, 1)) if tables else None
        self.joined = bias is not None and bias.concatenated
        reductions = [_output_projections(sac, join) for sac, join in zip(sacs, joins, strict=True)]
        self.of_values = _fixed_parameter(torch.cat([of_values for of_values, _ in reductions], 1).T)
        self.of_beside = None if reductions[0][1] is None else _fixed_parameter(reductions[0][1].T)

    def forward(self, x: Tensor) -> Tensor:
        """(B * panels, N, M, d) -> (B, T, d_phi)."""
        panels, scale = self.sac.panels, self.sac.scale
        if self.projection is None:
            packed = to_sequence(self.sac.project_packed(x), panels)
        else:
            packed = to_sequence(x, panels) @ self.projection
        packed, beside = packed[..., : self.packed_width], packed[..., self.packed_width :]
        y = self._attend(packed, *scale.grid(*x.shape[1:3]))
        reduced = y @ self.of_values
        return reduced if self.of_beside is None else reduced + beside @ self.of_beside

    def _attend(self, packed: Tensor, rows: int, cols: int) -> Tensor:
        """The attention of all heads, one custom node in an exported graph and torch operations otherwise: (B, T, .) ->
        (B, T, C d_o).
        """
        panels, scale = self.sac.panels, self.sac.scale
        if torch.onnx.is_in_onnx_export():
            return torch.onnx.ops.symbolic(
                f"{DOMAIN}::{NAME}",
                (packed, torch.zeros(1, self.heads, rows, cols) if self.table is None else self.table),
                attrs={"heads": self.heads, "panels": panels, "key_width": scale.d_a, "joined": int(self.joined)},
                dtype=packed.dtype,
                shape=(*packed.shape[:2], self.heads * scale.d_o),
                version=1,
            )
        widths = [self.heads * width for width in (scale.d_a, scale.d_a, scale.d_o)]
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in packed.split(widths, -1))
        bias = None if self.sac.bias is None else self.sac.bias(rows, cols, self.table)
        return relative_attention(q, k, v, bias).transpose(1, 2).flatten(2)


def _sees_single_positions(sac: SAC) -> bool:
    """True if the SAC's projection is one product at every position, which other such SACs can share."""
    scale = sac.scale
    single = scale.n == scale.m == scale.stride == scale.groups == 1
    return single and not sac.before and sac.H_R is None


def _output_projections(sac: SAC, join: Tensor) -> tuple[Tensor, Tensor | None]:
    """The output projections, multiplied by `join`, of the heads' values (d_phi, C d_o) and of x * H_R (d_phi, d_o) or
    None.
    """
    of_values = sac.H_Y[:, :, 0, 0]
    if sac.H_Y_R is None:
        return join @ of_values, None
    of_gamma, of_beside = sac.H_Y_R[:, :, 0, 0].split(sac.scale.d_o, 1)
    return join @ of_gamma @ of_values, join @ of_beside


def _fixed_parameter(values: Tensor) -> nn.Parameter:
    return nn.Parameter(values.contiguous(), requires_grad=False)
