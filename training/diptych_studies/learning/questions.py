"""Training a network that answers questions about drawn worlds, and measuring it by kind of question."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from diptych_studies.data.worlds import ANSWERS, KINDS, LONGEST, VOCABULARY, draw_examples
from diptych_studies.flops import count_parameters
from diptych_studies.networks.questions import QuestionConfig, QuestionNetwork, question_loss
from diptych_training.errors import DataError
from diptych_training.optimisation import warm_cosine

HELD_OUT_SEED = 2**31
POINTS = 10  # of a curve


@dataclass(frozen=True)
class QuestionBudget:
    """The training of a network that answers questions: AdamW with warm-up and a cosine, `batch` questions a step of
    the `examples` that are drawn; `held_out` others measure it.
    """

    steps: int = 4000
    batch: int = 32
    rate: float = 2e-3
    warmup: int = 100
    examples: int = 20_000
    held_out: int = 2000

    def __post_init__(self) -> None:
        if min(self.steps, self.batch, self.warmup, self.examples, self.held_out) < 1 or self.rate <= 0:
            raise DataError(f"steps, batch, warmup, examples, held_out and rate must be positive, got {self}")

    def rate_at(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        return warm_cosine(self.rate, step, self.steps, self.warmup)


def world_config(relevance: str, **sizes: int) -> QuestionConfig:
    """The configuration of a network for the drawn worlds and their vocabulary."""
    return QuestionConfig(relevance, len(VOCABULARY), len(ANSWERS), LONGEST, **sizes)


def train_questions(
    config: QuestionConfig, budget: QuestionBudget | None = None, seed: int = 0
) -> tuple[QuestionNetwork, dict[str, Any]]:
    """Train a network and measure it on worlds that training does not draw.

    Weights, worlds and their order follow from the seed; what is held out is always the same. The result is JSON:
    `curve`, the loss in ten parts of the training, `right`, the share of held-out questions answered rightly, and
    `by_kind`, the same for each kind of question; `shown`, one question of each kind with what the network looks at.
    """
    budget = budget or QuestionBudget()
    examples = min(budget.examples, budget.steps * budget.batch)
    pixels, tokens, answers, _ = draw_examples(examples, config.pixels, seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = QuestionNetwork(config)
    optimiser = torch.optim.AdamW(network.parameters(), lr=budget.rate, weight_decay=0.01)
    rng, waiting, losses = np.random.default_rng(seed), np.empty(0, np.int64), []
    began = time.process_time()
    for step in range(budget.steps):
        while len(waiting) < budget.batch:
            waiting = np.concatenate([waiting, rng.permutation(len(pixels))])
        rows, waiting = waiting[: budget.batch], waiting[budget.batch :]
        for group in optimiser.param_groups:
            group["lr"] = budget.rate_at(step)
        loss = question_loss(
            network, as_pictures(pixels[rows]), torch.from_numpy(tokens[rows]), torch.from_numpy(answers[rows])
        )
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        losses.append(float(loss.detach()))
    seconds = time.process_time() - began
    result = measure_questions(network, budget.held_out)
    result |= {"parameters": count_parameters(network), "processor_seconds": round(seconds, 1)}
    result["curve"] = [round(float(np.mean(part)), 4) for part in np.array_split(losses, min(POINTS, len(losses)))]
    result["shown"] = [] if config.relevance == "blind" else relevance_of(network, len(KINDS))
    return network.eval(), result


def measure_questions(network: QuestionNetwork, count: int) -> dict[str, Any]:
    """The share of held-out questions that are answered rightly: `right`, of `asked`, and `by_kind`."""
    pixels, tokens, answers, questions = draw_examples(count, network.config.pixels, HELD_OUT_SEED)
    right = answer_questions(network, pixels, tokens) == answers
    kinds = np.array([question.kind for question in questions])
    by_kind = {kind: float(right[kinds == kind].mean()) for kind in KINDS if (kinds == kind).any()}
    return {"right": float(right.mean()), "asked": len(right), "by_kind": by_kind}


def answer_questions(network: QuestionNetwork, pixels: np.ndarray, tokens: np.ndarray, batch: int = 250) -> np.ndarray:
    """The places in `ANSWERS` of the answers to questions (n, T) about pictures uint8 (n, S, S, 3): int64 (n,)."""
    network.eval()
    parts = [slice(at, at + batch) for at in range(0, len(pixels), batch)]
    with torch.inference_mode():
        found = [network(as_pictures(pixels[part]), torch.from_numpy(tokens[part])).argmax(1) for part in parts]
    network.train()
    return torch.cat(found).numpy()


def relevance_of(network: QuestionNetwork, count: int) -> list[dict[str, Any]]:
    """The first held-out questions as the network sees them, as JSON: the words of the `question`, the `answer` that it
    gives, and the `relevance` (T, N, M) of every region to every word in the last block.
    """
    pixels, tokens, _, questions = draw_examples(count, network.config.pixels, HELD_OUT_SEED)
    answers = answer_questions(network, pixels, tokens)
    network.eval()
    with torch.inference_mode():
        maps = network.relevance(as_pictures(pixels), torch.from_numpy(tokens))[:, -1].double().numpy()
    return [
        {
            "question": list(question.words),
            "answer": ANSWERS[int(answer)],
            "relevance": seen[: len(question.words)].round(4).tolist(),
        }
        for question, answer, seen in zip(questions, answers, maps, strict=True)
    ]


def as_pictures(pixels: np.ndarray) -> Tensor:
    """Pictures uint8 (n, S, S, 3) as float32 (n, 3, S, S) from -1 to 1."""
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1
