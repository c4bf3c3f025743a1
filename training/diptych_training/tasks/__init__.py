"""The tasks a network is trained on: how the pairs of each are made, and how each is measured.

A task is settings (`Task`, from [[tasks]] of a recipe) that open a source of steps (`OpenTask`).
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from diptych_model.settings import known_settings
from diptych_training.tasks.articles import Catalogue, Instance
from diptych_training.tasks.character import Character
from diptych_training.tasks.copy import Copy
from diptych_training.tasks.labelled import Classes, Pairs
from diptych_training.tasks.rendered import Rendered
from diptych_training.tasks.task import Embed, OpenTask, Part, Source, Task

TASKS: dict[str, type[Task]] = {
    "copy": Copy,
    "catalogue": Catalogue,
    "instance": Instance,
    "character": Character,
    "classes": Classes,
    "pairs": Pairs,
    "rendered": Rendered,
}

__all__ = ["TASKS", "Embed", "OpenTask", "Part", "Source", "Task", "task_from"]


def task_from(values: Mapping[str, Any]) -> Task:
    """Read `{"kind": ..., settings}`, as under [[tasks]] of a recipe; unknown kinds and settings are refused."""
    kind = str(values.get("kind", ""))
    if kind not in TASKS:
        near = get_close_matches(kind, TASKS, 1)
        raise ValueError(
            f"there is no task {kind!r}"
            + (f"; did you mean {near[0]!r}?" if near else f": kind is one of {', '.join(TASKS)}")
        )
    cls = TASKS[kind]
    known = known_settings(cls, {k: v for k, v in values.items() if k != "kind"}, f"the task {kind!r}")
    if "archives" in known:
        known["archives"] = tuple(known["archives"])
    return cls(**known)
