"""Pictures as requests name them, and their way to bytes.

A picture is a data URI, bare base64, an OpenAI content part, `{"image": ...}` or `{"id": ...}` of a stored one, or a
file of a form; a web address only where the service is set to fetch any. No file is opened because a request says so.
"""

from __future__ import annotations

import base64
import difflib
import re
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    InstanceOf,
    PrivateAttr,
    Tag,
    ValidationInfo,
    model_validator,
)
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from diptych.errors import RemoteError
from diptych.http.middleware.errors import RequestError

Fetch = Callable[[str], bytes]

# Formats of our own in the document: a string alone would promise that any is a picture, and any id a stored one's.
IMAGE: JsonDict = {"format": "image"}
IMAGE_ID: JsonDict = {"format": "image-id"}

_EXPECTED = (
    'expected a picture: a data URI, base64, {"type": "image_url", "image_url": {"url": "data:..."}}, '
    '{"image": "data:..."} or {"id": "..."} of a stored one'
)
_SURROGATE = re.compile("[\ud800-\udfff]")


class BodyContext(NamedTuple):
    """What a validation has to know of its body: the pictures that a list may have, and whether it is a form."""

    pictures: int
    is_form: bool


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
    def _check_keys(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        known = known_keys(cls)
        for key, said in value.items():
            if key not in known:
                name = str(key)[:64]  # comparing takes time by its length
                # "query" is as near to "user" as to "queries", and means the one that begins alike.
                close = [one for one in difflib.get_close_matches(name, known) if one[:1] == name[:1]]
                hint = f'did you mean "{close[0]}"?' if close else f"known are {', '.join(sorted(known))}"
                # JSON can carry half a surrogate pair, which the answer in UTF-8 cannot.
                words = {"key": name.encode("utf-8", "replace").decode(), "hint": hint}
                raise PydanticCustomError("unknown_key", 'unknown key "{key}"; {hint}', words)
            if isinstance(said, str) and not said.isascii() and _SURROGATE.search(said):
                message = "{key} has half of a surrogate pair, which is no text"
                raise PydanticCustomError("not_unicode", message, {"key": key})
        return value


def names_of(name: str, field: FieldInfo) -> set[str]:
    """The keys under which a request may bring a field."""
    alias = field.validation_alias
    return {str(choice) for choice in alias.choices} if isinstance(alias, AliasChoices) else {name}


@cache
def known_keys(model: type[BaseModel]) -> set[str]:
    """The keys that a request of a model may bring."""
    return {key for name, field in model.model_fields.items() for key in names_of(name, field)}


class Upload:
    """A file of a form. (A plain class, which pydantic does not describe in the document.)"""

    def __init__(self, filename: str, data: bytes) -> None:
        self.filename, self.data = filename, data


def is_missing(value: object) -> bool:
    """True for a field that a request has not, which an answer then leaves out too (`exclude_if`)."""
    return value is None


class ImageUrl(Strict):
    """The inside of an OpenAI content part."""

    url: str = Field(description="A data URI (`data:image/jpeg;base64,...`) or bare base64.", json_schema_extra=IMAGE)
    detail: str | None = Field(None, exclude_if=is_missing, description="Taken for compatibility and ignored.")


class ImagePart(Strict):
    """An OpenAI content part."""

    type: Literal["image_url"]
    image_url: Annotated[
        ImageUrl,
        BeforeValidator(
            lambda value: {"url": value} if isinstance(value, str) else value,
            json_schema_input_type=ImageUrl | Annotated[str, Field(json_schema_extra=IMAGE)],
        ),
    ]


class InlineImage(Strict):
    """A picture in Jina's form."""

    image: str = Field(description="A data URI or bare base64.", json_schema_extra=IMAGE)


class StoredImage(Strict):
    """A picture of the collection."""

    id: str = Field(description="As answered by /v1/images and /v1/search.", json_schema_extra=IMAGE_ID)


class Content(Strict):
    """One content part in vLLM's form."""

    content: list[ImagePart] = Field(min_length=1, max_length=1)


class Contents(Strict):
    """Content parts in vLLM's form, each of them a picture."""

    content: list[ImagePart] = Field(min_length=1, fail_fast=True)


_KEYS = {"image_url": "@part", "type": "@part", "image": "@inline", "id": "@stored", "content": "@content"}
_MODELS = {
    **{str: "@text", list: "@many", Upload: "@file", ImagePart: "@part", InlineImage: "@inline"},
    **{StoredImage: "@stored", Content: "@content", Contents: "@content"},
}


def _find_tag(value: Any) -> str | None:
    if isinstance(value, dict):
        return next((tag for key, tag in _KEYS.items() if key in value), None)
    return _MODELS.get(type(value))


def _take_file(value: Any, info: ValidationInfo) -> Any:
    """The one file of a form, where files come in lists."""
    if info.context is None or not info.context.is_form or not isinstance(value, list):
        return value
    if len(value) != 1:
        raise PydanticCustomError("several_files", "expected one file, got {count}", {"count": len(value)})
    return value[0]


def _check_list(value: Any, info: ValidationInfo) -> Any:
    """A value that may be a list of pictures, unless it has more than are allowed: then none of them is read."""
    inside = value.get("content") if isinstance(value, dict) else value
    if isinstance(inside, list) and info.context is not None:
        check_count(len(inside), str(info.field_name), info.context.pictures)
    return value


_one_of = partial(Discriminator, _find_tag, custom_error_type="not_a_picture", custom_error_message=_EXPECTED)
_Alone = (
    Annotated[str, Field(json_schema_extra=IMAGE), Tag("@text")]
    | Annotated[ImagePart, Tag("@part")]
    | Annotated[InlineImage, Tag("@inline")]
    | Annotated[StoredImage, Tag("@stored")]
    | Annotated[SkipJsonSchema[InstanceOf[Upload]], Tag("@file")]
)
Picture = Annotated[_Alone | Annotated[Content, Tag("@content")], _one_of(), BeforeValidator(_take_file)]
Pictures = Annotated[
    Annotated[list[Picture], Field(min_length=1, fail_fast=True), Tag("@many")]
    | _Alone
    | Annotated[Contents, Tag("@content")],
    _one_of(),
    BeforeValidator(_check_list),
]


PicturePair = Annotated[list[Picture], Field(min_length=2, max_length=2, fail_fast=True)]


def list_pictures(value: Pictures | Picture, field: str, limit: int) -> list[tuple[str, Picture]]:
    """The pictures of a field with their positions: [("documents[0]", ...), ...]; 422 for more than `limit`."""
    found: list[tuple[str, Picture]]
    if isinstance(value, list):
        found = [(f"{field}[{index}]", picture) for index, picture in enumerate(value)]
    elif isinstance(value, Content | Contents):
        found = [(f"{field}.content[{index}]", part) for index, part in enumerate(value.content)]
    else:
        found = [(field, value)]
    check_count(len(found), field, limit)
    return found


def check_count(count: int, field: str, limit: int) -> None:
    """Refuse more pictures than one request may bring."""
    if count > limit:
        message = f"{field} has {count} pictures; at most {limit} fit in one request. Split it into several."
        raise RequestError(422, "too_many_pictures", message, param=field)


def resolve_picture(picture: Picture, position: str, fetch: Fetch | None = None) -> tuple[str, bytes | str]:
    """(position, bytes) of a picture sent along or fetched, or (position, id) of a stored one."""
    if isinstance(picture, Content):
        return resolve_picture(picture.content[0], f"{position}.content[0]", fetch)
    if isinstance(picture, Upload):
        return position, picture.data
    if isinstance(picture, StoredImage):
        return position, picture.id
    if isinstance(picture, ImagePart):
        return position, decode_text(picture.image_url.url, position, fetch)
    return position, decode_text(picture if isinstance(picture, str) else picture.image, position, fetch)


def decode_text(text: str, position: str, fetch: Fetch | None = None) -> bytes:
    """The bytes of a data URI or of bare base64, or those that `fetch` finds behind a web address.

    422 for anything else, by name for addresses and paths.
    """
    head = text[:64].lstrip().lower()
    # Base64 may begin with "//" too, but has no dot in it.
    if head.startswith(("http://", "https://", "ftp://")) or (head.startswith("//") and "." in head):
        if fetch is None:
            message = f"{position}: no web addresses are fetched here (DIPTYCH_URLS); send the picture as a data URI."
            raise RequestError(422, "remote_url_refused", message, param=position)
        try:
            return fetch(text.strip())
        except RemoteError as error:
            raise RequestError(422, error.code, f"{position}: {error}", param=position) from None
    if head.startswith("file:"):
        message = f"{position}: file: addresses are not opened; send the picture as a data URI."
        raise RequestError(422, "file_url_refused", message, param=position)
    header, comma, payload = text.strip().rpartition(",")
    try:
        if comma and not re.fullmatch(r"data:[^,]*;base64", header, re.IGNORECASE):
            raise ValueError(f"it begins with {header[:32]!r}")
        return base64.b64decode(payload, validate=True)
    except ValueError as error:  # also of base64
        message = f'{position}: expected "data:image/...;base64,..." or base64; {error}.'
        raise RequestError(422, "invalid_picture", message, param=position) from None
