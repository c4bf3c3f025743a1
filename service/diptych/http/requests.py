"""What the service is asked: one model per route, in the shapes of vLLM, Cohere/Jina and OpenAI."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Field,
    Json,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)

from diptych.filters import compiled
from diptych.http.errors import RequestError
from diptych.http.references import Picture, Pictures
from diptych.http.strict import Strict
from diptych.intake import checked_metadata
from diptych.root import NAME


def _whole(value: Any) -> Any:
    """JSON has one kind of number: 10.0 is an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _flag(value: Any) -> Any:
    """A form has true and false as text."""
    return {"true": True, "false": False}.get(value, value)


Count = Annotated[int, Field(ge=0), BeforeValidator(_whole)]
Positive = Annotated[int, Field(ge=1), BeforeValidator(_whole)]
Flag = Annotated[bool, BeforeValidator(_flag), Field(strict=True)]
# Python reads NaN, halves of surrogate pairs and a thousand levels from JSON, but nobody could read them back.
Metadata = Annotated[dict[str, Any], AfterValidator(checked_metadata)]


CollectionName = Field(
    None,
    description="The collection that is meant; by default the only one, or else that called `default`.",
    examples=["shoes"],
)


class Request(Strict):
    """What every request may say."""

    model: str | None = Field(None, description="The served model's name, if given; any other is refused.")
    collection: str | None = CollectionName
    user: str | None = Field(None, description="Taken for compatibility and ignored.")


class ScoreRequest(Request):
    """Pairs to score: one query with one document, one with many, or as many with as many, paired in order."""

    queries: Pictures = Field(validation_alias=AliasChoices("queries", "text_1"), description="Also as `text_1`.")
    documents: Pictures = Field(validation_alias=AliasChoices("documents", "text_2"), description="Also as `text_2`.")


class RerankRequest(Request):
    """Documents to order by how alike they are to the query."""

    query: Picture
    documents: Pictures
    top_n: Positive | None = Field(None, description="Answer only the best; all of them if not given.")
    return_documents: bool = Field(False, description="Send each document back with its score.")


class ExplainRequest(Request):
    """A pair whose score is to be explained."""

    query: Picture
    document: Picture
    links: Count = Field(24, le=1024, description="How many of the strongest links to answer.")
    matrix: bool = Field(False, description="Answer the whole attention too, patch by patch.")
    overlay: bool = Field(False, description="Answer both pictures with the links drawn over them, as a PNG.")


class EmbeddingRequest(Request):
    """Pictures to embed."""

    input: Pictures
    encoding_format: Literal["float", "base64"] = Field(
        "float", description="`base64` is little-endian float32, as OpenAI's client asks for."
    )


def _read(value: Any) -> Any:
    """A form and a query string have JSON as text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError("expected a JSON object") from None


def _condition(value: dict[str, Any]) -> dict[str, Any]:
    compiled(value)
    return value


FILTER_SCHEMA = {"$ref": "#/components/schemas/Filter"}
Filter = Annotated[
    dict[str, Any], BeforeValidator(_read), AfterValidator(_condition), WithJsonSchema(FILTER_SCHEMA, mode="validation")
]


def read_filter(text: str) -> dict[str, Any]:
    """A filter of a query string. Raises RequestError: 422."""
    try:
        return TypeAdapter(Filter).validate_python(text)
    except ValidationError as error:
        message = f"filter: {error.errors()[0]['msg']}"
        raise RequestError(422, "invalid_request", message, param="filter") from None


class SearchOptions(Request):
    """How to search."""

    top: Positive = Field(10, description="How many matches to answer.")
    candidates: Count = Field(
        100, description="How many of the first stage the network looks at together with the query; 0 for none."
    )
    enough: float | None = Field(
        None, gt=0, le=1, description="Look at no more candidates once `top` have this relevance: faster, not exact."
    )
    filter: Filter | None = Field(
        None,
        description='A condition on metadata: {"label": "shoe", "price": {"$gte": 10}}; also $ne, $gt, $lt, $lte, $in, '
        "$nin, $exists, $and, $or, $not. In a form or a query as JSON text.",
        examples=[{"label": "shoe"}],
    )


class SearchRequest(SearchOptions):
    """A picture to look for in the collection."""

    image: Picture = Field(validation_alias=AliasChoices("image", "query"), description="Also as `query`.")


class SearchForm(SearchOptions):
    """The fields of a search sent as a form; the picture is the file `image`."""

    model_config = ConfigDict(strict=False)  # all of a form is text


Rule = Literal["resolution", "format", "oldest", "newest", "shortest"]


class DuplicatesRequest(Request):
    """How sure a duplicate must be, and which picture of a group to keep."""

    threshold: Annotated[float, Field(gt=0, le=1)] | Literal["auto"] = Field(
        "auto", description="The relevance from which two pictures are the same; `auto` by how many pictures there are."
    )
    keep: Annotated[list[Rule], Field(min_length=1)] = Field(
        ["resolution", "format", "oldest"],
        description="Rules for the picture to keep, in order: a later one only parts what earlier ones tie. A "
        "collection knows neither the bytes of a file nor its EXIF entries; when a picture was added is its age.",
    )


DryRun = Field(False, description="Check everything and write nothing: the answer says what would be added.")


class AddRequest(Strict):
    """A picture to add to the collection."""

    image: Picture
    metadata: Metadata | None = Field(None, description="Any JSON object, kept with the picture.")
    collection: str | None = CollectionName
    dry_run: bool = DryRun


class AddForm(Strict):
    """The fields of an addition sent as a form; the pictures are the files `image`."""

    model_config = ConfigDict(strict=False)

    metadata: Json[Metadata] | None = Field(None, description="A JSON object, kept with each picture.")
    collection: str | None = CollectionName
    dry_run: Flag = DryRun


class NewCollection(Strict):
    """A collection to make."""

    name: str = Field(
        description="1 to 63 of a-z, 0-9, - and _; a letter or a digit begins.", pattern=f"^{NAME}$", examples=["shoes"]
    )
