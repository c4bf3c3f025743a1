"""A training recipe: TOML in, one frozen and checked value out."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any, Self, TypeVar, get_origin, get_type_hints

from diptych_model.checkpoint import read_description
from diptych_model.config import PairConfig
from diptych_model.settings import known_settings
from diptych_runtime.manifest import check_name
from diptych_runtime.models import bundled_models, find_checkpoint
from diptych_runtime.parsing import parse_toml
from diptych_training.errors import DataError
from diptych_training.tasks import TASKS, Task, task_from

Built = TypeVar("Built")
# The modules that train each kind of network, by the table that a recipe of it has; any other is of a pair network.
TRAININGS = {"losses": "diptych_training.losses.training"}
PAIR_TRAINING = "diptych_training.learning.run"
TEACHERS = ("pair", "matches")
IMAGENET = "imagenet"  # what a recipe may start from: weights that have seen it


@dataclass(frozen=True, kw_only=True)
class RunRecipe:
    """The settings that the recipes of all kinds of network have."""

    name: str = "model"
    seed: int = 0
    threads: int = 2

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise ValueError(f"a network is trained by threads of 1 at least, got {self.threads}")

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe resolved, every default written out."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Build a recipe from parsed TOML, or from the output of `to_dict`."""
        return settings_from(cls, values, "a recipe")


@dataclass(frozen=True)
class Stage:
    """So many steps at one panel size: small panels first, for attention costs the square of the tokens.

    Every task draws `fill` times its queries; every query is paired with its match and with `negatives` others, the
    nearest by embedding but for `easy` random ones. Without `relate` the panel part learns alone, by the contrast of
    its embedding: far cheaper, and it gives attention something to find. With `frozen` the stem stays as it is, which
    saves two thirds of what it costs. With `only` one question learns, and of the network what is that question's alone
    (`question_weights`): the other question's answers stay nearly as they are.
    """

    pixels: int
    steps: int
    fill: float = 1.0
    negatives: int = 7
    easy: int = 2
    relate: bool = True
    frozen: bool = False
    only: str = ""

    def __post_init__(self) -> None:
        if min(self.pixels, self.steps, self.fill) <= 0 or not 0 <= self.easy <= self.negatives or self.negatives < 1:
            raise ValueError(
                "a stage needs pixels, steps and fill above 0, negatives of 1 at least and easy <= negatives, "
                f"got {self}"
            )


@dataclass(frozen=True)
class Learning:
    """AdamW with warm-up and a cosine schedule; `rate` is the peak.

    `average` is the decay of the running average of the weights, `temperature` divides the cosines of the embedding,
    `threshold` weighs the log-loss of pairs beside their listwise contrast, `level` the contrast of matches with the
    pairs of all queries, `entropy` how evenly embeddings are to lie, `distil` the divergence of the embedding from its
    `teacher`, which is the *pair* scorer, or what the best *matches* of the tokens say (late interaction), or another
    network, a released model or a checkpoint, from which the pair scorer learns as well; `link` the contrast of tokens
    of which it is known that they show the same place, `retain` the divergence from how alike photos were to the
    encoder before it was fine-tuned. `chunk` pairs are related at a time (memory and speed, not result); 0 leaves it to
    the device. `bfloat16` has products and convolutions computed in it on a device that has instructions for it; on
    others, and without it, they are in float32.
    """

    rate: float = 1.5e-3
    decay: float = 0.05
    warmup: int = 100
    clip: float = 1.0
    average: float = 0.998
    temperature: float = 0.06
    threshold: float = 0.5
    level: float = 0.0
    entropy: float = 0.0
    distil: float = 0.5
    teacher: str = "pair"
    link: float = 0.0
    retain: float = 0.0
    chunk: int = 0
    bfloat16: bool = True

    def __post_init__(self) -> None:
        if self.rate <= 0 or self.temperature <= 0 or self.clip <= 0 or self.warmup < 1 or not 0 <= self.average < 1:
            raise ValueError(
                "learning needs rate, temperature and clip above 0, warmup of 1 at least and average in [0, 1), "
                f"got {self}"
            )
        if self.teacher not in TEACHERS:
            try:
                start_of(self.teacher)
            except (ValueError, TypeError) as error:
                raise ValueError(
                    f"learning.teacher must be one of {', '.join(TEACHERS)}, or a model: {error}"
                ) from None


@dataclass(frozen=True, kw_only=True)
class Recipe(RunRecipe):
    """Everything that the run of a pair network depends on but the data and the machine.

    `start` names a released model or a checkpoint whose weights the run begins with, and whose network it has but for
    what [network] says otherwise; another trunk begins anew, on what fits of the checkpoint's panel part, and one with
    another seam on what fits of its trunk too. *imagenet* are the weights of the encoder's own package (`pretrained`).
    """

    stages: tuple[Stage, ...]
    tasks: tuple[Task, ...]
    network: PairConfig = field(default_factory=PairConfig)
    learning: Learning = field(default_factory=Learning)
    start: str = ""
    validate_every: int = 250
    checkpoint_every: int = 100
    mine_every: int = 250

    def __post_init__(self) -> None:
        network, learning, questions = self.network, self.learning, self.network.questions
        for stage in self.stages:
            divisor = network.encoder.divisor
            if stage.pixels > network.pixels or stage.pixels % divisor:
                raise ValueError(
                    f"a stage's panels must be of {network.pixels} pixels, the network's, or a smaller multiple of "
                    f"{divisor}; got {stage.pixels}"
                )
            if stage.only and (stage.only not in questions or network.parts == 1):
                raise ValueError(
                    f"a stage's only must be one of the questions {', '.join(questions)}, each with its part of the "
                    f"embedding; got {stage.only!r} and parts = {network.parts}"
                )
        has_tokens = network.seam != "pixels" and network.relation != "siamese"
        if not has_tokens and (learning.link or learning.teacher == "matches"):
            raise ValueError(
                "with seam = 'pixels' or relation = 'siamese' there are no tokens to match or to link: set "
                "learning.link = 0 and learning.teacher = 'pair'"
            )
        counts = (self.validate_every, self.checkpoint_every, self.mine_every, self.threads)
        if min(counts) < 1 or sum(task.weight for task in self.tasks) <= 0:
            raise ValueError(
                "a recipe needs validate_every, checkpoint_every, mine_every and threads of 1 at least, "
                "and a task whose weight is above 0"
            )
        if self.stages[-1].pixels != network.pixels:
            raise ValueError(
                f"the last stage must have the network's panels of {network.pixels} pixels, "
                f"got {self.stages[-1].pixels}: only there is a checkpoint chosen"
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Build a recipe from parsed TOML, or from the output of `to_dict`; a start brings its own network."""
        known = known_settings(cls, values, "a recipe")
        if not known.get("stages"):
            raise ValueError("a recipe needs at least one [[stages]] with pixels and steps")
        if not known.get("tasks"):
            raise ValueError(f"a recipe needs at least one [[tasks]] with its kind: {', '.join(TASKS)}")
        known["stages"] = tuple(settings_from(Stage, stage, "a stage") for stage in known["stages"])
        known["tasks"] = tuple(task_from(task) for task in known["tasks"])
        started = known.get("start") not in (None, "", IMAGENET)
        begun = PairConfig.from_dict(read_description(start_of(known["start"]))["network"]).to_dict() if started else {}
        network = dict(known.get("network", {}))
        if begun and isinstance(network.get("encoder"), Mapping):
            network["encoder"] = begun["encoder"] | network["encoder"]
        known["network"] = PairConfig.from_dict(begun | network)
        known["learning"] = settings_from(Learning, known.get("learning", {}), "learning")
        return cls(**known)

    @property
    def steps(self) -> int:
        """Steps of all stages together."""
        return sum(stage.steps for stage in self.stages)

    def stage_ends(self) -> list[tuple[Stage, int]]:
        """Return each stage with the step at which it ends."""
        ends = accumulate(stage.steps for stage in self.stages)
        return list(zip(self.stages, ends, strict=True))


recipe_from = Recipe.from_dict


def settings_from(cls: type[Built], values: Any, what: str) -> Built:
    """Build a frozen dataclass of settings from parsed TOML, the tables and lists in it included.

    Raises ValueError for what is unknown, missing or unfit; a field says by its metadata `needs` what is missing.
    """
    known, types = known_settings(cls, values, what), get_type_hints(cls)
    for one in fields(cls):  # type: ignore[arg-type]
        kind = types[one.name]
        if one.name not in known and one.default is MISSING and one.default_factory is MISSING:
            raise ValueError(f"[{what}] needs {one.name}{one.metadata.get('needs', '')}")
        if one.name in known and hasattr(kind, "from_dict"):
            known[one.name] = kind.from_dict(known[one.name])
        elif one.name in known and isinstance(kind, type) and is_dataclass(kind):
            known[one.name] = settings_from(kind, known[one.name], one.name)
        elif one.name in known and get_origin(kind) is tuple:
            known[one.name] = tuple(known[one.name])
    return cls(**known)


def open_training(path: Path, changes: Sequence[str], more: Mapping[str, str]) -> tuple[ModuleType, Any]:
    """Read a recipe of any kind: the module that trains such a network (of `TRAININGS` or `more`), and the recipe.

    The module has `train(recipe, directory, resume=..., quiet=...)` and `report(found, directory)`.
    """

    def build(values: Mapping[str, Any]) -> tuple[ModuleType, Any]:
        if "classifier" in values:
            raise ValueError("a classifier is trained by `diptych study classifier`")
        if "labels" in values:
            raise ValueError("labels are fitted by `diptych calibrate`; the task 'pairs' learns from a table of them")
        module = next((module for table, module in {**TRAININGS, **more}.items() if table in values), PAIR_TRAINING)
        training = import_module(module)
        return training, training.recipe_from(values)

    return build_recipe(path, changes, build)


def build_recipe(path: Path, changes: Sequence[str], build: Callable[[Mapping[str, Any]], Built]) -> Built:
    """Build a value from the settings of a TOML file, with changes.

    Raises `DataError` with the file's name for a missing file, and for settings that are missing, unknown or unfit.
    """
    try:
        values = parse_toml(path.read_text())
        for change in changes:
            values = _merge_change(values, _parse_change(change), change)
        check_name(str(values.get("name", "model")))  # of a folder, too
        return build(values)
    except FileNotFoundError:
        raise DataError(f"no recipe at {path}; training/recipes/ has examples") from None
    except (ValueError, TypeError, DataError) as error:
        raise DataError(f"{path}: {error}") from None


def start_of(start: str) -> Path:
    """The checkpoint that `start` names: a released model's, an artifact's that has one, or a directory."""
    found = find_checkpoint(start)
    if not found.is_dir():
        raise ValueError(
            f"start = {start!r} is neither a released model ({', '.join(bundled_models())}) nor a checkpoint directory"
        )
    return found


def _parse_change(change: str) -> dict[str, Any]:
    """Parse KEY=VALUE as TOML reads it, dotted keys included.

    A value that is no TOML is a word.
    """
    key, equals, value = change.partition("=")
    for written in (value, json.dumps(value)):
        with suppress(ValueError):
            if equals:
                return parse_toml(f"{key} = {written}")
    raise ValueError(f"a change is KEY=VALUE, such as learning.rate=1e-3; got {change!r}")


def _merge_change(values: Any, changed: Any, change: str) -> Any:
    if not isinstance(changed, dict):
        return changed
    if isinstance(values, list):
        if unknown := [key for key in changed if not key.isdigit() or int(key) >= len(values)]:
            raise ValueError(f"{change!r}: there is no {unknown[0]!r} in a list of {len(values)}, which counts from 0")
        return [_merge_change(value, changed.get(str(i), value), change) for i, value in enumerate(values)]
    known = values if isinstance(values, dict) else {}
    return known | {key: _merge_change(known.get(key), value, change) for key, value in changed.items()}
