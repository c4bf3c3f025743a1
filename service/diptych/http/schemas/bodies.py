"""Bodies that come as JSON or as a form with files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, RootModel, ValidationError
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

from diptych.collection.ingest import METADATA_BYTES
from diptych.http.middleware.errors import RequestError
from diptych.http.request_pool import RequestPool
from diptych.http.schemas.base import Strict, names_of
from diptych.http.schemas.images import PICTURES, Upload
from diptych_runtime.parsing import parse_json

JsonModel = TypeVar("JsonModel", bound=BaseModel)
FormModel = TypeVar("FormModel", bound=BaseModel)

_JSON, _FORM = "application/json", "multipart/form-data"
# Lists, objects and commas that a picture may come with; 8 is the most that any of its forms has.
_MARKS = 16
# A text of so many bytes and marks is read in less than the two milliseconds that another thread would be waited for.
_SHORT, _FEW = 2**20, 1000

logger = logging.getLogger(__name__)


async def require_json(request: Request) -> None:
    """Refuse a body that is not declared to be JSON; 415."""
    _declared(request, _JSON)


async def read_body(
    request: Request, from_json: type[JsonModel], from_form: type[FormModel], pictures: int, parsing: RequestPool
) -> JsonModel | FormModel:
    """The checked body: a `from_json`, or a `from_form` of the fields and at most `pictures` files of a form.

    What a form must have are its files. What takes long to check is, where `parsing` has a thread for it.
    """
    if _declared(request, _JSON, _FORM) == _JSON:
        return await read_json(request, from_json, pictures, parsing)
    fields = await _form(request, from_form, pictures)
    text = "".join(value for value in fields.values() if isinstance(value, str)).encode()
    return await _aside(partial(_checked_form, from_form, fields, text, pictures), text, request, parsing)


async def read_json(request: Request, model: type[JsonModel], pictures: int, parsing: RequestPool) -> JsonModel:
    """The checked body of a request that brings JSON, with at most `pictures` pictures in a list."""
    body = await request.body()
    return await _aside(partial(_checked_json, model, body, pictures), body, request, parsing)


async def _aside(check: Callable[[], JsonModel], text: bytes, request: Request, parsing: RequestPool) -> JsonModel:
    """The result of a check of this text, made in a thread unless the text is short."""
    if len(text) <= _SHORT and _marks(text) <= _FEW:
        return check()
    return await parsing.run(check, request)


async def _form(request: Request, model: type[BaseModel], files: int) -> dict[str, str | list[Upload]]:
    """The text and the files of a form, as they came."""
    pictures = {name: names_of(name, field) for name, field in model.model_fields.items() if field.is_required()}
    fields: dict[str, str | list[Upload]] = {}
    try:
        async with request.form(max_files=files, max_fields=16) as form:
            for key, value in form.multi_items():
                if isinstance(value, str):
                    fields[key] = value
                    continue
                if key not in chain(*pictures.values()):
                    raise _misnamed(pictures, next(iter(pictures)), f'one is called "{key}"')
                uploads = fields.setdefault(key, [])
                if isinstance(uploads, list):
                    uploads.append(Upload(value.filename or "", await value.read()))
    except HTTPException as error:
        if not error.detail.startswith("Too many files"):
            raise
        message = f"Too many files: at most {files} fit in this form. Split it into several."
        raise RequestError(422, "too_many_pictures", message) from None
    except OSError as error:  # of the file that a part of more than a megabyte is kept in
        logger.error("an upload cannot be kept in the folder for temporary files (TMPDIR): %s", error)
        message = f"The service has no room for this upload: {error.strerror}. Try again later, or send JSON."
        raise RequestError(503, "no_room", message, headers={"Retry-After": "30"}) from None
    for name, names in pictures.items():
        if not names & set(fields):
            raise _misnamed(pictures, name, f'none is called "{name}"')
    return fields


def body_schema(from_json: type[BaseModel], from_form: type[BaseModel]) -> dict[str, object]:
    """The `openapi_extra` of a route that uses `read_body`."""
    _, found = models_json_schema([(from_form, "validation")])
    written, required = found["$defs"][from_form.__name__], found["$defs"][from_form.__name__]["required"]
    first = sorted(written["properties"], key=lambda name: name not in required)
    form = {
        "type": "object",
        "properties": {name: _named(written["properties"][name]) for name in first},
        "required": required,
        "additionalProperties": False,
    }
    return _body({_JSON: {"schema": _reference(from_json)}, _FORM: {"schema": form}})


def json_schema(model: type[BaseModel]) -> dict[str, object]:
    """The `openapi_extra` of a route that uses `read_json`."""
    return _body({_JSON: {"schema": _reference(model)}})


def _body(content: dict[str, object]) -> dict[str, object]:
    return {"requestBody": {"required": True, "content": content}}


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _named(field: dict[str, Any]) -> dict[str, Any]:
    """The schema of a field that is in a form, where objects are JSON: what is null, a form leaves out."""
    kinds = [kind for kind in field.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return field
    kind = kinds[0].get("contentSchema", kinds[0])
    return {**{key: value for key, value in field.items() if key not in ("anyOf", "default")}, **kind}


def _misnamed(pictures: Iterable[str], param: str, came: str) -> RequestError:
    message = f"A form brings its pictures as files called {' and '.join(pictures)}; {came}."
    return RequestError(422, "invalid_request", message, param=param)


def _declared(request: Request, *expected: str) -> str:
    if "collection" in request.query_params:
        # It would be passed over, and another collection be changed or searched than was meant.
        message = "A request with a body names its collection in the body, not in the address."
        raise RequestError(422, "invalid_request", message, param="collection")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in expected:
        came = f'"{kind}"' if kind else "no Content-Type"
        raise RequestError(415, "unsupported_media_type", f"Expected {' or '.join(expected)}, got {came}.")
    return kind


def _checked_json(model: type[JsonModel], body: bytes, pictures: int) -> JsonModel:
    _check_marks(body, pictures)
    try:
        value = parse_json(body)
    except ValueError as error:  # also a number that Python refuses to read
        raise RequestError(400, "invalid_json", f"The body is not JSON: {error}.") from None
    return _checked(model, value, pictures)


def _checked_form(
    model: type[FormModel], fields: dict[str, str | list[Upload]], text: bytes, pictures: int
) -> FormModel:
    _check_marks(text, pictures)
    return _checked(model, fields, pictures)


def _marks(text: bytes) -> int:
    """The number of values that JSON has at most, and of escapes beyond those of base64."""
    # PHP escapes each "/" of it, one of 64 letters.
    escapes = max(0, text.count(b"\\") - len(text) // 16)
    return sum(text.count(mark) for mark in (b",", b"[", b"{")) + escapes


def _check_marks(text: bytes, pictures: int) -> None:
    """Refuse, unread, JSON with more values than any right request has: they may take 30 times its bytes."""
    count, most = _marks(text), METADATA_BYTES + _MARKS * pictures
    if count > most:
        message = (
            f"The body has {count:,} lists, objects, commas and escapes; at most {most:,} are allowed. Send fewer "
            "pictures at once, or shorter metadata."
        )
        raise RequestError(422, "too_many_values", message)


def _checked(model: type[JsonModel], value: object, pictures: int) -> JsonModel:
    try:
        checked = model.model_validate(value, context={PICTURES: pictures})
    except ValidationError as error:
        faults = [{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors(include_url=False)]
        raise RequestValidationError(faults) from None
    whole = checked.root if isinstance(checked, RootModel) else checked
    if isinstance(whole, Strict) and isinstance(value, dict):
        whole.note_keys(value)
    return checked
