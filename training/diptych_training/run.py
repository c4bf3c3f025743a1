"""The training run, on one page: draw, encode once, mine, relate in chunks, learn; validate, keep the best, resume."""

import copy
import json
import math
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from diptych_model import PairNetwork, load_checkpoint, save_checkpoint
from diptych_training.augment import draw_sprites
from diptych_training.calibration import fit_calibration, fit_thresholds
from diptych_training.errors import DataError
from diptych_training.losses import choose_pairs, distillation_loss, embedding_loss, pair_loss
from diptych_training.mining import embed, nearest
from diptych_training.photos import list_photos, load_photos
from diptych_training.recipe import Recipe, Stage
from diptych_training.tasks import Step, Tasks
from diptych_training.validation import Validation

STATE, METRICS, RECIPE, BEST, LAST = "state.pt", "metrics.jsonl", "recipe.json", "best", "last"


def train(recipe: Recipe, data: Path, directory: Path, *, resume: bool = False, quiet: bool = False) -> dict[str, Any]:
    """Train a pair network and its embedding together; return the last validation.

    `directory` receives the resolved recipe, metrics, the best and the last checkpoint (averaged weights) and the
    state from which `resume` goes on to the same numbers. The device is CUDA where there is one.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if (directory / STATE).exists() != resume:
        state = "has a run already: add --resume or name another" if not resume else "has no run to resume"
        raise DataError(f"{directory} {state}")
    torch.set_num_threads(recipe.threads)
    torch.manual_seed(recipe.seed)
    run = Run(recipe, directory)
    if resume:
        _require_same(recipe, directory / RECIPE)
        run.restore()
    else:
        described = recipe.to_dict() | {"environment": environment()}
        (directory / RECIPE).write_text(json.dumps(described, indent=2) + "\n")
    photos, sprites = list_photos(data, recipe.archives), draw_sprites(512, recipe.seed)
    measured: dict[str, float] = {}
    with tqdm(total=recipe.steps, initial=run.step, unit="step", disable=quiet, smoothing=0.05) as bar:
        for stage, end in recipe.spans():
            last = end == recipe.steps
            if run.step >= end and not last:
                continue
            # A little larger than the stage's panels, so that a crop still has pixels to show.
            loaded = load_photos(data, photos, round(stage.pixels * 1.375))
            tasks, validation = Tasks(loaded, sprites, recipe.seed), Validation(loaded, sprites, stage.pixels)
            while run.step < end:
                if run.neighbours is None or run.step % recipe.mine_every == 0:
                    run.mine(tasks, stage)
                bar.set_postfix(run.advance(tasks, stage))
                bar.update()
                validated = run.step % recipe.validate_every == 0 or run.step == recipe.steps
                if validated:
                    measured = run.validate(validation)
                    if not quiet:
                        tqdm.write(_line(run.step, measured))
                if validated or run.step % recipe.checkpoint_every == 0:
                    run.save()
            if last:
                # The whole gallery: among few photos the nearest are not near, and thresholds found there are too low.
                every = len(photos)
                whole = Validation(loaded, sprites, stage.pixels, queries=every, gallery=every)
                calibrate(directory / BEST, whole)
    return measured


def calibrate(checkpoint: Path, validation: Validation) -> None:
    """Fit calibration and thresholds on validation pairs and write them into the checkpoint's metadata.

    The pairs are the copy task's: every validation query with its 100 nearest candidates, matches and others weighing
    the same. Products are ranked by the same score, but it is no probability for them.
    """
    network, metadata = load_checkpoint(checkpoint)
    _, after = validation.copies(network, 100)
    logits, labels = after.scores.ravel(), after.relevant.ravel()
    try:
        fitted = fit_calibration(logits, labels)
    except ValueError as error:
        # A network that has learnt nothing yet is still a checkpoint; it says itself that its scores are raw.
        metadata["uncalibrated"] = str(error)
    else:
        probabilities = 1 / (1 + np.exp(-(fitted["scale"] * logits + fitted["offset"])))
        metadata |= {"calibration": fitted, "thresholds": fit_thresholds(probabilities, labels)}
    save_checkpoint(network, checkpoint, metadata)


def _require_same(recipe: Recipe, path: Path) -> None:
    """Refuse to go on with another recipe than the run began with: its numbers would belong to neither."""
    begun, asked = json.loads(path.read_text()), json.loads(json.dumps(recipe.to_dict()))
    changed = [name for name, value in asked.items() if begun.get(name) != value]
    if changed:
        raise DataError(
            f"{path.parent} was begun with another recipe ({', '.join(changed)} differ); "
            f"resume with the one in {path}, or begin a new run in another directory"
        )


class Run:
    """The state of a run: network, its running average, optimiser, step, mined neighbours, best score so far."""

    def __init__(self, recipe: Recipe, directory: Path) -> None:
        self.recipe, self.directory = recipe, directory
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.network = PairNetwork(recipe.network).to(self.device)
        self.average = copy.deepcopy(self.network).requires_grad_(False)
        self.optimiser = torch.optim.AdamW(_groups(self.network, recipe.learning.decay), lr=recipe.learning.rate)
        self.step, self.best = 0, -math.inf
        self.neighbours: np.ndarray | None = None

    def advance(self, tasks: Tasks, stage: Stage) -> dict[str, str]:
        """Take one step; return what the progress bar shows."""
        began = time.perf_counter()
        for group in self.optimiser.param_groups:
            group["lr"] = self._rate()
        self.network.train()
        drawn = tasks.draw(self.step, stage, self.neighbours)
        losses = self._learn(drawn, stage)
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.learning.clip)
        if not torch.isfinite(norm):
            raise DataError(
                f"the gradient of step {self.step} is not finite; the last good state is kept in {self.directory}: "
                "lower learning.rate, or set learning.bfloat16 = false, and resume"
            )
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self._follow()
        self.step += 1
        seconds = time.perf_counter() - began
        pairs = len(drawn.match) * (1 + stage.negatives)
        self._note({"step": self.step, "rate": self._rate(), "seconds": seconds, "pairs": pairs} | losses)
        return {
            "pair": f"{losses['pair']:.3f}",
            "embed": f"{losses['embedding']:.3f}",
            "pairs/s": f"{pairs / seconds:.0f}",
        }

    def _learn(self, drawn: Step, stage: Stage) -> dict[str, float]:
        learning = self.recipe.learning
        pictures = drawn.pictures.to(self.device, memory_format=torch.channels_last)
        match, rival = drawn.match.to(self.device), drawn.rival.to(self.device)
        with self._mixed():
            tokens, embeddings = self.network.encode(pictures)
        count = len(match)
        cosines = embeddings[:count].float() @ embeddings[count:].float().T
        generator = torch.Generator().manual_seed(self.recipe.seed * 1_000_003 + self.step)
        chosen = choose_pairs(cosines, match, rival, negatives=stage.negatives, easy=stage.easy, generator=generator)
        # Tokens are cut from the graph here: pairs are related a few queries at a time, each chunk small enough for the
        # cache, and the gradients that arrive at the tokens then flow once through the panel part.
        leaf = tokens.detach().requires_grad_()
        logits, width = [], chosen.shape[1]
        # Attention costs the square of the tokens: smaller panels go through in larger chunks.
        panels = (self.recipe.network.pixels / stage.pixels) ** 3
        queries_at_once = max(1, int(learning.chunk * panels) // width)
        for rows in torch.arange(count).split(queries_at_once):
            tokens_a = leaf[rows].repeat_interleave(width, 0)
            with self._mixed():
                related = self.network.relate(tokens_a, leaf[count + chosen[rows].flatten()]).float()
            logits.append(related.view(len(rows), width))
            (pair_loss(logits[-1]) * (len(rows) / count)).backward()
            logits[-1] = logits[-1].detach()
        teacher = torch.cat(logits)
        contrast = embedding_loss(cosines, match, rival, learning.temperature)
        distilled = distillation_loss(cosines.gather(1, chosen), teacher, learning.temperature)
        torch.autograd.backward([tokens, contrast + learning.distil * distilled], [leaf.grad, None])
        return {
            "pair": float(pair_loss(teacher)),
            "embedding": float(contrast.detach()),
            "distillation": float(distilled.detach()),
            "pair_first": float((teacher.argmax(1) == 0).float().mean()),
        }

    def mine(self, tasks: Tasks, stage: Stage) -> None:
        """Find each photo's look-alikes under the averaged network."""
        _, embeddings = embed(self.average, tasks.pixels[tasks.copied], stage.pixels)
        self.neighbours = nearest(embeddings.cpu().numpy(), tasks.subject[tasks.copied])

    def validate(self, validation: Validation) -> dict[str, float]:
        """Measure the averaged network, note it, and keep it if it is the best so far."""
        measured = validation.measure(self.average)
        self._note({"step": self.step, "validation": measured})
        # A smaller panel is another, easier-going yardstick: only the recipe's own size competes for the best.
        if validation.size == self.recipe.network.pixels and measured["score"] > self.best:
            self.best = measured["score"]
            save_checkpoint(self.average, self.directory / BEST, self._metadata(measured))
        return measured

    def save(self) -> None:
        """Write the state to resume from, whole or not at all, and the averaged weights beside it."""
        state = {
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "step": self.step,
            "best": self.best,
            "neighbours": None if self.neighbours is None else torch.from_numpy(self.neighbours),
        }
        written = self.directory / (STATE + ".new")
        torch.save(state, written)
        written.replace(self.directory / STATE)
        save_checkpoint(self.average, self.directory / LAST, self._metadata({}))

    def restore(self) -> None:
        """Go on from the last saved state; notes of later steps are dropped, for they will be made again."""
        state = torch.load(self.directory / STATE, map_location=self.device, weights_only=True)
        self.network.load_state_dict(state["network"])
        self.average.load_state_dict(state["average"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.step, self.best = state["step"], state["best"]
        self.neighbours = None if state["neighbours"] is None else state["neighbours"].cpu().numpy()
        notes = (self.directory / METRICS).read_text().splitlines(keepends=True)
        kept = [line for line in notes if json.loads(line)["step"] <= self.step]
        (self.directory / METRICS).write_text("".join(kept))

    def _rate(self) -> float:
        learning = self.recipe.learning
        warm = min(1.0, (self.step + 1) / learning.warmup)
        return learning.rate * warm * (0.5 + 0.5 * math.cos(math.pi * self.step / self.recipe.steps)) + 1e-6

    def _follow(self) -> None:
        weight = min(self.recipe.learning.average, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for mean, value in zip(self.average.state_dict().values(), self.network.state_dict().values(), strict=True):
                mean.lerp_(value, 1 - weight) if mean.is_floating_point() else mean.copy_(value)

    def _mixed(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.recipe.learning.bfloat16)

    def _metadata(self, measured: dict[str, float]) -> dict[str, Any]:
        return {"name": self.recipe.name, "step": self.step, "metrics": measured, "recipe": self.recipe.to_dict()}

    def _note(self, values: dict[str, Any]) -> None:
        with (self.directory / METRICS).open("a") as file:
            file.write(json.dumps(values) + "\n")


def environment() -> dict[str, str]:
    """Return what the numbers may depend on besides the recipe."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": platform.machine(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    }


def _groups(network: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Weight decay for matrices and filters, none for norms, biases, tables and positions."""
    heavy = [
        p for name, p in network.named_parameters() if p.dim() > 1 and "table" not in name and "position" not in name
    ]
    kept = {id(p) for p in heavy}
    light = [p for p in network.parameters() if id(p) not in kept]
    return [{"params": heavy, "weight_decay": decay}, {"params": light, "weight_decay": 0.0}]


def _line(step: int, measured: dict[str, float]) -> str:
    return f"step {step}: " + ", ".join(f"{name} {value:.3f}" for name, value in measured.items())
