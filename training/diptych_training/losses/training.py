"""The network of losses: its recipe, examples that are drawn while it learns, and how it is measured on others."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from diptych.console import format_table
from diptych_model.networks.losses import WEIGHTS, LossesNetwork, load_losses, save_losses
from diptych_runtime.closer_look.comparison import LOSSES
from diptych_runtime.paths import shell_word
from diptych_training import optimisation
from diptych_training.data.archives import data_folder
from diptych_training.device import default_device, mixed_precision
from diptych_training.losses.pairs import Example, draw_examples
from diptych_training.losses.versions import FAMILIES
from diptych_training.metrics import Pool
from diptych_training.optimisation import Optimisation
from diptych_training.recipe import RunRecipe
from diptych_training.run import BEST, Run
from diptych_training.workers import worker_pool

CHUNK = 16  # examples that a process draws at a time
AHEAD = 3  # chunks for each process that are drawn before they are needed
SMOOTHED = 0.01  # of either answer
_EXAMINING = 2**20  # what the seeds of the examples to be measured on begin with


@dataclass(frozen=True)
class Origins:
    """Up to `photos` training photos of each of the `archives`, beside drawn documents; `without` are the families of
    edits that are left out, and `held_out` the archives on which the network is measured.
    """

    archives: tuple[str, ...] = ()
    held_out: tuple[str, ...] = ()
    photos: int = 400
    without: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.archives or not self.held_out or self.photos < 1 or set(self.archives) & set(self.held_out):
            raise ValueError(
                "[losses] needs archives, others held_out, and photos of 1 or more, got archives = "
                f"{list(self.archives)}, held_out = {list(self.held_out)} and photos = {self.photos}"
            )
        if unknown := set(self.without) - set(FAMILIES):
            raise ValueError(f"[losses] without is of {', '.join(FAMILIES)}, got {', '.join(sorted(unknown))}")


@dataclass(frozen=True)
class Budget(optimisation.Budget):
    """The training budget of the network: each example is drawn about `uses` times, from the last `shelf` chunks of
    them, and the network is measured on so many `examined`.
    """

    steps: int = 3000
    warmup: int = 100
    decay: float = 0.02
    average: float = 0.99
    uses: int = 4
    shelf: int = 60
    examined: int = 1500

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.uses, self.shelf, self.examined) < 1:
            raise ValueError(f"uses, shelf and examined must be positive, got {asdict(self)}")


@dataclass(frozen=True, kw_only=True)
class LossesRecipe(RunRecipe):
    """The resolved recipe of a network of losses, which begins with the weights of `start`, another run's `best`."""

    losses: Origins
    learning: Budget = field(default_factory=Budget)
    name: str = "losses"
    start: str = ""
    seed: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start and not (Path(self.start) / WEIGHTS).is_file():
            raise ValueError(f"start = {self.start!r} is not the folder of a checkpoint, which has {WEIGHTS}")


recipe_from = LossesRecipe.from_dict


class Shelf:
    """The examples from which steps draw: of the last chunks, of which a new one takes the place of the oldest.

    The same recipe gives the same ones in every step, however many processes draw them, or after a stop.
    """

    def __init__(self, recipe: LossesRecipe, folder: Path, pool: ProcessPoolExecutor, step: int) -> None:
        """Draw what is there before the given step."""
        self.recipe, self._pool = recipe, pool
        budget = recipe.learning
        self._steps_a_chunk = max(1, CHUNK * budget.uses // budget.batch)
        self._draw = partial(
            draw_examples,
            archives=recipe.losses.archives,
            most=recipe.losses.photos,
            without=recipe.losses.without,
            folder=folder,
            split="train",
        )
        last = max(1, budget.shelf // 4) + max(0, step - 1) // self._steps_a_chunk
        self._next = max(0, last - budget.shelf)
        self._drawing: deque[Future[list[Example]]] = deque()
        self.chunks: deque[list[Example]] = deque(maxlen=budget.shelf)
        while self._next - len(self._drawing) < last:
            self._take_chunk()

    def draw_examples(self, step: int, rng: np.random.Generator) -> list[Example]:
        """The examples of a step."""
        if step and step % self._steps_a_chunk == 0:
            self._take_chunk()
        chunks = rng.integers(len(self.chunks), size=self.recipe.learning.batch)
        return [self.chunks[chunk][int(rng.integers(CHUNK))] for chunk in chunks]

    def _take_chunk(self) -> None:
        """Put the next chunk on the shelf, and have others begun."""
        while len(self._drawing) < AHEAD * self.recipe.threads:
            self._drawing.append(self._pool.submit(self._draw, CHUNK, [self.recipe.seed, self._next]))
            self._next += 1
        self.chunks.append(self._drawing.popleft().result())


class LossesRun(Run):
    """The run of a network of losses, beside which processes draw its examples."""

    recipe: LossesRecipe

    def begin(self) -> None:
        """Look for the archives, and make the network."""
        self.folder, recipe = data_folder(), self.recipe
        network = load_losses(Path(recipe.start)) if recipe.start else LossesNetwork()
        network = network.to(default_device(), memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimisation = Optimisation(network, recipe.learning, steps=recipe.learning.steps)

    def prepare(self) -> None:
        """Have the first examples drawn."""
        self.pool = self.stack.enter_context(worker_pool(self.recipe.threads))
        self.shelf = Shelf(self.recipe, self.folder, self.pool, self.optimisation.step)

    def differentiate(self) -> dict[str, float]:
        """Leave the gradients of a step in the network, and return its loss."""
        step, device = self.optimisation.step, default_device()
        views, answers, weights = _stack_examples(self.shelf.draw_examples(step, self.rng), self.rng)
        torch.manual_seed(self.recipe.seed + step)  # of the dropout, that a run which was stopped goes on alike
        with mixed_precision(device):
            odds = self.optimisation.network(views.to(device)).float()
        wanted = answers.to(device) * (1 - 2 * SMOOTHED) + SMOOTHED
        errors = F.binary_cross_entropy_with_logits(odds, wanted, reduction="none") * weights.to(device)
        loss = errors.mean((0, 1)) @ errors.new_tensor([1 / 3] * (len(LOSSES) - 1) + [1.0])
        loss.backward()
        return {"loss": loss.item()}

    def measure(self) -> dict[str, Any]:
        """How well the network tells what is lost on archives that are held out."""
        origins, network = self.recipe.losses, self.optimisation.average.cpu()
        draw = partial(
            draw_examples,
            archives=origins.held_out,
            most=origins.photos,
            without=(),
            folder=self.folder,
            split="validation",
        )
        seeds = ([_EXAMINING, self.recipe.seed, chunk] for chunk in range(-(-self.recipe.learning.examined // CHUNK)))
        chunks = [self.pool.submit(draw, CHUNK, seed) for seed in seeds]
        return {"held_out": measure_auc(network, [example for chunk in chunks for example in chunk.result()])}

    def write(self, figures: Mapping[str, Any]) -> Path:
        """Write the weights into `best`; return their file."""
        network: Any = self.optimisation.average
        save_losses(network, self.directory / BEST)
        return self.directory / BEST / WEIGHTS


def train(recipe: LossesRecipe, directory: Path, *, resume: bool = False, quiet: bool = False) -> dict[str, Any]:
    """Train a network of losses; return how well it tells what is lost on archives that are held out.

    `directory` receives what every run leaves, and the weights in `best`. Raises `DataError`.
    """
    return LossesRun(recipe, directory, quiet=quiet).carry_out(resume=resume)


def report(found: Mapping[str, Any], directory: Path) -> tuple[dict[str, Any], str]:
    """The result of a run as JSON and as text."""
    best = directory / BEST
    rows = [[loss, row["lost"], row["kept"], f"{row['auc']:.3f}"] for loss, row in found["held_out"].items()]
    text = (
        f"{format_table(['what is lost', 'lost', 'kept', 'AUC'], rows)}\nlearnt in {found['seconds']} s\n"
        f"checkpoint: {best}\nnext: diptych export {shell_word(best)} -o losses"
    )
    return {"checkpoint": str(best), **found}, text


def measure_auc(network: nn.Module, examples: Sequence[Example]) -> dict[str, dict[str, float]]:
    """For each of the losses the number of examples that have it, and that do not, and the share `auc` of pairs of them
    in which the one that has it gets the higher log-odds.
    """
    with torch.inference_mode():
        parts = [network(_stack_examples(examples[begin : begin + 16])[0]) for begin in range(0, len(examples), 16)]
    odds, found = torch.cat(parts).numpy().reshape(-1, len(LOSSES)), {}
    answers, weights = (np.concatenate([example[place] for example in examples]) for place in (1, 2))
    for place, loss in enumerate(LOSSES):
        counts, lost = weights[:, place] > 0, answers[:, place] > 0
        if (counts & lost).any() and (counts & ~lost).any():
            auc = Pool(odds[counts, place].astype(np.float64), lost[counts]).auc()
            found[loss] = {"lost": int((counts & lost).sum()), "kept": int((counts & ~lost).sum()), "auc": auc}
    return found


def _stack_examples(
    examples: Sequence[Example], rng: np.random.Generator | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Views uint8 (B, 2, 2, S, S, 8), answers and weights float32 (B, 2, 11); mirrored and transposed by chance."""
    views = np.stack([example.views for example in examples])
    if rng is not None and rng.random() < 0.5:
        views = views[..., ::-1, :]
    if rng is not None and rng.random() < 0.5:
        views = views.swapaxes(3, 4)
    answers, weights = (np.stack([example[place] for example in examples]) for place in (1, 2))
    return torch.from_numpy(np.ascontiguousarray(views)), torch.from_numpy(answers), torch.from_numpy(weights)
