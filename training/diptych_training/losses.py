"""What is minimised: listwise contrast and log-loss over mined pairs, contrast and distillation for the embedding, and
contrast of tokens of which it is known that they show the same place.
"""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor


def choose_pairs(
    cosines: Tensor, match: Tensor, rival: Tensor, *, negatives: int, easy: int, generator: Generator
) -> Tensor:
    """Choose for each query one match and its rivals: the nearest by cosine, but for `easy` random ones.

    Shapes: cosines, match, rival (Q, R); returns reference indices (Q, 1 + negatives), the match first.
    A query with fewer rivals than asked for sees the nearest ones again. Raises `ValueError` where a query has no match
    or no rival.
    """
    if not (match.any(1) & rival.any(1)).all():
        raise ValueError("every query needs a reference that matches it and one that surely does not")
    noise = torch.rand(cosines.shape, generator=generator).to(cosines.device)
    positive = noise.masked_fill(~match, -1).argmax(1, keepdim=True)
    near = cosines.detach().masked_fill(~rival, -torch.inf).argsort(1, descending=True)
    known = rival.sum(1, keepdim=True).clamp(min=1)
    hard = near.gather(1, torch.arange(negatives - easy, device=near.device) % known)
    if not easy:
        return torch.cat([positive, hard], 1)
    loose = near.gather(1, (torch.rand(len(near), easy, generator=generator).to(near.device) * known).long())
    return torch.cat([positive, hard, loose], 1)


def pair_loss(logits: Tensor, threshold: float = 0.5) -> Tensor:
    """Listwise cross-entropy plus `threshold` times the balanced log-loss, each a mean over queries; logits (Q, 1 + K),
    the match first. The first orders each query's candidates, the second makes one threshold serve all queries.
    """
    listwise = F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long, device=logits.device))
    log_loss = F.softplus(-logits[:, 0]).mean() + F.softplus(logits[:, 1:]).mean()
    return listwise + threshold * log_loss


def embedding_loss(cosines: Tensor, match: Tensor, rival: Tensor, temperature: float) -> Tensor:
    """Contrast over all references of a query's task: -log of the softmax mass on its matches."""
    scaled = (cosines / temperature).masked_fill(~(match | rival), -torch.inf)
    mass = scaled.masked_fill(~match, -torch.inf)
    return (scaled.logsumexp(1) - mass.logsumexp(1)).mean()


def distillation_loss(cosines: Tensor, logits: Tensor, temperature: float) -> Tensor:
    """Divergence of the embedding's ranking of (Q, 1 + K) pairs from the pair scorer's, which is not taught by it."""
    teacher = F.log_softmax(logits.detach(), 1)
    student = F.log_softmax(cosines / temperature, 1)
    return F.kl_div(student, teacher, reduction="batchmean", log_target=True)


def link_loss(
    tokens_a: Tensor, tokens_b: Tensor, places_a: Tensor, places_b: Tensor, temperature: float = 0.1
) -> Tensor:
    """Contrast of tokens: each of a finds, among all tokens of b and of the next picture's b, the one of its place.

    Shapes: tokens (B, N, M, d), places (B, S, S, 2) of the pixels in the photo that both show, spanning [-1, 1]. Tokens
    whose place b does not show are left out; 0 where none is left.
    """
    grid, size = tokens_a.shape[1], places_a.shape[1]
    here, there = (
        F.avg_pool2d(places.permute(0, 3, 1, 2), size // grid).flatten(2).transpose(1, 2)
        for places in (places_a, places_b)
    )
    # How far a token of b reaches in the photo, (B, 1, 1, 2): half a step along its rows and half a step along its
    # columns.
    steps = there.unflatten(1, (grid, grid))
    reach = (steps.diff(dim=1).abs().mean((1, 2)) + steps.diff(dim=2).abs().mean((1, 2)))[:, None, None] / 2
    near, target = ((here[:, :, None] - there[:, None]).abs() / reach).amax(-1).min(2)  # of (B, T, T)
    known = (near <= 1) & (here.abs().amax(-1) <= 1)
    if not known.any():
        return tokens_a.sum() * 0
    a, b = (F.normalize(tokens.flatten(1, 2), dim=-1) for tokens in (tokens_a, tokens_b))
    others = [a @ b.roll(1, 0).transpose(1, 2)] if len(b) > 1 else []
    alike = torch.cat([a @ b.transpose(1, 2), *others], 2) / temperature
    return F.cross_entropy(alike[known].float(), target[known])
