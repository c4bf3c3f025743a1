"""The losses of training: listwise contrast and log-loss over mined pairs, contrast and distillation for the embedding,
and contrast of tokens of which it is known that they show the same place.
"""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

LINK_TEMPERATURE = 0.1


def choose_pairs(
    cosines: Tensor, match: Tensor, rival: Tensor, *, negatives: int, easy: int, generator: Generator
) -> Tensor:
    """Choose for each query one match and its rivals: the nearest by cosine, but for `easy` random ones.

    Shapes: cosines, match, rival (Q, R); returns reference indices (Q, 1 + negatives), the match first.
    A query with fewer rivals than asked for sees the nearest ones again; one without a match has another rival in its
    place. Raises `ValueError` where a query has no rival.
    """
    if not rival.any(1).all():
        raise ValueError("every query needs a reference that surely does not match it")
    match = torch.where(match.any(1, keepdim=True), match, rival)
    noise = torch.rand(cosines.shape, generator=generator).to(cosines.device)
    positive = noise.masked_fill(~match, -1).argmax(1, keepdim=True)
    near = cosines.detach().masked_fill(~rival, -torch.inf).argsort(1, descending=True)
    known = rival.sum(1, keepdim=True).clamp(min=1)
    hard = near.gather(1, torch.arange(negatives - easy, device=near.device) % known)
    if not easy:
        return torch.cat([positive, hard], 1)
    loose = near.gather(1, (torch.rand(len(near), easy, generator=generator).to(near.device) * known).long())
    return torch.cat([positive, hard, loose], 1)


def pair_loss(logits: Tensor, threshold: float = 0.5, matched: Tensor | None = None) -> Tensor:
    """Listwise cross-entropy plus `threshold` times the balanced log-loss, each a mean over queries; logits (Q, 1 + K),
    the match first, or another rival where not `matched` (Q,). The first orders each query's candidates, the second
    makes one threshold serve all queries.
    """
    first = F.softplus(-logits[:, 0])
    listwise = F.cross_entropy(
        logits, torch.zeros(len(logits), dtype=torch.long, device=logits.device), reduction="none"
    )
    if matched is not None:
        listwise = listwise * matched
        first = torch.where(matched, first, F.softplus(logits[:, 0]))
    return listwise.mean() + threshold * (first.mean() + F.softplus(logits[:, 1:]).mean())


def level_loss(logits: Tensor, matched: Tensor, before: Tensor, matched_before: Tensor) -> Tensor:
    """Contrast of every match with the pairs of all queries, a mean over queries: -log of the softmax mass that it has
    among all that are none. What comes first in its own list need not be above the best of another list, and one
    threshold is for all of them.

    Logits (Q, 1 + K) are as in `pair_loss`; what they are held against are those of a step `before`, (P, 1 + K) with
    its `matched_before` (P,), through which no gradient flows. 0 where that step had no match.
    """
    if not matched_before.any():
        return logits.sum() * 0
    strangers = torch.cat([before[:, 1:].flatten(), before[~matched_before, 0]]).logsumexp(0)
    level = torch.logaddexp(before[matched_before, 0], strangers)  # what each match had to be above
    matches = F.softplus(strangers - logits[:, 0]) * matched
    above = F.softplus(logits[..., None] - level).mean(-1)
    others = above[:, 1:].sum(1) + above[:, 0] * ~matched
    return matches.mean() + others.mean() * len(before)


def split_questions(logits: Tensor, matched: Tensor, copies: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Logits (Q, 1 + K) of each question with the queries (Q,) that have a match to it; of (Q, 1 + K) or of
    (Q, 1 + K, 2) for *copy* and *thing*.

    A copy is a match to both. A match of a query that is none of the `copies` shows the same thing and is no copy, so
    that to *copy* such a query has no match.
    """
    if logits.dim() == 2:
        return [(logits, matched)]
    return [(logits[..., 0], matched & copies), (logits[..., 1], matched)]


def taught_loss(logits: Tensor, lesson: Tensor) -> Tensor:
    """Distillation of pair logits from a teacher's for the same pairs, both (Q, 1 + K) or (Q, 1 + K, 2): a mean over
    queries and questions of how far the order of the candidates diverges, and of the cross-entropy with the teacher's
    probabilities, less the teacher's own entropy (Hinton, Vinyals and Dean 2015, at a temperature of 1).
    """
    order = F.kl_div(logits.log_softmax(1), lesson.log_softmax(1), reduction="none", log_target=True).sum(1)
    entropy = F.binary_cross_entropy_with_logits(lesson, lesson.sigmoid())
    return order.mean() + F.binary_cross_entropy_with_logits(logits, lesson.sigmoid()) - entropy


def entropy_loss(embeddings: Tensor, apart: Tensor) -> Tensor:
    """The unevenness of embeddings (R, e): minus the mean logarithm of the distance to the nearest one that is `apart`
    (R, R) from it (Sablayrolles et al. 2019, Kozachenko and Leonenko's estimate of entropy).
    """
    cosines = (embeddings @ embeddings.T).masked_fill(~apart, -1)
    return -(2 - 2 * cosines.amax(1)).clamp(min=1e-4).log().mean() / 2


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


def link_loss(tokens_a: Tensor, tokens_b: Tensor, places_a: Tensor, places_b: Tensor) -> Tensor:
    """Contrast of tokens: each of a finds, among all tokens of b and of the next picture's b, the one of its place.

    Shapes: tokens (B, N, M, d), places (B, S, S, 2) of the pixels in the photo that both show, spanning [-1, 1]. Tokens
    whose place b does not show are left out; 0 where none is left.
    """
    grid, size = tokens_a.shape[1], places_a.shape[1]
    here, there = (
        F.avg_pool2d(places.permute(0, 3, 1, 2), size // grid).flatten(2).transpose(1, 2)
        for places in (places_a, places_b)
    )
    # Of a token that is partly something else the mean place is none.
    whole_a, whole_b = (
        F.avg_pool2d((places.abs().amax(-1) <= 1).float()[:, None], size // grid).flatten(1) > 0.99
        for places in (places_a, places_b)
    )
    # How far a token of b reaches in the photo, (B, 1, 1, 2): half a step along its rows and half a step along its
    # columns.
    steps = there.unflatten(1, (grid, grid))
    along_rows, along_columns = (steps.diff(dim=axis).abs().flatten(1, 2).median(1).values for axis in (1, 2))
    reach = ((along_rows + along_columns) / 2).clamp(min=1e-3)[:, None, None]
    gaps = ((here[:, :, None] - there[:, None]).abs() / reach).amax(-1)  # (B, T, T)
    near, target = gaps.masked_fill(~whole_b[:, None], torch.inf).min(2)
    known = (near <= 1) & whole_a
    if not known.any():
        return tokens_a.sum() * 0
    a, b = (F.normalize(tokens.flatten(1, 2), dim=-1) for tokens in (tokens_a, tokens_b))
    others = [a @ b.roll(1, 0).transpose(1, 2)] if len(b) > 1 else []
    alike = torch.cat([a @ b.transpose(1, 2), *others], 2) / LINK_TEMPERATURE
    return F.cross_entropy(alike[known].float(), target[known])
