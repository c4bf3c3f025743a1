"""Bodies that come as JSON or as a form with files, and how the OpenAPI document describes them."""

from __future__ import annotations

import logging
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

from diptych.collection.ingest import METADATA_BYTES
from diptych.http.middleware.errors import RequestError
from diptych.http.request_pool import RequestPool
from diptych.http.schemas.pictures import BodyContext, Strict, Upload, known_keys, names_of
from diptych_runtime.parsing import parse_json

Model = TypeVar("Model", bound=Strict)

REFERENCE = "#/components/schemas/{model}"
_JSON, _FORM = "application/json", "multipart/form-data"
_FILE = {"type": "string", "format": "binary"}
# Lists, objects and commas that a picture may come with; 8 is the most that any of its forms has.
_MARKS = 16
# A text of so many bytes and marks is read in less than the two milliseconds that another thread would be waited for.
_SHORT, _FEW = 2**20, 1000

logger = logging.getLogger(__name__)


async def read_body(
    request: Request, model: type[Model], parsing: RequestPool, *, form: bool = False, pictures: int = 0
) -> Model:
    """The checked body: JSON, or the fields and files of a `form`, where one is taken.

    Lists of it may have so many `pictures`. What takes long to check is, where `parsing` has a thread for it.
    """
    if _read_media_type(request, takes_form=form) == _FORM:
        fields = await _read_form(request, model, pictures)
        text = "".join(value for value in fields.values() if isinstance(value, str)).encode()
        check = partial(_validate_body, model, text, BodyContext(pictures, is_form=True), fields)
    else:
        text = await request.body()
        check = partial(_validate_body, model, text, BodyContext(pictures, is_form=False))
    if len(text) <= _SHORT and _count_marks(text) <= _FEW:
        return check()
    return await parsing.run(check, request)


def describe_body(model: type[BaseModel], *, form: bool = False) -> dict[str, object]:
    """The `openapi_extra` of a route that uses `read_body`."""
    content: dict[str, object] = {_JSON: {"schema": {"$ref": REFERENCE.format(model=model.__name__)}}}
    if form:
        _, found = models_json_schema([(model, "validation")], ref_template=REFERENCE)
        written = found["$defs"][model.__name__]
        required = written["required"]
        first = sorted(written["properties"], key=lambda name: name not in required)
        properties = {name: _describe_field(written["properties"][name], name in required) for name in first}
        content[_FORM] = {
            "schema": {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        }
    return {"requestBody": {"required": True, "content": content}}


def _describe_field(field: dict[str, Any], is_file: bool) -> dict[str, Any]:
    """The schema of a field in a form, where pictures are files."""
    about = {key: field[key] for key in ("title", "description") if key in field}
    if is_file:
        if not any(way.get("type") == "array" for way in (field, *field.get("oneOf", ()))):
            return about | _FILE
        counts = {key: field[key] for key in ("minItems", "maxItems") if key in field}
        return about | {"type": "array", "items": _FILE, "minItems": 1} | counts
    return omit_null(field)


def omit_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of what a form or an address leaves out where JSON has null."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return schema
    return {key: value for key, value in schema.items() if key not in ("anyOf", "default")} | kinds[0]


async def _read_form(request: Request, model: type[BaseModel], files: int) -> dict[str, str | list[Upload]]:
    """The text and the files of a form, as they came; the files are what the model requires."""
    pictures = {name: names_of(name, field) for name, field in model.model_fields.items() if field.is_required()}
    fields: dict[str, str | list[Upload]] = {}

    def refuse_name(param: str, came: str) -> RequestError:
        message = f"A form brings its pictures as files called {' and '.join(pictures)}; {came}."
        return RequestError(422, "invalid_request", message, param=param)

    try:
        async with request.form(max_files=files, max_fields=len(known_keys(model))) as form:
            for key, value in form.multi_items():
                if isinstance(value, str):
                    fields[key] = value
                    continue
                if key not in chain(*pictures.values()):
                    raise refuse_name(next(iter(pictures)), f'one is called "{key}"')
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
            raise refuse_name(name, f'none is called "{name}"')
    return fields


def _read_media_type(request: Request, *, takes_form: bool) -> str:
    if "collection" in request.query_params:
        # It would be passed over, and another collection be changed or searched than was meant.
        message = "A request with a body names its collection in the body, not in the address."
        raise RequestError(422, "invalid_request", message, param="collection")
    expected = [_JSON, _FORM] if takes_form else [_JSON]
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in expected:
        message = f'Expected the Content-Type {" or ".join(expected)}, got "{kind}".'
        raise RequestError(415, "unsupported_media_type", message)
    return kind


def _count_marks(text: bytes) -> int:
    """The number of values that JSON has at most, and of escapes beyond those of base64."""
    # PHP escapes each "/" of it, one of 64 letters.
    escapes = max(0, text.count(b"\\") - len(text) // 16)
    return sum(text.count(mark) for mark in (b",", b"[", b"{")) + escapes


def _validate_body(
    model: type[Model], text: bytes, context: BodyContext, fields: dict[str, str | list[Upload]] | None = None
) -> Model:
    """The checked body of this text, or of the `fields` of a form with it.

    More values than any right request has are refused unread: they may take 30 times their bytes.
    """
    count, most = _count_marks(text), METADATA_BYTES + _MARKS * context.pictures
    if count > most:
        message = f"Expected at most {most:,} lists, objects, commas and escapes, got {count:,}; send less at once."
        raise RequestError(422, "too_many_values", message)
    try:
        value: Any = parse_json(text) if fields is None else fields
    except ValueError as error:  # also a number that Python refuses to read
        raise RequestError(400, "invalid_json", f"The body is not JSON: {error}.") from None
    try:
        # Of a form all but the files is text.
        checked = model.model_validate(value, strict=False if context.is_form else None, context=context)
    except ValidationError as error:
        faults = [{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors(include_url=False)]
        raise RequestValidationError(faults) from None
    checked.note_keys(value)
    return checked
