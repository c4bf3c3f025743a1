"""Random one-shot episodes within an alphabet: the same characters by two hands, one asks and the other answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from diptych_training.data.episodes import draw_episodes, read_drawings, split_of
from diptych_training.errors import DataError
from diptych_training.evaluation.estimates import Resampling
from diptych_training.evaluation.files import as_folder
from diptych_training.evaluation.protocols.trials import Trials, evidence, measure
from diptych_training.evaluation.series import Evidence
from diptych_training.evaluation.stages import Entrants


def evaluate_episodes(
    entrants: Entrants, folder: Path, *, split: str | None = None, episodes: int = 500, ways: int = 20, seed: int = 0
) -> Evidence:
    """Measure the accuracy over random episodes, its interval by drawing episodes anew."""
    if episodes < 1 or ways < 2:
        raise DataError(f"expected at least one episode of at least two ways, got {episodes} of {ways}")
    drawings = read_drawings(folder, split)
    drawn = draw_episodes(drawings, episodes, ways=ways, seed=seed)
    # Only what is asked for is encoded, and every drawing once.
    used, rows = np.unique(np.stack([(e.queries, e.candidates) for e in drawn]), return_inverse=True)
    asked, offered = rows.reshape(episodes, 2, ways).swapaxes(0, 1)
    trials = Trials(
        [drawings.files[i] for i in used],
        folder,
        asked.ravel(),
        np.repeat(offered, ways, axis=0),
        np.tile(np.arange(ways), episodes),
    )
    resampling = Resampling("episodes", np.repeat(np.arange(episodes), ways))
    return evidence(
        "episodes",
        f"Random one-shot episodes: {ways}-way, within alphabet",
        entrants,
        measure(entrants, trials, resampling),
        counted={"episodes": episodes, "ways": ways, "seed": seed, "drawings": len(used)},
        interval=lambda method: method.intervals["accuracy"],
        resampling=resampling,
    )


def open_drawings(source: Path, split: str | None = None):
    """The drawings as a folder, one split of them unpacked where they are a zip archive; a context manager."""
    return as_folder(source, lambda name: split is None or (len(name.parts) > 3 and split_of(name) == split))
