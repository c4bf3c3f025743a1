"""A recipe of the aligned-pair network: where its pairs come from, and a budget."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from diptych_model.networks.aligned import WEIGHTS
from diptych_model.settings import known_settings

ALIGNED = "aligned"  # the table of a recipe by which it is one of these
RELEASED = "aligned"  # what a recipe may start from: the weights of the network that every closer look asks


@dataclass(frozen=True)
class Origins:
    """The origins of the pairs: `families` of four drawn documents of one layout; up to `photos` training photos of
    each of the `archives`, with their nearest among each other; and `things` printed with some of them, seen again.
    """

    families: int = 1200
    photos: int = 1000
    things: int = 0
    archives: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.families < 0 or self.photos < 2 or not (self.families or self.archives):
            raise ValueError(
                "[aligned] needs families of 0 or more, photos of 2 or more, and families or archives, got families = "
                f"{self.families}, photos = {self.photos} and archives = {list(self.archives)}"
            )
        if self.things < 0 or (self.things and not self.archives):
            raise ValueError(
                "[aligned] needs things of 0 or more, and archives whose photos are printed on them, got things = "
                f"{self.things} and archives = {list(self.archives)}"
            )


@dataclass(frozen=True)
class Budget:
    """AdamW with warm-up and a cosine schedule, `batch` pairs a step, half of them copies; `average` is the decay of
    the running average of the weights.

    At first all pairs are made smaller, to `small` pixels at most, later a `share` of them: shapes are learnt at a
    quarter of the cost.
    """

    steps: int = 6000
    batch: int = 24
    rate: float = 2e-3
    warmup: int = 100
    decay: float = 0.01
    average: float = 0.99
    small: int = 320
    share: float = 0.3

    def __post_init__(self) -> None:
        if min(self.steps, self.batch, self.warmup) < 1 or self.rate <= 0 or self.decay < 0 or self.small < 32:
            raise ValueError(
                "steps, batch, warmup and rate must be positive, decay 0 or more and small 32 or more, got "
                f"{self.steps}, {self.batch}, {self.warmup}, {self.rate}, {self.decay} and {self.small}"
            )
        if not 0 <= self.average < 1 or not 0 <= self.share <= 1:
            raise ValueError(
                f"average must be from 0 to below 1 and share from 0 to 1, got {self.average} and {self.share}"
            )


@dataclass(frozen=True)
class AlignedRecipe:
    """The resolved recipe of an aligned-pair network, which begins with the weights of `start`: of the `RELEASED` one,
    or of the checkpoint of another run.
    """

    aligned: Origins
    learning: Budget = field(default_factory=Budget)
    name: str = "aligned"
    start: str = ""
    seed: int = 1
    threads: int = 2

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise ValueError(f"the network is trained by 1 thread at least, got {self.threads}")
        if self.start not in ("", RELEASED) and not (Path(self.start) / WEIGHTS).is_file():
            raise ValueError(
                f"start = {self.start!r} is neither {RELEASED!r}, the released network, nor the folder of a "
                f"checkpoint, which has {WEIGHTS}"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe resolved, every default written out."""
        return asdict(self)


def aligned_recipe_from(values: Mapping[str, Any]) -> AlignedRecipe:
    """Build a recipe from parsed TOML. Raises ValueError for an unknown or unfit value."""
    known = known_settings(AlignedRecipe, values, "a recipe with [aligned]")
    origins = known_settings(Origins, known[ALIGNED], ALIGNED)
    origins["archives"] = tuple(origins.get("archives", ()))
    known[ALIGNED] = Origins(**origins)
    known["learning"] = Budget(**known_settings(Budget, known.get("learning", {}), "learning"))
    return AlignedRecipe(**known)
