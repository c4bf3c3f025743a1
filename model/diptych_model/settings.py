"""Settings that come from a file: what is unknown is refused with a suggestion."""

import math
from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, TypeVar, get_type_hints

Kind = TypeVar("Kind")
# How a simple type is called, and what of a file is one.
_SIMPLE: Mapping[Any, tuple[str, tuple[type, ...]]] = {
    int: ("a whole number", (int,)),
    float: ("a finite number", (int, float)),
    bool: ("true or false", (bool,)),
    str: ("a text", (str,)),
}


def known_settings(cls: type, values: Any, what: str) -> dict[str, Any]:
    """Return the values as a dict if they are a mapping of fields of the dataclass; refuse an unknown one with a
    suggestion, and a number, text or truth value that is of another type.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"{what} is a table of settings, got {values!r}")
    names = [field.name for field in fields(cls) if field.init]
    types = get_type_hints(cls)
    for key, value in values.items():
        if key not in names:
            near = get_close_matches(key, names, 1)
            raise ValueError(
                f"{what} has no setting {key!r}" + (f"; did you mean {near[0]!r}?" if near else f": {names}")
            )
        named, kinds = _SIMPLE.get(types[key], ("", (object,)))
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{key} of {what} is {named or 'a finite number'}, got {value}")
        if not isinstance(value, kinds) or (isinstance(value, bool) and types[key] in (int, float)):
            raise ValueError(f"{key} of {what} is {named}, got {value!r}")
    return dict(values)


def chosen_kind(
    registry: Mapping[str, type[Kind]], values: Any, what: str, default: str
) -> tuple[type[Kind], dict[str, Any]]:
    """Read `{"kind": ..., settings}`: the registered class of that kind and its settings; an unknown kind or setting is
    refused with a suggestion.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"the {what} is a table of settings, with its kind: {', '.join(registry)}; got {values!r}")
    kind = values.get("kind", default)
    if kind not in registry:
        near = get_close_matches(str(kind), registry, 1)
        raise ValueError(
            f"there is no {what} {kind!r}" + (f"; did you mean {near[0]!r}?" if near else f": {', '.join(registry)}")
        )
    cls = registry[kind]
    return cls, known_settings(cls, {k: v for k, v in values.items() if k != "kind"}, f"the {what} {kind!r}")
