"""The metadata of the pictures of a request: one JSON object for all of them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Json, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError

from diptych.collection.ingest import checked_metadata

_JSON_KINDS = {list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}


def _one_object(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """The metadata of a request; in place of pydantic's words, those that say it is one object, and for whom."""
    try:
        return check(value)
    except ValidationError as error:
        fault = error.errors()[0]
        if fault["type"] not in ("json_invalid", "dict_type"):
            raise
        got = "no JSON" if fault["type"] == "json_invalid" else _JSON_KINDS.get(type(fault["input"]), "null")
        raise PydanticCustomError(
            "not_one_object",
            "expected one JSON object for all pictures of the request, like {example}, got {got}; "
            "send pictures with metadata of their own in requests of their own",
            {"example": '{"label": "shoe"}', "got": got},
        ) from None


# Python reads NaN, halves of surrogate pairs and a thousand levels from JSON, but nobody could read them back.
Metadata = Annotated[dict[str, Any], AfterValidator(checked_metadata), WrapValidator(_one_object)]
MetadataText = Annotated[Json[Metadata], WrapValidator(_one_object)]  # of a form
