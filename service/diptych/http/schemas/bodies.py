"""Bodies that come as JSON or as a form with files."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

from diptych.http.middleware.errors import RequestError
from diptych.http.schemas.images import Upload

JsonModel = TypeVar("JsonModel", bound=BaseModel)
FormModel = TypeVar("FormModel", bound=BaseModel)

_JSON, _FORM = "application/json", "multipart/form-data"


async def require_json(request: Request) -> None:
    """Refuse a body that is not declared to be JSON; 415."""
    _declared(request, _JSON)


async def read_body(
    request: Request, from_json: type[JsonModel], from_form: type[FormModel], files: int
) -> JsonModel | FormModel:
    """The checked body: a `from_json`, or a `from_form` of the fields and at most `files` files of a form.

    What a form must have are its files.
    """
    if _declared(request, _JSON, _FORM) == _JSON:
        try:
            value = json.loads(await request.body())
        except (ValueError, RecursionError) as error:  # also a number or a nesting that Python refuses to read
            raise RequestError(400, "invalid_json", f"The body is not JSON: {error}.") from None
        return _checked(from_json, value)
    pictures = [name for name, field in from_form.model_fields.items() if field.is_required()]
    fields: dict[str, str | list[Upload]] = {}
    try:
        async with request.form(max_files=files, max_fields=16) as form:
            for key, value in form.multi_items():
                if isinstance(value, str):
                    fields[key] = value
                    continue
                if key not in pictures:
                    raise _misnamed(pictures, pictures[0], f'one is called "{key}"')
                uploads = fields.setdefault(key, [])
                if isinstance(uploads, list):
                    uploads.append(Upload(value.filename or "", await value.read()))
    except HTTPException as error:
        if not error.detail.startswith("Too many files"):
            raise
        message = f"Too many files: at most {files} fit in this form. Split it into several."
        raise RequestError(422, "too_many_pictures", message) from None
    for name in pictures:
        if name not in fields:
            raise _misnamed(pictures, name, f'none is called "{name}"')
    return _checked(from_form, fields)


def body_schema(from_json: type[BaseModel], from_form: type[BaseModel]) -> dict[str, object]:
    """The `openapi_extra` of a route that uses `read_body`."""
    _, found = models_json_schema([(from_form, "validation")])
    written = found["$defs"][from_form.__name__]
    form = {
        "type": "object",
        "properties": {name: _named(field) for name, field in written["properties"].items()},
        "required": written["required"],
        "additionalProperties": False,
    }
    reference = {"$ref": f"#/components/schemas/{from_json.__name__}"}
    return {"requestBody": {"required": True, "content": {_JSON: {"schema": reference}, _FORM: {"schema": form}}}}


def _named(field: dict[str, Any]) -> dict[str, Any]:
    """The schema of a field that is in a form, where objects are JSON: what is null, a form leaves out."""
    kinds = [kind for kind in field.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return field
    kind = kinds[0].get("contentSchema", kinds[0])
    return {**{key: value for key, value in field.items() if key not in ("anyOf", "default")}, **kind}


def _misnamed(pictures: list[str], param: str, came: str) -> RequestError:
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


def _checked(model: type[JsonModel], value: object) -> JsonModel:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        faults = [{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors(include_url=False)]
        raise RequestValidationError(faults) from None
