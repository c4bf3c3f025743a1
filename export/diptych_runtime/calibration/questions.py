"""The names of the questions that a model answers, and the choice of one for a requested question. Cheap to import."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, get_args

from diptych_runtime.errors import ArtifactError

COPY: Final = "copy"
THING: Final = "thing"
MATCH: Final = "match"
Asked = Literal["copy", "thing"]  # that may be asked of every model
ASKED: tuple[Asked, ...] = get_args(Asked)


def upgrade_to_questions(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a manifest or checkpoint with `questions` in place of one calibration for all.

    >>> upgrade_to_questions({"calibration": {"scale": 2.0, "offset": 0.0}, "thresholds": {"0.01": 0.9}})
    {'questions': {'match': {'scale': 2.0, 'offset': 0.0, 'thresholds': {'0.01': 0.9}}}}

    Raises ValueError for a calibration that is none.
    """
    rest = {key: value for key, value in values.items() if key not in ("calibration", "thresholds")}
    if "questions" in rest:
        return rest
    calibration = values.get("calibration", {"scale": 1.0, "offset": 0.0})
    if not isinstance(calibration, Mapping) or set(calibration) != {"scale", "offset"}:
        raise ValueError(f"calibration must be a positive 'scale' and an 'offset', got {calibration}")
    return rest | {"questions": {MATCH: {**calibration, "thresholds": values.get("thresholds", {})}}}


def default_question(names: Iterable[str]) -> str:
    """The question that a model answers by default: *thing* if it knows that, else its first question."""
    names = list(names)
    return THING if THING in names else names[0]


def askable_questions(names: Iterable[str]) -> tuple[str, ...]:
    """The questions that a model accepts: its own, or every known one if it has only one."""
    names = tuple(names)
    return names if len(names) > 1 else tuple(dict.fromkeys((*ASKED, MATCH, *names)))


def resolve_question(question: str, names: Iterable[str], model: str) -> str:
    """The question of a model that answers the requested one: the same, or its only one.

    Raises ArtifactError for a question that the model does not answer.
    """
    names, known = tuple(names), askable_questions(names)
    if question not in known:
        raise ArtifactError(f"the model {model!r} answers the questions {', '.join(known)}; got {question!r}")
    return question if question in names else names[0]
