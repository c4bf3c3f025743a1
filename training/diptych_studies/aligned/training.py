"""The aligned-pair network: its recipe, the pairs that a step draws, and how it is measured on pairs held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch import Tensor, nn

from diptych.console import format_table
from diptych_model.networks.aligned import STRIDE, WEIGHTS, AlignedPairNetwork, load_aligned, save_aligned
from diptych_runtime.closer_look.aligned import read_graph
from diptych_runtime.paths import shell_word
from diptych_studies.aligned.edits import EDITS, edit_one_side
from diptych_studies.aligned.shelves import KeptPair, Origins, make_shelves, read_shelf, sources_of
from diptych_studies.kinds.odd_edits import ODD_EDITS
from diptych_training import optimisation
from diptych_training.data.archives import data_folder
from diptych_training.device import default_device, mixed_precision
from diptych_training.metrics import Pool
from diptych_training.optimisation import Optimisation
from diptych_training.recipe import RunRecipe
from diptych_training.run import BEST, Run

RELEASED = "aligned"  # what a recipe may start from: the weights of the network that every closer look asks
PAIRS = "pairs"
HELD_OUT = 20  # one in so many pairs, at the end of each source
EXAMINED = 300  # of a kind at most
SHRUNK = (1.0, 1.0, 0.8, 0.6)  # scales of pairs, drawn from
# Chances of a transposed, mirrored, upturned and blue-for-red pair.
TURNED, ALONG, ACROSS, RECOLOURED = 0.3, 0.5, 0.3, 0.2
SMOOTHED = 0.01  # of either answer
UNSEEN, UNSEEN_SEED = [ODD_EDITS[name] for name in ("halftone", "solarised", "motion")], 5  # edits that none is taught
TOGETHER = 6  # pairs that are computed at a time, of about one size


@dataclass(frozen=True)
class Budget(optimisation.Budget):
    """The training budget of the network, `batch` pairs a step, half of them copies.

    At first all pairs are made smaller, to `small` pixels at most, later a `share` of them: shapes are learnt at a
    quarter of the cost. In an `odd` share of them one picture is edited once more (`edits.EDITS`); of the others the
    answer of the network that a run began with counts for an `anchor` share, and the label for the rest.
    """

    steps: int = 6000
    batch: int = 24
    warmup: int = 100
    decay: float = 0.01
    average: float = 0.99
    small: int = 320
    share: float = 0.3
    odd: float = 0.0
    anchor: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        shares = self.share, self.odd, self.anchor
        if self.small < 32 or not all(0 <= share <= 1 for share in shares):
            raise ValueError(
                f"small must be 32 or more, share, odd and anchor from 0 to 1, got {self.small}, "
                + ", ".join(map(str, shares))
            )


@dataclass(frozen=True, kw_only=True)
class AlignedRecipe(RunRecipe):
    """The resolved recipe of an aligned-pair network, which begins with the weights of `start`: of the `RELEASED` one,
    or of the checkpoint of another run.
    """

    aligned: Origins
    learning: Budget = field(default_factory=Budget)
    name: str = "aligned"
    start: str = ""
    seed: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start not in ("", RELEASED) and not (Path(self.start) / WEIGHTS).is_file():
            raise ValueError(
                f"start = {self.start!r} is neither {RELEASED!r}, the released network, nor the folder of a "
                f"checkpoint, which has {WEIGHTS}"
            )


recipe_from = AlignedRecipe.from_dict


class Draws:
    """Pairs in the order in which they are learnt: copies and others half each, kinds by the root of their number."""

    def __init__(self, pairs: Sequence[KeptPair]) -> None:
        """Group the pairs by kind and label. Raises ValueError where there are no copies, or no others."""
        self.pairs = pairs
        keys = sorted({(pair.kind, pair.copy) for pair in pairs})
        if {copy for _, copy in keys} != {True, False}:
            raise ValueError(f"copies and others are needed to learn from, got {len(pairs)} pairs of one sort")
        self.groups = [[i for i, pair in enumerate(pairs) if (pair.kind, pair.copy) == key] for key in keys]
        weights, copies = np.sqrt([len(group) for group in self.groups]), np.array([copy for _, copy in keys])
        self.chances = weights / np.where(copies, weights[copies].sum(), weights[~copies].sum()) / 2

    def draw_pairs(self, count: int, rng: np.random.Generator) -> list[KeptPair]:
        """Draw so many pairs by chance, and sort them by size."""
        groups = rng.choice(len(self.groups), count, p=self.chances)
        pairs = [self.pairs[int(rng.choice(self.groups[group]))] for group in groups]
        return sorted(pairs, key=lambda pair: pair.pixels.size)


class AlignedRun(Run):
    """The run of an aligned-pair network, which makes its pairs first; they stay in the folder of the run."""

    recipe: AlignedRecipe

    def begin(self) -> None:
        """Look for the archives, and make the network."""
        self.folder = data_folder() if self.recipe.aligned.archives else None
        network, budget = make_network(self.recipe.start).to(default_device()), self.recipe.learning
        self.begun_with = deepcopy(network).eval()
        self.optimisation = Optimisation(network, budget, steps=budget.steps)

    def prepare(self) -> None:
        """Make the pairs that are missing, and hold out the last ones of each source."""
        recipe = self.recipe
        sources = sources_of(recipe.aligned, recipe.seed, self.folder)
        with self.console.progress(total=len(sources), unit="source", desc="making pairs") as bar:
            make_shelves(
                sources,
                self.directory / PAIRS,
                processes=recipe.threads,
                tick=lambda: bar.update(1),
            )
        parts = [read_shelf(self.directory / PAIRS / name) for name in sources]
        ends = [len(part) - len(part) // HELD_OUT for part in parts]
        self.pairs = [pair for part, end in zip(parts, ends, strict=True) for pair in part[:end]]
        self.held_out = [pair for part, end in zip(parts, ends, strict=True) for pair in part[end:]]
        self.draws = Draws(self.pairs)

    def differentiate(self) -> dict[str, float]:
        """Leave the gradients of a step in the network, and return its loss."""
        network, budget, rng = self.optimisation.network, self.recipe.learning, self.rng
        total, device, pairs = 0.0, default_device(), self.draws.draw_pairs(budget.batch, rng)
        share = max(budget.share, 1.2 - 2 * self.optimisation.step / budget.steps)
        for begin in range(0, len(pairs), TOGETHER):
            part = pairs[begin : begin + TOGETHER]
            changed = [change_pair(pair, budget.small if rng.random() < share else 0, rng) for pair in part]
            odd = rng.random(len(part)) < budget.odd
            for place in np.flatnonzero(odd).tolist():
                changed[place] = edit_one_side(changed[place], EDITS, rng)
            stacked = stack_pairs(changed).to(device)
            with mixed_precision(device):
                odds = network(stacked).float()
            labels = torch.tensor([float(pair.copy) for pair in part], device=device)
            target = labels * (1 - 2 * SMOOTHED) + SMOOTHED
            if budget.anchor and not odd.all():
                with torch.no_grad():
                    before = self.begun_with(stacked).sigmoid()
                target = target.lerp(before, torch.from_numpy(np.where(odd, 0, budget.anchor)).to(target))
            loss = F.binary_cross_entropy_with_logits(odds, target, reduction="sum") / len(pairs)
            loss.backward()
            total += loss.item()
        return {"loss": total}

    def measure(self) -> dict[str, Any]:
        """How well the network tells copies from look-alikes that are held out."""
        network = self.optimisation.average.cpu()
        return {
            "pairs": len(self.pairs),
            "copies": sum(pair.copy for pair in self.pairs),
            "held_out": measure_auc(network, self.held_out),
            "edited": measure_auc(network, edit_pairs(self.held_out)),
        }

    def write(self, figures: Mapping[str, Any]) -> Path:
        """Write the weights into `best`; return their file."""
        network: Any = self.optimisation.average
        save_aligned(network, self.directory / BEST)
        return self.directory / BEST / WEIGHTS


def train(recipe: AlignedRecipe, directory: Path, *, resume: bool = False, quiet: bool = False) -> dict[str, Any]:
    """Train an aligned-pair network; return how well it tells copies from look-alikes that are held out.

    `directory` receives what every run leaves, the pairs, and the weights in `best`. Raises `DataError`.
    """
    return AlignedRun(recipe, directory, quiet=quiet).carry_out(resume=resume)


def report(found: Mapping[str, Any], directory: Path) -> tuple[dict[str, Any], str]:
    """The result of a run as JSON and as text."""
    best = directory / BEST
    rows = [
        [kind, row["copies"], row["others"], f"{row['auc']:.3f}", f"{found['edited'][kind]['auc']:.3f}"]
        for kind, row in found["held_out"].items()
    ]
    text = (
        f"{format_table(['kind', 'copies', 'others', 'AUC', 'edited oddly'], rows)}\n"
        f"learnt from {found['pairs']:,} pairs, {found['copies']:,} of them copies, in {found['seconds']} s\n"
        f"checkpoint: {best}\nnext: diptych export {shell_word(best)} -o aligned"
    )
    return {"checkpoint": str(best), **found}, text


def make_network(start: str) -> AlignedPairNetwork:
    """A network with the weights of `start`, which a recipe may begin with; without one, new weights."""
    if not start:
        return AlignedPairNetwork()
    if start != RELEASED:
        return load_aligned(Path(start))
    network = AlignedPairNetwork()
    kept = {one.name: numpy_helper.to_array(one) for one in onnx.load_from_string(read_graph()).graph.initializer}
    network.load_state_dict({name: torch.from_numpy(kept[name].copy()) for name in network.state_dict()})
    return network


def measure_auc(network: nn.Module, pairs: Sequence[KeptPair]) -> dict[str, dict[str, float]]:
    """Measure how well a network tells copies from others of each kind.

    For each kind of which there are both: the `copies` and `others`, and the share `auc` of pairs of them in which the
    copy has the higher log-odds.
    """
    found = {}
    for kind in sorted({pair.kind for pair in pairs}):
        copies, others = ([p for p in pairs if p.kind == kind and p.copy == copy][:EXAMINED] for copy in (True, False))
        if copies and others:
            with torch.inference_mode():
                odds = [network(stack_pairs([pair.pixels])).item() for pair in (*copies, *others)]
            auc = Pool(odds, np.arange(len(odds)) < len(copies)).auc()
            found[kind] = {"copies": len(copies), "others": len(others), "auc": auc}
    return found


def edit_pairs(pairs: Sequence[KeptPair]) -> list[KeptPair]:
    """The pairs with one picture edited in a way that no pair is in training (`UNSEEN`), always the same."""
    rngs = (np.random.default_rng([UNSEEN_SEED, number]) for number in range(len(pairs)))
    return [
        replace(pair, pixels=edit_one_side(pair.pixels, UNSEEN, rng)) for pair, rng in zip(pairs, rngs, strict=True)
    ]


def stack_pairs(pairs: Sequence[np.ndarray]) -> Tensor:
    """Pairs uint8 (h, w, 7) as float32 (B, 7, H, W) from 0 to 1, filled up with places that are not shown."""
    height, width = (-(-max(pair.shape[axis] for pair in pairs) // STRIDE) * STRIDE for axis in (0, 1))
    filled = np.zeros((len(pairs), height, width, 7), np.uint8)
    for place, pair in enumerate(pairs):
        filled[place, : pair.shape[0], : pair.shape[1]] = pair
    scale = torch.tensor([255.0] * 6 + [1.0]).view(1, 7, 1, 1)
    return torch.from_numpy(filled).permute(0, 3, 1, 2) / scale


def change_pair(pair: KeptPair, most: int, rng: np.random.Generator) -> np.ndarray:
    """A pair uint8 (h, w, 7) made smaller, turned or mirrored, in other colours: the same question.

    It has `most` pixels a side, or with 0 as many as there are.
    """
    pixels, scale = np.asarray(pair.pixels), float(rng.choice(SHRUNK))
    if most:
        scale *= min(1.0, most / max(pixels.shape[:2]))
    if scale < 1:
        size = max(32, int(pixels.shape[1] * scale)), max(32, int(pixels.shape[0] * scale))
        parts = [np.ascontiguousarray(part) for part in (pixels[..., :3], pixels[..., 3:6], pixels[..., 6])]
        pixels = np.dstack([cv2.resize(part, size, interpolation=cv2.INTER_AREA) for part in parts])
    if rng.random() < ALONG:
        pixels = pixels[:, ::-1]
    if rng.random() < ACROSS:
        pixels = pixels[::-1]
    if rng.random() < TURNED:
        pixels = pixels.swapaxes(0, 1)
    return pixels[..., [2, 1, 0, 5, 4, 3, 6]] if rng.random() < RECOLOURED else pixels
