"""A recipe of a classifier: pictures by class, a network with a mixer for each stage, and a budget."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from diptych_model.networks.classifier import ClassifierConfig
from diptych_model.settings import known_settings
from diptych_training.classifiers.training import Budget

CLASSIFIER = "classifier"  # the table of a recipe by which it is one of these


@dataclass(frozen=True)
class ClassFolder:
    """`pictures` is a folder with a folder for each class, or a CSV with the columns path and class, whose paths count
    from `root`, or from the CSV's own folder. A fifth of each class is held out.
    """

    pictures: str
    root: str = ""


@dataclass(frozen=True)
class ClassifierRecipe:
    """The resolved recipe of a classifier."""

    classifier: ClassFolder
    network: ClassifierConfig = field(default_factory=ClassifierConfig)
    learning: Budget = field(default_factory=Budget)
    name: str = "classifier"
    seed: int = 0
    threads: int = 2

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise ValueError(f"a classifier is trained by 1 thread at least, got {self.threads}")

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe resolved, every default written out."""
        return asdict(self) | {"network": self.network.to_dict()}


def classifier_recipe_from(values: Mapping[str, Any]) -> ClassifierRecipe:
    """Build a recipe from parsed TOML. Raises ValueError for an unknown or unfit value."""
    known = known_settings(ClassifierRecipe, values, "a recipe with [classifier]")
    pictures = known_settings(ClassFolder, known[CLASSIFIER], CLASSIFIER)
    if "pictures" not in pictures:
        raise ValueError("[classifier] needs pictures: a folder with a folder for each class, or a CSV")
    known[CLASSIFIER] = ClassFolder(**pictures)
    known["network"] = ClassifierConfig.from_dict(known.get("network", {}))
    known["learning"] = Budget(**known_settings(Budget, known.get("learning", {}), "learning"))
    return ClassifierRecipe(**known)
