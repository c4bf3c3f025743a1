"""Every refusal in one shape: the envelope, the exceptions that end in it, and their handlers."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route

from diptych import errors
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
    (errors.OverloadedError, 429, None),
    (errors.DecoderStartError, 503, None),
    (errors.ClientLeftError, 499, None),  # which reads no answer: this is for the log and the metrics
    (errors.DeadlineError, 504, None),
    (errors.UnknownPictureError, 404, None),
    (errors.UnreachableError, 503, "collection"),
    (errors.UnknownCollectionError, 404, "collection"),
    (errors.CollectionKeptError, 409, "collection"),
    (errors.CollectionNameError, 422, "collection"),
    (errors.DamagedCollectionError, 503, "collection"),
    (errors.ModelMismatchError, 503, "collection"),  # it was embedded anew while it was served
    (errors.NoOriginalsError, 501, "collection"),
    (errors.ReadOnlyError, 403, "collection"),
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


# Of all routes but those of health.
ERRORS = document_errors(400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 500, 501, 503, 504)


def document_file(media_type: str) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that answers no JSON."""
    return {200: {"content": {media_type: {}}, "description": "Not JSON"}}


def make_envelope(request_id: str | None, error: RequestError) -> Response:
    """Make the response of one refusal."""
    family = _TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "server_error")
    body = ErrorBody(message=str(error), type=family, code=error.code, param=error.param, request_id=request_id)
    headers = {**(error.headers or {}), ERROR_CODE: error.code}
    return JSONResponse(ErrorEnvelope(error=body).model_dump(), error.status, headers=headers)


def install_handlers(app: FastAPI) -> None:
    """Let every exception that leaves a route end in the envelope (the rest is caught at the edge)."""
    makers: dict[type[Exception], Callable[[Request, Any], RequestError]] = {
        DiptychError: _refuse_error,
        RequestValidationError: _refuse_invalid,
        HTTPException: _refuse_http,
    }

    async def answer(request: Request, error: Exception) -> Response:
        made = next(make for kind, make in makers.items() if isinstance(error, kind))
        return make_envelope(getattr(request.state, "request_id", None), made(request, error))

    for kind in makers:
        app.add_exception_handler(kind, answer)


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


def _refuse_error(request: Request, error: DiptychError) -> RequestError:
    if isinstance(error, RequestError):
        return error
    code = "unknown_image" if isinstance(error, errors.UnknownPictureError) else error.code
    for kind, status, param in _STATUSES:
        if isinstance(error, kind):
            pause = 1 if isinstance(error, errors.DecoderStartError) else getattr(error, "seconds", None)
            headers = None if pause is None else {"Retry-After": str(math.ceil(pause))}
            return RequestError(status, code, str(error), param=param, headers=headers)
    logger.error("request %s failed", getattr(request.state, "request_id", None), exc_info=error)
    return RequestError(500, code, str(error))


def _refuse_invalid(request: Request, error: RequestValidationError) -> RequestError:
    first, *others = error.errors()
    param = format_location(first["loc"])
    message = f"{param}: {first['msg']}" if param else first["msg"]
    more = f" (and {len(others)} more)" if others else ""
    return RequestError(422, "invalid_request", message + more, param=param)


def _refuse_http(request: Request, error: HTTPException) -> RequestError:
    message, headers = str(error.detail), {**(error.headers or {})}
    if error.status_code == 404:
        message = f"There is nothing at {request.url.path}; /docs lists what there is."
    elif error.status_code == 405:
        message = f"{request.url.path} does not take {request.method}; /docs lists what it takes."
        headers["Allow"] = ", ".join(_find_methods(request)) or headers.get("Allow", "")
    return RequestError(error.status_code, _CODES.get(error.status_code, "error"), message, headers=headers)


def _find_methods(request: Request) -> list[str]:
    """The methods that a path takes; the router stops at its first route and names only that one's."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    found = [route.methods or () for route in routes if route.matches(request.scope)[0] is Match.PARTIAL]
    return sorted(set().union(*found))
