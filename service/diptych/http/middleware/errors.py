"""Every refusal in one shape: the envelope, the exceptions that end in it, and their handlers."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import compile_path

from diptych.errors import (
    ClientLeftError,
    CollectionKeptError,
    CollectionNameError,
    DamagedCollectionError,
    DeadlineError,
    DecoderStartError,
    ModelMismatchError,
    NoOriginalsError,
    OverloadedError,
    ReadOnlyError,
    UnknownCollectionError,
    UnknownPictureError,
    UnreachableError,
)
from diptych_runtime.errors import DiptychError, PictureError

logger = logging.getLogger(__name__)

ERROR_CODE = "X-Error-Code"  # the header in which every refusal says its code besides

_CODES = {
    400: "bad_request",
    404: "not_found",
    405: "method_not_allowed",
    408: "body_too_slow",
    413: "body_too_large",
    415: "unsupported_media_type",
    429: "overloaded",
    503: "draining",
}
# By kind, the first that fits: its status, and the part of the request that is meant.
_STATUSES: tuple[tuple[type[DiptychError], int, str | None], ...] = (
    (PictureError, 422, None),
    (OverloadedError, 429, None),
    (DecoderStartError, 503, None),
    (ClientLeftError, 499, None),  # which reads no answer: this is for the log and the metrics
    (DeadlineError, 504, None),
    (UnreachableError, 503, "collection"),
    (UnknownCollectionError, 404, "collection"),
    (CollectionKeptError, 409, "collection"),
    (CollectionNameError, 422, "collection"),
    (DamagedCollectionError, 503, "collection"),
    (ModelMismatchError, 503, "collection"),  # it was embedded anew while it was served
    (NoOriginalsError, 501, "collection"),
    (ReadOnlyError, 403, "collection"),
)
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "overloaded_error",
    501: "invalid_request_error",  # for this service, as it was started: no fault of it, and no use to try again
}


class ErrorBody(BaseModel):
    """The error of a request."""

    message: str = Field(description="What was expected, what came, and what to do next.")
    type: str = Field(description="The family of the error.", examples=["invalid_request_error"])
    code: str = Field(description="One word for programs.", examples=["invalid_picture"])
    param: str | None = Field(description="The part of the request that is meant.", examples=["documents[3]"])
    request_id: str | None = Field(description="As in the header X-Request-ID.")


class ErrorEnvelope(BaseModel):
    """The body of every answer that is not a success."""

    error: ErrorBody


class RequestError(DiptychError):
    """A request that is refused: `RequestError(422, "invalid_picture", "...", param="documents[3]")`."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.param, self.headers = status, code, param, headers


def document_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that may answer with these error statuses, for the OpenAPI document, which
    `complete_document` gives the schema: a model here would be built anew for each status of each route.
    """
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{ErrorEnvelope.__name__}"}}}
    return {status: {"content": content, "description": HTTPStatus(status).phrase} for status in statuses}


STORED_ERRORS = document_errors(401, 404, 422, 429, 500, 501, 503, 504)  # of routes about what is stored
BODY_ERRORS = document_errors(400, 403, 408, 413, 415) | STORED_ERRORS  # of routes that take a body


def make_envelope(
    request_id: str | None,
    status: int,
    code: str,
    message: str,
    *,
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Make the response of one refusal."""
    family = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    body = ErrorBody(message=message, type=family, code=code, param=param, request_id=request_id)
    return JSONResponse(ErrorEnvelope(error=body).model_dump(), status, headers={**(headers or {}), ERROR_CODE: code})


def internal_error(request_id: str | None) -> Response:
    """The answer to a fault of our own: the trace is in the log, under the request's id, and nowhere else."""
    message = f"The service failed on this request; its log has the details under {request_id}."
    return make_envelope(request_id, 500, "internal_error", message)


def install_handlers(app: FastAPI) -> None:
    """Let every exception that leaves a route end in the envelope (the rest is caught at the edge)."""
    app.add_exception_handler(DiptychError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_http)


def format_location(location: Sequence[str | int]) -> str | None:
    """Format a pydantic location as people write it: ("body", "documents", 3, "@part", "url") is "documents[3].url".

    Names that begin with "@" are branches of a union and no part of the request.
    """
    path = ""
    for step in location[1:]:
        if isinstance(step, int):
            path += f"[{step}]"
        elif not step.startswith("@"):
            path += f".{step}" if path else step
    return path or None


def _read_request_id(request: Request) -> str | None:
    return getattr(request.state, "request_id", None)


async def _answer_error(request: Request, error: Exception) -> Response:
    if isinstance(error, RequestError):
        return make_envelope(
            _read_request_id(request), error.status, error.code, str(error), param=error.param, headers=error.headers
        )
    if isinstance(error, UnknownPictureError):
        return make_envelope(_read_request_id(request), 404, "unknown_image", str(error))
    code = cast(DiptychError, error).code
    for kind, status, param in _STATUSES:
        if isinstance(error, kind):
            pause = 1 if isinstance(error, DecoderStartError) else getattr(error, "seconds", None)
            headers = {} if pause is None else {"Retry-After": str(math.ceil(pause))}
            return make_envelope(_read_request_id(request), status, code, str(error), param=param, headers=headers)
    logger.error("request %s failed", _read_request_id(request), exc_info=error)
    return make_envelope(_read_request_id(request), 500, code, str(error))


async def _answer_invalid(request: Request, error: Exception) -> Response:
    faults = cast(RequestValidationError, error).errors()
    first = faults[0]
    if first["type"] == "json_invalid" and isinstance(first["loc"][-1], int):  # the body itself, not a field of a form
        reason = first.get("ctx", {}).get("error", "not JSON")
        return make_envelope(_read_request_id(request), 400, "invalid_json", f"The body is not JSON: {reason}.")
    param = format_location(first["loc"])
    message = f"{param}: {first['msg']}" if param else str(first["msg"])
    if len(faults) > 1:
        message += f" (and {len(faults) - 1} more)"
    return make_envelope(_read_request_id(request), 422, "invalid_request", message, param=param)


async def _answer_http(request: Request, error: Exception) -> Response:
    fault = cast(HTTPException, error)
    message = str(fault.detail)
    if fault.status_code == 404:
        message = f"There is nothing at {request.url.path}; /docs lists what there is."
    elif fault.status_code == 405:
        message = f"{request.url.path} does not take {request.method}; /docs lists what it takes."
    code = _CODES.get(fault.status_code, "error")
    headers = {**(fault.headers or {})}
    if fault.status_code == 405 and (taken := _find_methods(request)):
        headers["Allow"] = ", ".join(taken)
    return make_envelope(_read_request_id(request), fault.status_code, code, message, headers=headers)


def _find_methods(request: Request) -> list[str]:
    """The methods that the document has for a path; the router stops at its first route and names only that one's."""
    paths = request.app.openapi()["paths"]
    asked = request.url.path
    found = [paths[asked]] if asked in paths else [paths[path] for path in paths if compile_path(path)[0].match(asked)]
    return sorted({method.upper() for methods in found for method in methods})
