"""The embedding that retrieval compares: a unit vector with a part for every question, and how typical a picture is."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

Embeddings = Float[Tensor, "batch e"]

FOCUS = 0.9  # what a question's own part counts in its cosine; the others share the rest
NEAREST = 8  # pictures of the bank that say how typical one is


class Embedding(nn.Linear):
    """Description (B, pooled) to a unit vector (B, e) of one part for each question, all parts equally long.

    A copy keeps its picture and may have lost its colours; a thing keeps its colours and shows another side: one vector
    cannot be near for both reasons. `bank` holds the embeddings of pictures that show anything, to tell how near to
    *some* picture one always is (score normalisation: Jegou et al. 2011, Pizzi et al. 2022).
    """

    bank: Tensor

    def __init__(self, pooled: int, length: int, *, parts: int = 1, bank: int = 0) -> None:
        super().__init__(pooled, length)
        self.parts = parts
        if bank:
            self.register_buffer("bank", torch.zeros(bank, length))

    def forward(self, input: Float[Tensor, "batch pooled"]) -> Embeddings:
        """(B, pooled) -> unit vectors (B, e)."""
        return F.normalize(split_parts(super().forward(input), self.parts), dim=-1).flatten(1) / self.parts**0.5

    def typicality(self, embeddings: Embeddings) -> Float[Tensor, "batch parts"]:
        """The mean cosine of each part with those of the nearest pictures of the bank; no gradient flows through it."""
        a, bank = split_parts(embeddings.detach(), self.parts), split_parts(self.bank, self.parts)
        cosines = torch.einsum("bpe,kpe->bpk", a, bank.to(a.dtype)) * self.parts
        return cosines.topk(min(NEAREST, bank.shape[0]), -1).values.mean(-1)


def split_parts(embeddings: Embeddings, parts: int) -> Float[Tensor, "batch parts each"]:
    """The parts of embeddings, one for each question: (B, e) -> (B, parts, e / parts)."""
    return embeddings.unflatten(-1, (parts, -1))


def cosines_of_parts(a: Embeddings, b: Embeddings, parts: int) -> Float[Tensor, "batch parts"]:
    """The cosine of each part of two embeddings."""
    return (split_parts(a, parts) * split_parts(b, parts)).sum(-1) * parts


def weights_of_parts(questions: Sequence[str], question: str) -> list[float]:
    """The weights of a query's parts for a question: the inner product with an embedding is then `FOCUS` times the
    cosine of the question's own part and an equal share of the rest of each other.
    """
    if len(questions) == 1:
        return [1.0]
    rest = (1 - FOCUS) / (len(questions) - 1)
    return [len(questions) * (FOCUS if name == question else rest) for name in questions]


def weight_queries(embeddings: Embeddings, weights: Sequence[float]) -> Embeddings:
    """Query embeddings (B, e) weighted for the inner product with stored ones: see `weights_of_parts`."""
    return (split_parts(embeddings, len(weights)) * embeddings.new_tensor(weights)[:, None]).flatten(1)
