"""The correspondence of two panels, patch by patch: where the trunk of a pair network begins."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from diptych_model.config import PairConfig
from diptych_model.embedding import cosines_of_parts

Tokens = Float[Tensor, "batch rows cols d"]
Merged = Float[Tensor, "batch merged_rows merged_cols channels"]
Known = Float[Tensor, "batch known"]
Shares = Float[Tensor, "batch tokens_a tokens_b"]

EVIDENCE = 6
_PRIORS = ((4.0, 16.0), (12.0, 4.0))  # of each question: what its cosine and the best match begin with


class Correspondence(nn.Module):
    """The best match of every token in the other panel, as evidence for the trunk.

    With unit tokens a, b and s = a . b: p = softmax(s / t) over the other panel says where a token is found there. The
    evidence of a token is max s; the mean place it is found at; how far from itself one arrives who goes there and back
    (x, y and the squared distance: a patch of grass is found anywhere, an edge of a copy returns to itself). Tokens and
    evidence of `merge` x `merge` neighbours become one token of the trunk.

    What is *known* of a pair without the trunk: the cosine of the embeddings' parts, which the tokens carry; the mean
    best match both ways; and with a bank how uniform both pictures are (the squared length of the mean token: 1 where
    there is nothing to see) and how typical (`Embedding.typicality`). The `prior` of each logit is a line through it,
    which begins with the cosine and the best match.
    """

    def __init__(self, config: PairConfig) -> None:
        super().__init__()
        self.width, self.embedding, self.side = config.width, config.embedding, config.merge
        self.parts, self.typical = config.parts, config.parts if config.bank else 0
        self.known = self.parts + 1 + (1 + self.typical if config.bank else 0)
        grid, d = config.grid // config.merge, config.channels
        self.sharpness = nn.Parameter(torch.tensor(3.0))  # the logarithm of 1 / t
        self.merge = nn.Linear(self.side**2 * (self.width + EVIDENCE), d)
        self.position = nn.Parameter(torch.randn(grid, grid, d) * 0.02)
        self.prior = nn.Linear(self.known, len(config.questions))
        with torch.no_grad():
            self.prior.weight.zero_()
            for question, (cosine, match) in enumerate(_PRIORS[: len(config.questions)]):
                self.prior.weight[question, min(question, self.parts - 1)] = cosine
                self.prior.weight[question, self.parts] = match
            self.prior.bias.fill_(-10.0)

    def forward(self, tokens_a: Tokens, tokens_b: Tokens) -> tuple[Merged, Merged, Known]:
        """Tokens (B, N, M, d) twice, as `laid_out` made them -> the input of the trunk, (B, N / merge, M / merge,
        channels) twice, and the similarities known by then, (B, known).
        """
        a, b, s = self._compare_tokens(tokens_a, tokens_b)
        place = _token_positions(tokens_a.shape[1], tokens_a.shape[2], a)
        sharp = s * self.sharpness.exp()
        to_b, to_a = sharp.softmax(2), sharp.transpose(1, 2).softmax(2)
        found_b, found_a = to_b @ place, to_a @ place
        best_a, best_b = s.amax(2), s.amax(1)
        evidence_a = _match_evidence(best_a, found_b, to_b @ found_a - place)
        evidence_b = _match_evidence(best_b, found_a, to_a @ found_b - place)
        embedding_a, embedding_b = self._carried_embedding(tokens_a), self._carried_embedding(tokens_b)
        known = [cosines_of_parts(embedding_a[:, : self.embedding], embedding_b[:, : self.embedding], self.parts)]
        known += [((best_a.mean(1) + best_b.mean(1)) / 2)[:, None]]
        if self.typical:
            known += [a.mean(1).square().sum(-1, keepdim=True) + b.mean(1).square().sum(-1, keepdim=True)]
            known += [embedding_a[:, self.embedding :] + embedding_b[:, self.embedding :]]
        return (
            self._merge_neighbours(a, evidence_a, tokens_a),
            self._merge_neighbours(b, evidence_b, tokens_b),
            torch.cat(known, -1),
        )

    def attention(self, tokens_a: Tokens, tokens_b: Tokens) -> Shares:
        """Which patch is found where: tokens (B, N, M, d) twice -> (B, T, T), T = N M; the mean of p both ways, each
        entry times the cosine of the two patches where it is above 0.
        """
        _, _, s = self._compare_tokens(tokens_a, tokens_b)
        sharp = s * self.sharpness.exp()
        return (sharp.softmax(2) + sharp.softmax(1)) / 2 * s.clamp(min=0)

    def _compare_tokens(self, tokens_a: Tokens, tokens_b: Tokens) -> tuple[Tensor, Tensor, Shares]:
        """The unit tokens (B, T, d) of both panels and all their cosines (B, T, T)."""
        a, b = (F.normalize(t[..., : self.width].flatten(1, 2), dim=-1) for t in (tokens_a, tokens_b))
        return a, b, a @ b.transpose(1, 2)

    def _carried_embedding(self, tokens: Tokens) -> Float[Tensor, "batch carried"]:
        """The embedding that the tokens carry, with its typicality."""
        return tokens[..., self.width :].flatten(1)[:, : self.embedding + self.typical]

    def _merge_neighbours(self, unit: Tensor, evidence: Tensor, tokens: Tokens) -> Merged:
        """The tokens of the trunk, each made of `merge` x `merge` neighbours and their evidence."""
        _, rows, cols, _ = tokens.shape
        side = self.side
        # A unit vector of d channels has entries of 1 / sqrt(d).
        x = torch.cat([unit * self.width**0.5, evidence], -1).unflatten(1, (rows // side, side, cols // side, side))
        x = self.merge(x.transpose(2, 3).flatten(3))
        return x + resized_position(self.position, rows // side)


def laid_out(tokens: Tokens, more: Float[Tensor, "batch e"]) -> Float[Tensor, "batch rows cols more"]:
    """Tokens (B, N, M, d) with `more` of the whole picture (B, e) laid out over them in further channels, the last
    filled with 0.
    """
    _, rows, cols, _ = tokens.shape
    size = more.shape[1]
    carried = -(-size // (rows * cols))
    padded = F.pad(more, (0, rows * cols * carried - size)).to(tokens.dtype)
    return torch.cat([tokens, padded.unflatten(1, (rows, cols, carried))], -1)


def resized_position(position: Float[Tensor, "rows cols d"], grid: int) -> Tensor:
    """Learned places (N, N, d) for a grid of other tokens over the same panel, (grid, grid, d): averaged for fewer and
    larger ones, interpolated for more and smaller ones.
    """
    if grid == position.shape[0]:
        return position
    channels_first = position.permute(2, 0, 1)
    if grid < position.shape[0]:
        return F.adaptive_avg_pool2d(channels_first, grid).permute(1, 2, 0)
    return F.interpolate(channels_first[None], (grid, grid), mode="bilinear")[0].permute(1, 2, 0)


def _match_evidence(best: Tensor, found: Tensor, returned: Tensor) -> Float[Tensor, "batch tokens 6"]:
    """The evidence of each token: best match, place found, way back and its length."""
    distance = (returned * returned).sum(-1, keepdim=True)
    return torch.cat([best[..., None], found, returned, distance], -1)


def _token_positions(rows: int, cols: int, like: Tensor) -> Float[Tensor, "tokens 2"]:
    """The position of each token in its panel, (T, 2), both coordinates from -1 to 1."""
    y, x = (
        (torch.arange(count, device=like.device, dtype=like.dtype) + 0.5) * (2 / count) - 1 for count in (rows, cols)
    )
    return torch.stack([x.repeat(rows), y.repeat_interleave(cols)], -1)
