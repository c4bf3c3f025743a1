"""The cost of a module: its parameters, and the floating-point operations of one forward pass."""

from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.flop_counter import FlopCounterMode


@runtime_checkable
class Costed(Protocol):
    """A module that computes more than its formula asks for, and knows how much its formula asks for."""

    def count_flops(self, *inputs: Any) -> int:
        """The operations of the formula for these inputs of `forward`; a multiply-add counts as two."""
        ...


def count_parameters(module: nn.Module) -> int:
    """The number of learned parameters. Buffers and parameters without gradients do not count."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def count_flops(module: nn.Module, *inputs: Tensor, performed: bool = False) -> int:
    """FLOPs of `module(*inputs)`: matrix products, convolutions and attention, a multiply-add counted as two.

    `count_flops(network, torch.empty(1, 224, 224, 3, device="meta"))` computes nothing and allocates nothing: weights
    and inputs are replaced by shapes. Sums, norms, activations and softmax do not count. A module that is `Costed`
    (local attention by blocks) counts as its formula; with `performed` as what it really computes.
    """
    shapes = {name: _shape_only(tensor) for name, tensor in [*module.named_parameters(), *module.named_buffers()]}
    counter, corrected, before = FlopCounterMode(display=False), 0, []

    def record_start(_module: nn.Module, _inputs: Any) -> None:
        before.append(counter.get_total_flops() + corrected)

    def correct_count(costed: nn.Module, taken: Any, _output: Any) -> None:
        nonlocal corrected
        assert isinstance(costed, Costed)
        corrected += before.pop() + costed.count_flops(*taken) - counter.get_total_flops() - corrected

    counted = [] if performed else [part for part in module.modules() if isinstance(part, Costed)]
    hooks = [
        hook
        for part in counted
        for hook in (part.register_forward_pre_hook(record_start), part.register_forward_hook(correct_count))
    ]
    try:
        with torch.enable_grad(), counter:
            functional_call(module, shapes, tuple(_shape_only(x) for x in inputs))
    finally:
        for hook in hooks:
            hook.remove()
    return counter.get_total_flops() + corrected


def _shape_only(tensor: Tensor) -> Tensor:
    """A tensor of the same shape that takes no memory."""
    return torch.empty_like(tensor, device="meta")
