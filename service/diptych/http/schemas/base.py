"""The base of all that a request may say: an unknown key is refused, with the key that was probably meant, and so is a
value of another type than the document says.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, PrivateAttr, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError


class Strict(BaseModel):
    """A pydantic model that takes no unknown key, and types as JSON has them: 0 is neither false nor "0"."""

    model_config = ConfigDict(extra="forbid", strict=True)
    _sent: frozenset[str] = PrivateAttr(frozenset())

    def note_keys(self, sent: Iterable[str]) -> None:
        """Remember the keys that the request had, for `key_of`."""
        self._sent = frozenset(sent)

    def key_of(self, field: str) -> str:
        """The key under which the request brought a field: one of its names."""
        return next(iter(names_of(field, type(self).model_fields[field]) & self._sent), field)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        known = _keys(cls)
        for key in value:
            if key not in known:
                name = str(key)[:64]  # comparing takes time by its length
                # Of the close ones that which begins alike: "query" is as near to "user" as to "queries".
                close = [one for one in difflib.get_close_matches(name, known) if one[:1] == name[:1]]
                meant = max(close, key=lambda known: _alike_from_the_start(known, name), default=None)
                hint = f'did you mean "{meant}"?' if meant else f"known are {', '.join(sorted(known))}"
                # JSON can carry half a surrogate pair, which the answer in UTF-8 cannot.
                said = {"key": name.encode("utf-8", "replace").decode(), "hint": hint}
                raise PydanticCustomError("unknown_key", 'unknown key "{key}"; {hint}', said)
            if isinstance(value[key], str) and not _is_unicode(value[key]):
                said = {"key": key}
                raise PydanticCustomError("not_unicode", "{key} has half of a surrogate pair, which is no text", said)
        return value


def names_of(name: str, field: FieldInfo) -> set[str]:
    """The keys under which a request may bring a field."""
    alias = field.validation_alias
    return {str(choice) for choice in alias.choices} if isinstance(alias, AliasChoices) else {name}


@cache
def _keys(model: type[BaseModel]) -> set[str]:
    return {key for name, field in model.model_fields.items() for key in names_of(name, field)}


def _alike_from_the_start(a: str, b: str) -> int:
    return next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _is_unicode(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False
