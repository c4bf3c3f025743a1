"""Writing a target token by token: greedily, or with a beam of the likeliest beginnings."""

import torch
from jaxtyping import Int
from torch import Tensor

from diptych_studies.networks.translation import BEGIN, END, PAD, Translator

Source = Int[Tensor, "batch source"]
Written = Int[Tensor, "batch written"]


@torch.no_grad()
def decode_greedily(network: Translator, source: Source) -> Written:
    """The likeliest token each time, until every target of the batch has its `END` or is as long as the network's
    longest: (B, S) -> (B, T), filled up with `PAD`.
    """
    memory, padding = network.encode(source), source == PAD
    prefix = source.new_full((len(source), 1), BEGIN)
    ended = torch.zeros(len(source), dtype=torch.bool, device=source.device)
    for _ in range(network.config.longest):
        token = _log_probabilities(network, memory, padding, prefix).argmax(-1).masked_fill(ended, PAD)
        prefix = torch.cat([prefix, token[:, None]], 1)
        ended = ended | (token == END)
        if ended.all() or prefix.shape[1] > network.config.longest:
            break
    return prefix[:, 1:]


@torch.no_grad()
def beam_search(network: Translator, source: Source, width: int) -> Written:
    """The likeliest target that a beam finds: (B, S) -> (B, T), filled up with `PAD`.

    The `width` likeliest beginnings are kept, those that have ended among them; the probability of a target is that of
    all of its tokens, its `END` included, and is not divided by its length. With a width of 1 it is `decode_greedily`.
    """
    if width < 1:
        raise ValueError(f"a beam must be at least 1 wide, got {width}")
    count, longest = len(source), network.config.longest
    memory, padding = network.encode(source), source == PAD
    prefix = source.new_full((count, 1, 1), BEGIN)
    known = memory.new_zeros(count, 1)
    for _ in range(longest):
        beams = prefix.shape[1]
        ended = (prefix == END).any(-1)
        flat = _log_probabilities(
            network, memory.repeat_interleave(beams, 0), padding.repeat_interleave(beams, 0), prefix.flatten(0, 1)
        )
        following = flat.unflatten(0, (count, beams))
        # What has ended goes on with PAD alone, which costs nothing.
        rest = torch.full_like(following[0, 0], -torch.inf)
        rest[PAD] = 0
        total = known[..., None] + torch.where(ended[..., None], rest, following)
        known, place = total.flatten(1).topk(min(width, beams * total.shape[-1]), 1)
        chosen, token = place // total.shape[-1], place % total.shape[-1]
        prefix = torch.cat([prefix.gather(1, chosen[..., None].expand(-1, -1, prefix.shape[2])), token[..., None]], -1)
        if (prefix == END).any(-1).all() or prefix.shape[2] > longest:
            break
    return prefix[:, 0, 1:]


def _log_probabilities(network: Translator, memory: Tensor, padding: Tensor, prefix: Tensor) -> Tensor:
    """Of every token that may follow a prefix (B, T): (B, tokens); `PAD` and `BEGIN` never do."""
    logits = network.decode(memory, padding, prefix)[0][:, -1].clone()
    logits[:, [PAD, BEGIN]] = -torch.inf
    return logits.log_softmax(-1)
