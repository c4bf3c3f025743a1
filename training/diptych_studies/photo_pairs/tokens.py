"""The tokens of photos that the released panel part gives, computed once for all variants: training steps, and what is
held out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from diptych_model import PairNetwork, load_checkpoint
from diptych_model.checkpoint import read_description
from diptych_model.embedding import weight_queries, weights_of_parts
from diptych_runtime.atomic import replacing_folder
from diptych_training.data.archives import Archives
from diptych_training.errors import DataError
from diptych_training.learning.batch import draw_step
from diptych_training.learning.losses import choose_pairs
from diptych_training.recipe import start_of
from diptych_training.tasks import Source, task_from
from diptych_training.tasks.hard_negatives import embed_photos, encode_photos
from diptych_training.tasks.validation import Looked, ValidationSet, nearest_candidates

START = "photo"
SETS = ("copies", "catalogue")


@dataclass(frozen=True)
class Drawn:
    """The settings of the tokens: the same ones give the same pictures.

    `steps` training steps are drawn, of `copies` edited photos (archives `photos`) and `shots` of a shop, each with its
    match and `negatives` look-alikes, `easy` of them any others. Held out are `asked` queries of each kind; edited
    photos are looked for among theirs and `others`, each query among the `candidates` that the embedding finds.
    """

    photos: tuple[str, ...] = ("flowers",)
    steps: int = 80
    copies: int = 8
    shots: int = 6
    negatives: int = 5
    easy: int = 1
    asked: int = 200
    others: int = 600
    candidates: int = 20
    mined: int = 128
    seed: int = 0

    @property
    def digest(self) -> str:
        """The first 12 digits of the SHA-256 of the settings and of the panel part's name."""
        return _short_digest([START, asdict(self)])


def panel_digest() -> str:
    """The first 12 digits of the SHA-256 of the released weights and of the weights of an embedding's parts: with
    others the same settings give other tokens and other candidates.
    """
    described = read_description(start_of(START))
    questions = described["network"]["questions"]
    return _short_digest([described["sha256"], [weights_of_parts(questions, question) for question in questions]])


def _short_digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Pairs:
    """Pairs of one step: tokens (Q + R, N, M, d) float16, of queries and references; `chosen` (Q, 1 + K), the
    references of each query, its match first, if it is `matched` (Q,); `copies` (Q,): the match is a copy.
    """

    tokens: Tensor
    chosen: Tensor
    matched: Tensor
    copies: Tensor


@dataclass(frozen=True)
class HeldOut:
    """Queries (Q, N, M, d), a gallery (R, N, M, d), each query's candidates (Q, K), best first by `cosines` (Q, K),
    which are `relevant` (Q, K), and how many matches each query has, found or not, `positives` (Q,).
    """

    queries: Tensor
    gallery: Tensor
    candidates: Tensor
    cosines: Tensor
    relevant: np.ndarray
    positives: np.ndarray


class Tokens:
    """The tokens that a folder keeps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps: int = json.loads((folder / "drawn.json").read_text())["steps"]

    def read_pairs(self, step: int) -> Pairs:
        """The pairs of a training step."""
        with safe_open(self.folder / "steps.safetensors", "pt") as file:
            return Pairs(*(file.get_tensor(f"{step}.{name}") for name in ("tokens", "chosen", "matched", "copies")))

    def held_out(self, kind: str) -> HeldOut:
        """Held-out queries and their gallery, of *copies* or of the *catalogue*."""
        with safe_open(self.folder / f"{kind}.safetensors", "pt") as file:
            kept = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        arrays = {name: kept[name].numpy() for name in ("relevant", "positives")}
        return HeldOut(**{**kept, **arrays})


def keep_tokens(folder: Path, data: Path, drawn: Drawn, noted: Callable[[str], None] = lambda _: None) -> None:
    """Compute the tokens that a folder lacks, whole or not at all; `noted` is called with each stage of the work.

    Raises `DataError` for a folder whose tokens are of other settings or of another release.
    """
    wanted = {**json.loads(json.dumps(asdict(drawn))), "panel": panel_digest()}
    if (folder / "drawn.json").is_file():
        if (found := json.loads((folder / "drawn.json").read_text())) != wanted:
            raise DataError(
                f"{folder} has tokens drawn with {found}, and {wanted} are asked for: remove that folder, or name "
                "another directory with --out"
            )
        return
    network = load_checkpoint(start_of(START))[0].eval()
    size = network.config.pixels
    source = Source(Archives(round(size * 1.375), data), size, drawn.seed, torch.device("cpu"))
    copies = task_from({"kind": "copy", "queries": drawn.copies, "strength": "hard", "archives": drawn.photos})
    tasks = [task.open(source) for task in (copies, task_from({"kind": "catalogue", "queries": drawn.shots}))]
    noted("looking for look-alikes")
    tasks[0].mine_negatives(lambda photos: embed_photos(network, photos, drawn.mined).numpy())
    with replacing_folder(folder) as fresh:
        kept: dict[str, Tensor] = {}
        for number in range(drawn.steps):
            if number % 20 == 0:
                noted(f"tokens of step {number} of {drawn.steps}")
            kept |= {f"{number}.{name}": value for name, value in _compute_step(network, tasks, number, drawn).items()}
        save_file(kept, fresh / "steps.safetensors")
        del kept
        for kind, task in zip(SETS, tasks, strict=True):
            noted(f"tokens of what is held out: {kind}")
            validation = _sample_queries(task.validation(whole=True), drawn)
            save_file(_held_out(network, validation, drawn.candidates), fresh / f"{kind}.safetensors")
        (fresh / "drawn.json").write_text(json.dumps(wanted, indent=1) + "\n")


@torch.no_grad()
def _compute_step(network: PairNetwork, tasks: list[Any], number: int, drawn: Drawn) -> dict[str, Tensor]:
    step = draw_step(tasks, number, seed=drawn.seed)
    tokens, embeddings = network.encode(step.pictures.contiguous(memory_format=torch.channels_last))
    count, questions = len(step.match), network.config.questions
    about = [weight_queries(embeddings[:count], weights_of_parts(questions, question)) for question in questions]
    cosines = torch.where(step.copies[:, None], *about) @ embeddings[count:].T
    generator = torch.Generator().manual_seed(drawn.seed * 1_000_003 + number)
    chosen = choose_pairs(
        cosines, step.match, step.rival, negatives=drawn.negatives, easy=drawn.easy, generator=generator
    )
    return {
        "tokens": tokens.half().contiguous(),
        "chosen": count + chosen,
        "matched": step.match.any(1),
        "copies": step.copies,
    }


def _sample_queries(validation: ValidationSet, drawn: Drawn) -> ValidationSet:
    """Some of the queries, with their matches and as many others of the gallery as are asked for."""
    rng = np.random.default_rng(drawn.seed)
    queries = np.sort(rng.permutation(len(validation.queries))[: drawn.asked])
    relevant = validation.relevant[queries]
    needed = np.flatnonzero(relevant.any(0))
    others = rng.permutation(np.setdiff1d(np.arange(relevant.shape[1]), needed))[: drawn.others]
    shown = np.sort(np.concatenate([needed, others]))
    return replace(
        validation,
        queries=validation.queries[torch.from_numpy(queries)],
        gallery=validation.gallery[torch.from_numpy(shown)],
        relevant=relevant[:, shown],
    )


def _held_out(network: PairNetwork, validation: ValidationSet, candidates: int) -> dict[str, Tensor]:
    size = network.config.pixels
    looked = Looked(
        *encode_photos(network, validation.queries, size), *encode_photos(network, validation.gallery, size)
    )
    best, cosines = nearest_candidates(network, validation, looked, candidates)
    return {
        "queries": looked.query_tokens.half(),
        "gallery": looked.tokens.half(),
        "candidates": best.contiguous(),
        "cosines": cosines.contiguous(),
        "relevant": torch.from_numpy(np.take_along_axis(validation.relevant, best.numpy(), 1)),
        "positives": torch.from_numpy(validation.relevant.sum(1)),
    }
