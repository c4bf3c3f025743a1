"""Examinations: how a run measures its network on what is held out, both stages, and chooses its best checkpoint."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from diptych_model import PairNetwork
from diptych_model.embedding import weight_queries, weights_of_parts
from diptych_training.metrics import Ranking, two_stages
from diptych_training.tasks.hard_negatives import encode_photos

CANDIDATES = 20
PAIRS = 64  # related at a time


@dataclass(frozen=True)
class ValidationSet:
    """Queries to be found in a gallery, always the same ones.

    `queries` (Q, H, H, 3) and `gallery` (R, H, H, 3) are uint8 pictures, `relevant` (Q, R) bool. `among` (Q, K) names
    the candidates of each query, where they are not those that the embedding finds. `itself` (Q,) is each query's own
    place in the gallery, where it is to be left out. `headline` is the figure, of `Ranking.summary`, by which the task
    is judged, and `question` what a network with two logits is asked.
    """

    queries: Tensor
    gallery: Tensor
    relevant: np.ndarray
    headline: str
    among: np.ndarray | None = None
    itself: np.ndarray | None = None
    question: str = "thing"


def match_others(subject: np.ndarray, asked: np.ndarray, gallery: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which pictures of a gallery (R,) show the subject of those that are asked with (Q,), bool (Q, R), and the place
    (Q,) in the gallery of each of these, which is not its own match. All are places among pictures of `subject` (n,).
    """
    place = np.zeros(len(subject), np.int64)
    place[gallery] = np.arange(len(gallery))
    relevant = subject[asked][:, None] == subject[gallery][None, :]
    relevant[np.arange(len(asked)), place[asked]] = False
    return relevant, place[asked]


@dataclass(frozen=True)
class Looked:
    """A validation set's pictures encoded: tokens (n, N, M, d) and embeddings (n, e) of queries and gallery."""

    query_tokens: Tensor
    query_embeddings: Tensor
    tokens: Tensor
    embeddings: Tensor


def encode_validation(network: PairNetwork, validation: ValidationSet, size: int) -> Looked:
    """Encode a validation set's pictures at `size` pixels."""
    return Looked(*encode_photos(network, validation.queries, size), *encode_photos(network, validation.gallery, size))


def validate(
    network: PairNetwork, validation: ValidationSet, size: int, candidates: int = CANDIDATES
) -> tuple[Ranking, Ranking]:
    """Rank by the embedding at `size` pixels, then permute the first `candidates` by the pair scorer."""
    return rank_encoded(network, validation, encode_validation(network, validation, size), candidates)


@torch.no_grad()
def rank_encoded(
    network: PairNetwork, validation: ValidationSet, looked: Looked, candidates: int = CANDIDATES
) -> tuple[Ranking, Ranking]:
    """Do what `validate` does with pictures that are encoded already."""
    network.eval()
    best, cosines = nearest_candidates(network, validation, looked, candidates)
    rows_of = torch.arange(len(best), device=best.device).repeat_interleave(best.shape[1])
    # In float32, as they are served: in bfloat16 many would be equal.
    logits = [
        select_answer(network, network.relate(looked.query_tokens[rows], looked.tokens[found]), validation.question)
        for rows, found in zip(rows_of.split(PAIRS), best.flatten().split(PAIRS), strict=True)
    ]
    return rank_stages(validation, best, cosines, torch.cat(logits).view(best.shape))


def nearest_candidates(
    network: PairNetwork, validation: ValidationSet, looked: Looked, candidates: int = CANDIDATES
) -> tuple[Tensor, Tensor]:
    """The first candidates of every query by the embedding.

    Their places in the gallery (Q, K) and cosines (Q, K).
    """
    query_embeddings = looked.query_embeddings
    if network.config.parts > 1:
        query_embeddings = weight_queries(
            query_embeddings, weights_of_parts(network.config.questions, validation.question)
        )
    cosines = query_embeddings @ looked.embeddings.T
    if validation.itself is not None:
        cosines[torch.arange(len(cosines)), torch.from_numpy(validation.itself)] = -torch.inf
    if validation.among is not None:
        among = torch.from_numpy(validation.among).to(cosines.device)
        first = cosines.gather(1, among).argsort(dim=1, descending=True, stable=True)
        best = among.gather(1, first)
    else:
        best = cosines.argsort(dim=1, descending=True, stable=True)
        best = best[:, : min(candidates, best.shape[1] - (validation.itself is not None))]
    return best, cosines.gather(1, best)


def rank_stages(validation: ValidationSet, best: Tensor, cosines: Tensor, logits: Tensor) -> tuple[Ranking, Ranking]:
    """Rank both stages of `nearest_candidates` with the scorer's logits (Q, K)."""
    relevant = np.take_along_axis(validation.relevant, best.cpu().numpy(), 1)
    positives = (relevant if validation.among is not None else validation.relevant).sum(1)
    return two_stages(cosines.cpu().numpy(), logits.cpu().numpy(), relevant, positives)


def drawn_at_random(validation: ValidationSet, count: int) -> ValidationSet:
    """The validation set with `count` candidates of each query drawn at random from its gallery, each time the same."""
    rng, others = np.random.default_rng(0), len(validation.gallery) - (validation.itself is not None)
    among = rng.integers(0, others, (len(validation.queries), count))
    if validation.itself is not None:
        among += among >= validation.itself[:, None]
    return replace(validation, among=among)


def select_answer(network: PairNetwork, logits: Tensor, question: str) -> Tensor:
    """Select the logits (P,) of one question from all, (P,) or (P, 2).

    A network of one logit has it for whatever is asked.
    """
    return logits if logits.dim() == 1 else logits[:, network.config.questions.index(question)]
