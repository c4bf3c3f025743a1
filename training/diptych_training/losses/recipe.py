"""A recipe of the network of losses: where its pictures come from, and a budget."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from diptych_model.networks.losses import WEIGHTS
from diptych_model.settings import known_settings
from diptych_training.losses.versions import FAMILIES

LOSSES_TABLE = "losses"  # the table of a recipe by which it is one of these


@dataclass(frozen=True)
class Origins:
    """Up to `photos` training photos of each of the `archives`, beside drawn documents; `without` are the families of
    edits that are left out, and `held_out` the archives on which the network is measured.
    """

    archives: tuple[str, ...]
    held_out: tuple[str, ...]
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
class Budget:
    """AdamW with warm-up and a cosine schedule, `batch` examples a step; `average` is the decay of the running average
    of the weights. Each example is drawn about `uses` times, from the last `shelf` chunks of them.
    """

    steps: int = 3000
    batch: int = 32
    rate: float = 2e-3
    warmup: int = 100
    decay: float = 0.02
    average: float = 0.99
    uses: int = 4
    shelf: int = 60
    examined: int = 1500

    def __post_init__(self) -> None:
        least = min(self.steps, self.batch, self.warmup, self.uses, self.shelf, self.examined)
        if least < 1 or self.rate <= 0 or self.decay < 0 or not 0 <= self.average < 1:
            raise ValueError(
                "steps, batch, warmup, uses, shelf, examined and rate must be positive, decay 0 or more and average "
                f"from 0 to below 1, got {asdict(self)}"
            )


@dataclass(frozen=True)
class LossesRecipe:
    """The resolved recipe of a network of losses, which begins with the weights of `start`, the checkpoint of another
    run.
    """

    losses: Origins
    learning: Budget = field(default_factory=Budget)
    name: str = "losses"
    start: str = ""
    seed: int = 1
    threads: int = 2

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise ValueError(f"the network is trained by 1 thread at least, got {self.threads}")
        if self.start and not (Path(self.start) / WEIGHTS).is_file():
            raise ValueError(f"start = {self.start!r} is not the folder of a checkpoint, which has {WEIGHTS}")

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe resolved, every default written out."""
        return asdict(self)


def losses_recipe_from(values: Mapping[str, Any]) -> LossesRecipe:
    """Build a recipe from parsed TOML. Raises ValueError for an unknown or unfit value."""
    known = known_settings(LossesRecipe, values, "a recipe with [losses]")
    origins = known_settings(Origins, known[LOSSES_TABLE], LOSSES_TABLE)
    for name in ("archives", "held_out", "without"):
        origins[name] = tuple(origins.get(name, ()))
    known[LOSSES_TABLE] = Origins(**origins)
    known["learning"] = Budget(**known_settings(Budget, known.get("learning", {}), "learning"))
    return LossesRecipe(**known)
