"""A recipe of fine-tuning: a released model and a table of labelled pairs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from diptych_model.settings import known_settings
from diptych_runtime.calibration.questions import ASKED, COPY

LABELS = "labels"  # the table of a recipe by which it is one of these
# Weaker ones learn by heart what labelled pairs have in common: cross-validation takes that for a gain where most pairs
# share pictures, and on pairs of other pictures the log-loss of *thing* rose from 0.18 to 0.45.
STRENGTHS = (1000.0, 300.0, 100.0)


@dataclass(frozen=True)
class Labels:
    """Labelled pairs: `table` is a CSV with the columns image_a, image_b and answer (same, different or cannot tell) or
    label (1 or 0), as `diptych label --export` writes it; its paths count from `root`, or from the CSV's own folder.
    Rows without a question answer `question`.
    """

    table: str
    root: str = ""
    question: str = COPY

    def __post_init__(self) -> None:
        if self.question not in ASKED:
            raise ValueError(f"labels.question must be one of {', '.join(ASKED)}, got {self.question!r}")


@dataclass(frozen=True)
class FineTuning:
    """The resolved recipe of fine-tuning.

    `strengths` are how firmly logits may be held to those of the model it starts from, of which cross-validation over
    `folds` chooses; that model itself is always one of the choices. `background` pairs without a label, drawn from the
    same pictures, are held besides.
    """

    labels: Labels
    name: str = "labels"
    start: str = "photo"
    seed: int = 1
    threads: int = 2
    folds: int = 5
    background: int = 500
    strengths: tuple[float, ...] = field(default=STRENGTHS)

    def __post_init__(self) -> None:
        if self.folds < 2 or self.threads < 1 or self.background < 1:
            raise ValueError(
                "fine-tuning needs folds of 2 at least, and threads and background of 1, "
                f"got {self.folds}, {self.threads} and {self.background}"
            )
        if not self.strengths or min(self.strengths) <= 0:
            raise ValueError(f"strengths must be numbers above 0, got {list(self.strengths)}")

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe resolved, every default written out."""
        return asdict(self) | {"strengths": list(self.strengths)}


def fine_tuning_from(values: Mapping[str, Any]) -> FineTuning:
    """Build a recipe from parsed TOML. Raises ValueError for an unknown or unfit value."""
    known = known_settings(FineTuning, values, "a recipe with [labels]")
    labels = known_settings(Labels, known[LABELS], LABELS)
    if "table" not in labels:
        raise ValueError("[labels] needs a table: the CSV that `diptych label --export` wrote")
    known[LABELS] = Labels(**labels)
    if "strengths" in known:
        known["strengths"] = tuple(float(strength) for strength in known["strengths"])
    return FineTuning(**known)
