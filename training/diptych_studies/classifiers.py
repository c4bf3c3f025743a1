"""Classifiers of single pictures, the networks of section 6 of the MSAC paper: recipe, training, and measuring."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from diptych_studies.data.tables import read_table_of
from diptych_studies.flops import count_parameters
from diptych_studies.networks.classifier import WEIGHTS, ClassifierConfig, classifier_flops, save_classifier
from diptych_training import optimisation
from diptych_training.data.archives import list_photos, load_photos
from diptych_training.errors import DataError
from diptych_training.metrics import wilson_interval
from diptych_training.optimisation import Optimisation
from diptych_training.recipe import RunRecipe
from diptych_training.run import BEST, Run
from diptych_training.tasks.labelled import Classes, held_out_fifth, read_panels

SHIFT = 6  # pixels that a picture is moved by at most


@dataclass(frozen=True)
class Budget(optimisation.Budget):
    """The training budget of a classifier; `smoothing` is that of the labels."""

    smoothing: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.smoothing < 1:
            raise DataError(f"smoothing must be from 0 to below 1, got {self.smoothing}")


@dataclass(frozen=True)
class ClassFolder:
    """`pictures` is a folder with a folder for each class, or a CSV with the columns path and class, whose paths count
    from `root`, or from the CSV's own folder. A fifth of each class is held out.
    """

    pictures: str = field(metadata={"needs": ": a folder with a folder for each class, or a CSV"})
    root: str = ""


@dataclass(frozen=True, kw_only=True)
class ClassifierRecipe(RunRecipe):
    """The resolved recipe of a classifier."""

    classifier: ClassFolder
    network: ClassifierConfig = field(default_factory=ClassifierConfig)
    learning: Budget = field(default_factory=Budget)
    name: str = "classifier"

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe resolved, every default written out."""
        return super().to_dict() | {"network": self.network.to_dict()}


recipe_from = ClassifierRecipe.from_dict


@dataclass(frozen=True)
class Labelled:
    """Pictures uint8 (n, S, S, 3), the class of each as a number (n,), the classes' names, and which are held out."""

    pixels: np.ndarray
    labels: np.ndarray
    names: tuple[str, ...]
    held_out: np.ndarray

    @property
    def training(self) -> tuple[np.ndarray, np.ndarray]:
        """Pictures and labels to learn from."""
        return self.pixels[~self.held_out], self.labels[~self.held_out]

    @property
    def validation(self) -> tuple[np.ndarray, np.ndarray]:
        """Pictures and labels to be measured on."""
        return self.pixels[self.held_out], self.labels[self.held_out]


class Lessons:
    """Pictures uint8 (n, S, S, 3) with labels (n,), in the order in which they are learnt: all, before one comes again.

    The order, and how each is mirrored and moved, follow from the generator.
    """

    def __init__(self, pixels: np.ndarray, labels: np.ndarray, budget: Budget, rng: np.random.Generator) -> None:
        self.pixels, self.labels, self.budget, self.rng = pixels, labels, budget, rng
        self.waiting = np.empty(0, np.int64)

    def differentiate(self, network: nn.Module) -> dict[str, float]:
        """Leave the gradients of the next batch in a network, and return its loss."""
        while len(self.waiting) < self.budget.batch:
            self.waiting = np.concatenate([self.waiting, self.rng.permutation(len(self.pixels))])
        chosen, self.waiting = self.waiting[: self.budget.batch], self.waiting[self.budget.batch :]
        logits = network(_move_pictures(self.pixels[chosen], self.rng))
        labels = torch.from_numpy(self.labels[chosen])
        loss = F.cross_entropy(logits, labels, label_smoothing=self.budget.smoothing)
        loss.backward()
        return {"loss": loss.item()}


class ClassifierRun(Run):
    """The run of a classifier on pictures of one's own."""

    save_every = 50
    recipe: ClassifierRecipe

    def begin(self) -> None:
        """Read the pictures and make the network."""
        origin = self.recipe.classifier
        self.pictures = read_classes(Classes(origin.pictures, origin.root), self.recipe.network.pixels)
        network = self.recipe.network.build(len(self.pictures.names))
        self.optimisation = _make_optimisation(network, self.recipe.learning)
        self.lessons = Lessons(*self.pictures.training, self.recipe.learning, self.rng)

    def differentiate(self) -> dict[str, float]:
        """Leave the gradients of a step in the network, and return its loss."""
        return self.lessons.differentiate(self.optimisation.network)

    def state(self) -> dict[str, Any]:
        """What `restore` needs beside the optimisation."""
        return super().state() | {"waiting": torch.from_numpy(self.lessons.waiting)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        super().restore(state)
        self.lessons.waiting = state["waiting"].numpy()

    def measure(self) -> dict[str, Any]:
        """The share of held-out pictures that are named rightly, with Wilson's interval, and what that costs."""
        network, pictures = self.optimisation.average, self.pictures
        right = name_classes(network, pictures.validation[0]) == pictures.validation[1]
        return {
            "right": int(right.sum()),
            "held_out": len(right),
            "accuracy": float(right.mean()),
            "interval": wilson_interval(int(right.sum()), len(right)),
            "accuracy_of_training": float((name_classes(network, pictures.training[0]) == pictures.training[1]).mean()),
            "classes": len(pictures.names),
            "parameters": count_parameters(network),
            "flops": classifier_flops(self.recipe.network, len(pictures.names)),
        }

    def write(self, figures: Mapping[str, Any]) -> Path:
        """Write the network into `best`; return the file of its weights."""
        network: Any = self.optimisation.average
        best = self.directory / BEST
        save_classifier(network, self.recipe.network, self.pictures.names, best, {"metrics": dict(figures)})
        return best / WEIGHTS


def train(recipe: ClassifierRecipe, directory: Path, *, resume: bool = False, quiet: bool = False) -> dict[str, Any]:
    """Train a classifier; return the share of held-out pictures that it names rightly, with Wilson's interval.

    `directory` receives what every run leaves, and the network in `best`. Raises `DataError`.
    """
    return ClassifierRun(recipe, directory, quiet=quiet).carry_out(resume=resume)


def report(found: Mapping[str, Any], directory: Path) -> tuple[dict[str, Any], str]:
    """The result of a run as JSON and as text."""
    low, high = found["interval"]
    text = (
        f"{found['accuracy']:.1%} of {found['held_out']} held-out pictures named rightly ({low:.1%} to {high:.1%}); "
        f"{found['classes']} classes, {found['parameters']:,} parameters, {found['flops'] / 1e6:.1f} MFLOP a picture\n"
        f"checkpoint: {directory / BEST}"
    )
    return {"checkpoint": str(directory / BEST), **found}, text


def train_classifier(
    network: nn.Module, pixels: np.ndarray, labels: np.ndarray, budget: Budget, seed: int
) -> list[float]:
    """Train on pictures uint8 (n, S, S, 3) with labels (n,), mirrored and moved at random: the loss of each step.

    The order and the moves follow from the seed, dropout from torch's own generator.
    """
    learning = _make_optimisation(network, budget)
    lessons = Lessons(pixels, labels, budget, np.random.default_rng(seed))
    return [learning.take_step(lambda: lessons.differentiate(network))["loss"] for _ in range(budget.steps)]


def _make_optimisation(network: nn.Module, budget: Budget) -> Optimisation:
    """The optimisation of a network in which only matrices and filters decay."""
    heavy = [p for p in network.parameters() if p.dim() > 1]
    light = [p for p in network.parameters() if p.dim() <= 1]
    groups = [{"params": heavy, "weight_decay": budget.decay}, {"params": light, "weight_decay": 0.0}]
    return Optimisation(network, budget, steps=budget.steps, groups=groups)


def read_classes(classes: Classes, pixels: int) -> Labelled:
    """Pictures by class from the disk, a fifth of each class held out."""
    root, listed = classes.list_pictures()
    names, labels = number_classes(list(listed.values()))
    held_out = held_out_fifth(list(listed), labels, whole=False)
    if not held_out.any() or len(np.unique(labels[~held_out])) < len(names):
        raise DataError(f"{len(listed)} pictures of {len(names)} classes are too few to hold some out: bring more")
    return Labelled(read_panels([root / path for path in listed], pixels), labels, names, held_out)


def labelled_archive(folder: Path, archive: str, pixels: int) -> Labelled:
    """The photos of `flowers` (five kinds, a tenth held out by name) or of `grocery` (shop photos, the data set's own
    split).
    """
    photos = list_photos(folder, [archive])
    if archive == "flowers":
        classes = {
            f"flowers/{row['path']}": row["label"] for row in read_table_of(folder, archive, "flowers/images.csv")
        }
        held_out = {photo.name for photo in photos if photo.split == "validation"}
    elif archive == "grocery":
        tables = {part: read_table_of(folder, archive, f"grocery/{part}.csv") for part in ("train", "val")}
        classes = {f"grocery/{row['path']}": row["class"] for rows in tables.values() for row in rows}
        held_out = {f"grocery/{row['path']}" for row in tables["val"]}
        photos = [photo for photo in photos if photo.name in classes]
    else:
        raise DataError(f"classes are known of flowers and grocery, not of {archive!r}")
    names, labels = number_classes([classes[photo.name] for photo in photos])
    out = np.array([photo.name in held_out for photo in photos])
    return Labelled(load_photos(folder, photos, pixels).pixels, labels, names, out)


def number_classes(classes: Sequence[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """Number the different classes in their order: their names, int64 (n,)."""
    names, labels = np.unique(classes, return_inverse=True)
    return tuple(map(str, names)), labels.astype(np.int64)


def name_classes(network: nn.Module, pixels: np.ndarray, batch: int = 100) -> np.ndarray:
    """Name the class of each picture uint8 (n, S, S, 3): int64 (n,)."""
    network.eval()
    with torch.inference_mode():
        parts = [network(as_input(pixels[at : at + batch])).argmax(1) for at in range(0, len(pixels), batch)]
    return torch.cat(parts).numpy()


def as_input(pixels: np.ndarray) -> Tensor:
    """Pictures uint8 (n, S, S, 3) as float32 between -1 and 1, channels last."""
    return torch.from_numpy(pixels).float() / 127.5 - 1


def _move_pictures(pixels: np.ndarray, rng: np.random.Generator) -> Tensor:
    """Each picture mirrored or not, and moved by a few pixels; beyond its edge the edge is repeated."""
    size = pixels.shape[1]
    padded = np.pad(pixels, ((0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT), (0, 0)), mode="edge")
    moved = np.empty_like(pixels)
    for place, picture in enumerate(padded):
        down, across = rng.integers(0, 2 * SHIFT + 1, 2)
        cut = picture[down : down + size, across : across + size]
        moved[place] = cut[:, ::-1] if rng.random() < 0.5 else cut
    return as_input(moved)
