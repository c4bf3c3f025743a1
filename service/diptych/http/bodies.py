"""Bodies that come as JSON or as a form with files."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema

from diptych.http.errors import RequestError

JsonModel = TypeVar("JsonModel", bound=BaseModel)
FormModel = TypeVar("FormModel", bound=BaseModel)

_JSON, _FORM = "application/json", "multipart/form-data"


class Upload(NamedTuple):
    """A file of a form."""

    filename: str
    data: bytes


async def require_json(request: Request) -> None:
    """Refuse a body that is not declared to be JSON; 415."""
    _declared(request, _JSON)


async def read_body(
    request: Request, from_json: type[JsonModel], from_form: type[FormModel], files: int
) -> JsonModel | tuple[FormModel, list[Upload]]:
    """The checked body: a `from_json`, or a `from_form` with its 1 to `files` files, all in the field `image`."""
    if _declared(request, _JSON, _FORM) == _JSON:
        try:
            value = json.loads(await request.body())
        except (ValueError, RecursionError) as error:  # also a number or a nesting that Python refuses to read
            raise RequestError(400, "invalid_json", f"The body is not JSON: {error}.") from None
        return _checked(from_json, value)
    uploads: list[Upload] = []
    fields: dict[str, str] = {}
    async with request.form(max_files=files, max_fields=16) as form:
        for key, value in form.multi_items():
            if isinstance(value, str):
                fields[key] = value
            elif key == "image":
                uploads.append(Upload(value.filename or "", await value.read()))
            else:
                raise _no_image(f'a file is called "{key}"')
    if not uploads:
        raise _no_image("there is none")
    return _checked(from_form, fields), uploads


def body_schema(from_json: type[BaseModel], from_form: type[BaseModel], *, several: bool) -> dict[str, object]:
    """The `openapi_extra` of a route that uses `read_body`."""
    file = {"type": "string", "format": "binary"}
    image = {"type": "array", "items": file, "minItems": 1} if several else file
    _, found = models_json_schema([(from_form, "validation")])
    written = found["$defs"][from_form.__name__].get("properties", {})
    fields = {name: _named(field) for name, field in written.items()}
    form = {
        "type": "object",
        "properties": {"image": image, **fields},
        "required": ["image"],
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


def _no_image(came: str) -> RequestError:
    message = f"A form brings its pictures in file fields called image; {came}."
    return RequestError(422, "invalid_request", message, param="image")


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
