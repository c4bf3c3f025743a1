"""The run of a classifier: read pictures by class, train, resume, measure on what is held out, and write it."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
import torch

from diptych.console import Console
from diptych_model.flops import parameters
from diptych_model.networks.classifier import classifier_flops, save_classifier
from diptych_training.classifiers.recipe import ClassifierRecipe
from diptych_training.classifiers.training import answers, train_classifier
from diptych_training.data.classes import Labelled, numbered
from diptych_training.errors import DataError
from diptych_training.metrics import wilson_interval
from diptych_training.run_folder import RECIPE, begun, counted, require_begun
from diptych_training.tasks.labelled import Classes, held_out_fifth, read_panels
from diptych_training.threads import torch_threads

BEST, STATE, METRICS = "best", "state.pt", "metrics.json"


def classify(recipe: ClassifierRecipe, directory: Path, *, resume: bool = False, quiet: bool = False) -> dict[str, Any]:
    """Train a classifier; return the share of held-out pictures that it names rightly, with Wilson's interval.

    `directory` receives the resolved recipe, the state that `resume` goes on from, `metrics.json` and the network
    `best`. Raises `DataError`.
    """
    require_begun(directory / RECIPE, resume)
    with torch_threads(recipe.threads):
        return _classified(recipe, directory, resume, Console(quiet=quiet))


def _classified(recipe: ClassifierRecipe, directory: Path, resume: bool, console: Console) -> dict[str, Any]:
    pictures = labelled_folder(Classes(recipe.classifier.pictures, recipe.classifier.root), recipe.network.pixels)
    with begun(directory, tomli_w.dumps(recipe.to_dict()), resume=resume):
        return _learnt(recipe, pictures, directory, console)


def _learnt(recipe: ClassifierRecipe, pictures: Labelled, directory: Path, console: Console) -> dict[str, Any]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        network = recipe.network.build(len(pictures.names))
        losses = train_classifier(
            network,
            *pictures.training,
            recipe.learning,
            recipe.seed,
            state=directory / STATE,
            progress=partial(counted, console),
        )
    right = answers(network, pictures.validation[0]) == pictures.validation[1]
    found = {
        "right": int(right.sum()),
        "held_out": len(right),
        "accuracy": float(right.mean()),
        "interval": wilson_interval(int(right.sum()), len(right)),
        "accuracy_of_training": float((answers(network, pictures.training[0]) == pictures.training[1]).mean()),
        "classes": len(pictures.names),
        "parameters": parameters(network),
        "flops": classifier_flops(recipe.network, len(pictures.names)),
        "curve": [float(np.mean(part)) for part in np.array_split(losses, min(10, len(losses)))],
    }
    save_classifier(network, recipe.network, pictures.names, directory / BEST, {"metrics": found})
    (directory / METRICS).write_text(json.dumps(found, indent=2) + "\n")
    return found


def labelled_folder(classes: Classes, pixels: int) -> Labelled:
    """Pictures by class from the disk, a fifth of each class held out."""
    root, listed = classes.listed()
    names, labels = numbered(list(listed.values()))
    held_out = held_out_fifth(list(listed), labels, whole=False)
    if not held_out.any() or len(np.unique(labels[~held_out])) < len(names):
        raise DataError(f"{len(listed)} pictures of {len(names)} classes are too few to hold some out: bring more")
    return Labelled(read_panels([root / path for path in listed], pixels), labels, names, held_out)
