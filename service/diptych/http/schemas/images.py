"""Pictures as requests name them, and their way to bytes.

A picture is a data URI, bare base64, an OpenAI content part, `{"image": ...}` or `{"id": ...}` of a stored one, or a
file of a form; a web address only where the service is set to fetch any. No file is opened because a request says so.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationInfo
from pydantic.config import JsonDict

from diptych.errors import RemoteError
from diptych.http.middleware.errors import RequestError
from diptych.http.schemas.base import Strict

Fetch = Callable[[str], bytes]

PICTURES = "pictures"  # of a validation's context: how many a list of them may have

_EXPECTED = (
    'expected a picture: a data URI, base64, {"type": "image_url", "image_url": {"url": "data:..."}}, '
    '{"image": "data:..."} or {"id": "..."} of a stored one'
)


# Formats of our own in the document: a string alone would promise that any is a picture, and any id a stored one's.
IMAGE: JsonDict = {"format": "image"}
IMAGE_ID: JsonDict = {"format": "image-id"}


class Upload(NamedTuple):
    """A file of a form."""

    filename: str
    data: bytes


def missing(value: object) -> bool:
    """True for a field that a request has not, which an answer then leaves out too (`exclude_if`)."""
    return value is None


class ImageUrl(Strict):
    """The inside of an OpenAI content part."""

    url: str = Field(description="A data URI (`data:image/jpeg;base64,...`) or bare base64.", json_schema_extra=IMAGE)
    detail: str | None = Field(
        None, exclude_if=missing, description="Taken for compatibility; every picture is seen the same way."
    )


def _as_image_url(value: Any) -> Any:
    return {"url": value} if isinstance(value, str) else value


class ImagePart(Strict):
    """An OpenAI content part."""

    type: Literal["image_url"]
    image_url: Annotated[
        ImageUrl,
        BeforeValidator(
            _as_image_url, json_schema_input_type=ImageUrl | Annotated[str, Field(json_schema_extra=IMAGE)]
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


def _form(value: Any) -> str | None:
    if isinstance(value, str):
        return "@text"
    forms = {"image_url": "@part", "type": "@part", "image": "@inline", "id": "@stored", "content": "@content"}
    if isinstance(value, dict):
        return next((tag for key, tag in forms.items() if key in value), None)
    named = {ImagePart: "@part", InlineImage: "@inline", StoredImage: "@stored", Content: "@content"}
    return named.get(type(value))


def _few(value: Any, info: ValidationInfo) -> Any:
    """A value that may be a list of pictures, unless it has more than are allowed: then none of them is read."""
    inside = value.get("content") if isinstance(value, dict) else value
    if isinstance(inside, list) and info.context is not None:
        check_count(len(inside), str(info.field_name), info.context[PICTURES])
    return value


def _forms(value: Any) -> str | None:
    if isinstance(value, list):
        return "@many"
    return "@content" if isinstance(value, Contents) else _form(value)


_one_of = partial(Discriminator, custom_error_type="not_a_picture", custom_error_message=_EXPECTED)
_Alone = (
    Annotated[str, Field(json_schema_extra=IMAGE), Tag("@text")]
    | Annotated[ImagePart, Tag("@part")]
    | Annotated[InlineImage, Tag("@inline")]
    | Annotated[StoredImage, Tag("@stored")]
)
Picture = Annotated[_Alone | Annotated[Content, Tag("@content")], _one_of(_form)]
Pictures = Annotated[
    Annotated[list[Picture], Field(min_length=1, fail_fast=True), Tag("@many")]
    | _Alone
    | Annotated[Contents, Tag("@content")],
    _one_of(_forms),
    BeforeValidator(_few),
]


def listed(
    value: Pictures | Picture | Upload | list[Upload], field: str, limit: int
) -> list[tuple[str, Picture | Upload]]:
    """The pictures of a field with their positions: [("documents[0]", ...), ...]; 422 for more than `limit`."""
    found: list[tuple[str, Picture | Upload]]
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


def inline_bytes(text: str, position: str, fetch: Fetch | None = None) -> bytes:
    """The bytes of a data URI or of bare base64, or those that `fetch` finds behind a web address.

    422 for anything else, by name for addresses and paths.
    """
    head = text[:64].lstrip().lower()
    # Base64 may begin with "//" too, but has no dot in it.
    if head.startswith(("http://", "https://", "ftp://")) or (head.startswith("//") and "." in head):
        if fetch is None:
            message = (
                f"{position}: web addresses are not fetched here; download the picture and send it as a data URI. "
                "Whoever runs the service can allow addresses with DIPTYCH_URLS=1."
            )
            raise RequestError(422, "remote_url_refused", message, param=position)
        try:
            return fetch(text.strip())
        except RemoteError as error:
            raise RequestError(422, error.code, f"{position}: {error}", param=position) from None
    if head.startswith("file:"):
        message = f"{position}: file: addresses are not opened; send the picture as a data URI."
        raise RequestError(422, "file_url_refused", message, param=position)
    payload = text.strip()
    if head.startswith("data:"):
        header, comma, payload = payload.partition(",")
        if not comma or not header.lower().endswith(";base64"):
            raise _not_base64(position, 'a data URI must read "data:image/...;base64,..."')
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _not_base64(position, f"this is neither a data URI nor base64 ({error})") from None


def reference(picture: Picture | Upload, position: str, fetch: Fetch | None = None) -> tuple[str, bytes | str]:
    """(position, bytes) of a picture sent along or fetched, or (position, id) of a stored one."""
    match picture:
        case Upload():
            return position, picture.data
        case str():
            return position, inline_bytes(picture, position, fetch)
        case ImagePart():
            return position, inline_bytes(picture.image_url.url, position, fetch)
        case InlineImage():
            return position, inline_bytes(picture.image, position, fetch)
        case StoredImage():
            return position, picture.id
        case Content():
            return reference(picture.content[0], f"{position}.content[0]", fetch)


def _not_base64(position: str, reason: str) -> RequestError:
    return RequestError(422, "invalid_picture", f"{position}: {reason}.", param=position)
