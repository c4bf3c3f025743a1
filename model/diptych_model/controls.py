"""Two ways to compare pictures that the pair network is laid beside: neither looks at both at once.

They take the trunk's place in a `PairNetwork`, so that the same run trains them and the same measures judge them.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from diptych_model.embedding import cosines_of_parts

Tokens = Float[Tensor, "batch rows cols d"]
Logits = Float[Tensor, "batch *questions"]
Compared = Float[Tensor, "batch *own"]


class _Line(nn.Module):
    """scale * x + offset for every question: (B,) -> (B,), or (B, Q) of several."""

    def __init__(self, questions: int) -> None:
        super().__init__()
        shape = () if questions == 1 else (questions,)
        self.scale, self.offset = nn.Parameter(torch.full(shape, 10.0)), nn.Parameter(torch.full(shape, -5.0))

    def to_logits(self, x: Compared) -> Logits:
        """The logits of x, which is one for all questions or one for each."""
        return self.scale * (x[:, None] if self.scale.dim() > x.dim() - 1 else x) + self.offset


class Siamese(_Line):
    """The siamese twin (Bromley et al. 1993): a logit from the cosine of two embeddings, given as one token each."""

    def __init__(self, questions: int, parts: int = 1) -> None:
        super().__init__(questions)
        self.parts = parts

    def forward(self, tokens_a: Tokens, tokens_b: Tokens) -> Logits:
        """scale * cos(a, b) + offset: tokens (B, 1, 1, e) twice -> logits (B,), of each question's own part (B, Q)."""
        cosines = cosines_of_parts(tokens_a.flatten(1), tokens_b.flatten(1), self.parts)
        return self.to_logits(cosines if self.parts > 1 else cosines[:, 0])


class LateInteraction(_Line):
    """Late interaction (Khattab and Zaharia 2020): every token's best match in the other panel, on average (MaxSim)."""

    def forward(self, tokens_a: Tokens, tokens_b: Tokens) -> Logits:
        """scale * (mean_i max_j cos(a_i, b_j) + mean_j max_i cos(a_i, b_j)) / 2 + offset: (B, N, M, d) -> (B,)."""
        a, b = (F.normalize(tokens.flatten(1, 2), dim=-1) for tokens in (tokens_a, tokens_b))
        cosines = a @ b.transpose(1, 2)
        return self.to_logits((cosines.amax(2).mean(1) + cosines.amax(1).mean(1)) / 2)
