"""Training language models of bytes or of words with MSAC (section 5 of the paper), measuring them, and letting them
write.
"""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from diptych_studies.data.text import Text, read_documentation, read_text
from diptych_studies.data.words import Vocabulary
from diptych_studies.networks.language_model import BYTES, LanguageConfig, LanguageModel, parameters_of, save_language
from diptych_training.errors import DataError
from diptych_training.optimisation import warm_cosine

Progress = Callable[[Iterable[Any], int, str], Iterable[Any]]
# So many windows of the held-out text are one block of the bootstrap: neighbouring windows are alike.
BLOCK = 16


@dataclass(frozen=True)
class Budget:
    """The training budget of a language model: AdamW with warm-up and a cosine schedule, `batch` windows a step.

    `share` of the tokens of a window are hidden where the objective is *masked*.
    """

    steps: int = 1200
    batch: int = 8
    rate: float = 3e-3
    warmup: int = 50
    decay: float = 0.05
    clip: float = 1.0
    share: float = 0.15

    def __post_init__(self) -> None:
        if min(self.steps, self.batch, self.warmup) < 1 or min(self.rate, self.clip) <= 0 or not 0 < self.share < 1:
            raise DataError(
                f"steps, batch, warmup, rate and clip must be positive and share between 0 and 1, got {self}"
            )

    def rate_at(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        return warm_cosine(self.rate, step, self.steps, self.warmup)


def train_language(
    config: LanguageConfig,
    text: Text,
    budget: Budget | None = None,
    seed: int = 0,
    *,
    vocabulary: Vocabulary | None = None,
    progress: Progress = lambda items, total, name: items,
) -> tuple[LanguageModel, dict[str, Any]]:
    """Train a model and measure it on the held-out text; the same seed gives the same numbers on the CPU.

    With a `vocabulary` tokens are its words, otherwise bytes, and the config has to know how many there are. The
    weights, the windows drawn and the tokens hidden follow from the seed; models of other scales draw the same
    windows. The result is JSON: see `measure_language` for the bits, `seconds_per_step` is a median.
    """
    budget = budget or Budget()
    data, held_out = _encode_text(config, text, vocabulary)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LanguageModel(config)
    generator = torch.Generator().manual_seed(seed)
    heavy = {name for name, p in model.named_parameters() if p.dim() > 1 and "table" not in name}
    groups = [
        {"params": [p for name, p in model.named_parameters() if (name in heavy) == decays], "weight_decay": decay}
        for decays, decay in ((True, budget.decay), (False, 0.0))
    ]
    optimiser = torch.optim.AdamW(groups, lr=budget.rate)
    bits, seconds = [], []
    for step in progress(range(budget.steps), budget.steps, "steps"):
        began = time.perf_counter()
        for group in optimiser.param_groups:
            group["lr"] = budget.rate_at(step)
        starts = torch.randint(len(data) - config.context, (budget.batch,), generator=generator)
        loss = _measure_bits(model, _cut_windows(data, starts, config), budget.share, generator).mean()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), budget.clip)
        if not torch.isfinite(norm):
            raise DataError(f"the gradient of step {step} is not finite: lower the rate of {budget.rate}")
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        bits.append(float(loss.detach()))
        seconds.append(time.perf_counter() - began)
    result = measure_language(model.eval(), held_out, share=budget.share, unit="word" if vocabulary else "byte")
    result["learning"] = [float(np.mean(part)) for part in np.array_split(bits, min(10, len(bits)))]
    result |= {"parameters": parameters_of(config), "seconds_per_step": median(seconds)}
    return model, result


@torch.no_grad()
def measure_language(
    model: LanguageModel, data: bytes | Tensor, *, share: float = 0.15, unit: str = "byte"
) -> dict[str, Any]:
    """Return `bits_per_byte` (or of another unit) over consecutive windows of the text, bytes or tokens (n,), and its
    mean in each block of 16 windows.

    Causal: every token of a whole window is predicted once, but for the first; those at the start of a window from
    little context. Masked: a share of the tokens, always the same ones, from the others.
    """
    tokens, size = data if isinstance(data, Tensor) else _encode_bytes(data), model.config.context
    starts = torch.arange(0, len(tokens) - size, size)
    generator = torch.Generator().manual_seed(0)
    parts = [
        _measure_bits(model, _cut_windows(tokens, s, model.config), share, generator).mean(1)
        for s in starts.split(BLOCK)
    ]
    bits = torch.cat(parts).double().numpy()
    blocks = np.array_split(bits, max(1, len(bits) // BLOCK))
    return {f"bits_per_{unit}": float(bits.mean()), "blocks": [float(block.mean()) for block in blocks]}


def sample_bytes(model: LanguageModel, prompt: bytes, length: int, *, temperature: float = 0.7, seed: int = 0) -> bytes:
    """Continue a prompt by `length` bytes, drawn one by one; DataError where the model is masked or the prompt empty.

    Temperature 0 takes the likeliest byte each time.
    """
    return bytes(_continue_prompt(model, list(prompt), length, temperature, seed))


def sample_words(
    model: LanguageModel,
    vocabulary: Vocabulary,
    prompt: str,
    length: int,
    *,
    temperature: float = 0.7,
    seed: int = 0,
) -> str:
    """Continue a prompt by `length` words, as `sample_bytes` does by bytes."""
    known = vocabulary.encode(prompt.encode()).tolist()
    return vocabulary.decode(_continue_prompt(model, known, length, temperature, seed))


def _continue_prompt(model: LanguageModel, prompt: list[int], length: int, temperature: float, seed: int) -> list[int]:
    if not model.config.causal:
        raise DataError("a masked model fills gaps and cannot continue a text: train with the objective 'causal'")
    if not prompt:
        raise DataError("the prompt is empty: give at least one byte or word to continue")
    generator, written = torch.Generator().manual_seed(seed), list(prompt)
    with torch.no_grad():
        for _ in range(length):
            logits = model(torch.tensor(written[-model.config.context :])[None])[0, -1]
            if temperature > 0:
                drawn = torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)
            else:
                drawn = logits.argmax()
            written.append(int(drawn))
    return written[len(prompt) :]


def learn_language(
    source: Path | None,
    directory: Path,
    config: LanguageConfig | None = None,
    budget: Budget | None = None,
    seed: int = 0,
    *,
    words: int = 0,
    progress: Progress = lambda items, total, name: items,
) -> dict[str, Any]:
    """Train one model on a text file or folder (None: Python's documentation) and save it in a directory; return its
    figures. With `words` it reads the so many most frequent words of the text, which are saved too, and not bytes.
    """
    text, budget = (read_documentation() if source is None else read_text(source)), budget or Budget()
    config, vocabulary = config or LanguageConfig(), None
    if words:
        vocabulary = Vocabulary.build_from(text.train, words)
        config = replace(config, vocabulary=len(vocabulary))
    model, result = train_language(config, text, budget, seed, vocabulary=vocabulary, progress=progress)
    if vocabulary is not None:
        result["words"] = list(vocabulary.words)
    result |= {"text": text.name, "text_digest": text.digest, "budget": asdict(budget), "seed": seed}
    save_language(model, directory, result)
    return result


def _measure_bits(model: LanguageModel, drawn: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Bits of every predicted token of some windows, (B, predictions).

    A window has one token more than the context.
    """
    if model.config.causal:
        logits, targets = model(drawn[:, :-1]), drawn[:, 1:]
    else:
        targets = drawn[:, :-1]
        hidden = torch.rand(targets.shape, generator=generator).argsort(1)[:, : max(1, round(share * targets.shape[1]))]
        logits = model(targets.scatter(1, hidden, model.config.mask))
        targets = targets.gather(1, hidden)
        logits = logits.gather(1, hidden[..., None].expand(-1, -1, logits.shape[-1]))
    return F.cross_entropy(logits.transpose(1, 2), targets, reduction="none") / math.log(2)


def _cut_windows(data: Tensor, starts: Tensor, config: LanguageConfig) -> Tensor:
    return data[starts[:, None] + torch.arange(config.context + 1)].long()


def _encode_bytes(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).long()


def _encode_text(config: LanguageConfig, text: Text, vocabulary: Vocabulary | None) -> tuple[Tensor, Tensor]:
    """The tokens of a text to learn from, and those held out.

    Raises `DataError` where there are too few for a window.
    """
    if config.vocabulary != (BYTES if vocabulary is None else len(vocabulary)):
        raise DataError(
            f"the model has {config.vocabulary} tokens and the text {len(vocabulary) if vocabulary else BYTES}: "
            "make the config with the vocabulary's length"
        )
    parts = {
        part: _encode_bytes(data) if vocabulary is None else torch.from_numpy(vocabulary.encode(data))
        for part, data in (("training", text.train), ("held-out", text.held_out))
    }
    for part, tokens in parts.items():
        if len(tokens) <= config.context:
            raise DataError(
                f"{text.name}: the {part} part has {len(tokens)} {'words' if vocabulary else 'bytes'}, a window needs "
                f"{config.context + 1}: give more text or a smaller context"
            )
    return parts["training"], parts["held-out"]
