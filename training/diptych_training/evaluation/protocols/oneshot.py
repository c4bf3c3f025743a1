"""The one-shot runs of Lake: twenty characters of one alphabet by one hand, each to be found among another's."""

from pathlib import Path, PurePosixPath

import numpy as np

from diptych_training.errors import DataError
from diptych_training.evaluation.estimates import Resampling
from diptych_training.evaluation.files import as_folder, require
from diptych_training.evaluation.protocols.trials import Trials, evidence, measure
from diptych_training.evaluation.series import Evidence
from diptych_training.evaluation.stages import Entrants, Method
from diptych_training.metrics import wilson_interval

LABELS = "class_labels.txt"
LAYOUT = (
    "runNN/training/classNN.png, runNN/test/itemNN.png and runNN/class_labels.txt (a line: test path, training path)"
)
# Fewer runs than this are too few to be drawn anew: then trials are, as if they were independent.
_FEWEST_RUNS = 10


def read_runs(folder: Path) -> tuple[Trials, list[str], np.ndarray]:
    """Read the runs below a folder: their trials, their names, and int (T,) the run of each trial.

    Paths in `class_labels.txt` may start at the runs' folder, at the folder given or at the run itself.
    """
    runs = sorted(path.parent for path in folder.rglob(LABELS))
    if not runs:
        raise DataError(f"no run was found; expected {LAYOUT}")
    files: dict[Path, int] = {}
    queries, candidates, right, run_of = [], [], [], []
    for number, run in enumerate(runs):
        offered = sorted((run / "training").glob("*.png"))
        if len(offered) < 2:
            raise DataError(f"{run.name}/training has {len(offered)} pictures (*.png); expected {LAYOUT}")
        if candidates and len(offered) != len(candidates[0]):
            raise DataError(f"{run.name} has {len(offered)} training pictures and {runs[0].name} {len(candidates[0])}")
        for asked, answer in _read_labels(run, folder):
            if answer not in offered:
                raise DataError(f"{run.name}/{LABELS} answers with {answer.name}, which is not in {run.name}/training")
            candidates.append([files.setdefault(file, len(files)) for file in offered])
            queries.append(files.setdefault(asked, len(files)))
            right.append(offered.index(answer))
            run_of.append(number)
    trials = Trials(list(files), folder, *(np.array(rows, np.int64) for rows in (queries, candidates, right)))
    return trials, [run.name for run in runs], np.array(run_of)


def evaluate_oneshot(entrants: Entrants, folder: Path) -> Evidence:
    """Measure the accuracy over all trials of all runs, with Wilson's interval."""
    trials, names, run_of = read_runs(folder)
    clustered = len(names) >= _FEWEST_RUNS
    resampling = Resampling("runs", run_of) if clustered else Resampling("trials", np.arange(len(run_of)))
    measured = measure(entrants, trials, resampling)

    def accuracies(method: Method) -> list[float]:
        return [float(method.ranking.relevant[run_of == run, 0].mean()) for run in range(len(names))]

    ours = measured[0].ours
    stages = zip(names, accuracies(ours.first), accuracies(ours.reranked), strict=True)
    runs = [{"run": name, "accuracy": after, "first_stage": first} for name, first, after in stages]
    return evidence(
        "oneshot",
        f"One-shot runs: {trials.candidates.shape[1]}-way, {len(names)} runs",
        entrants,
        measured,
        counted={"ways": trials.candidates.shape[1], "runs": runs},
        interval=lambda method: wilson_interval(method.ranking.relevant[:, 0].sum(), len(run_of)),
        resampling=resampling,
    )


def open_runs(source: Path):
    """The runs as a folder, unpacked where they are a zip archive; a context manager."""
    return as_folder(source, lambda name: name.suffix == ".png" or name.name == LABELS)


def _read_labels(run: Path, folder: Path) -> list[tuple[Path, Path]]:
    lines = [line.split() for line in (run / LABELS).read_text("utf-8").splitlines() if line.strip()]
    if not lines or any(len(line) != 2 for line in lines):
        raise DataError(f"{run.name}/{LABELS} must have lines of a test path and a training path; expected {LAYOUT}")
    starts = (run.parent, folder, run)

    def find(written: str) -> Path:
        path = PurePosixPath(written)
        return next((start / path for start in starts if (start / path).is_file()), run.parent / path)

    found = [(find(asked), find(answer)) for asked, answer in lines]
    require([file for pair in found for file in pair], f"pictures of {run.name}/{LABELS}", f"expected {LAYOUT}")
    return found
