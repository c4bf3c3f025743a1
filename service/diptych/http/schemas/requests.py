"""The requests of the service: one model per route, in the shapes of vLLM, Cohere/Jina and OpenAI.

A form has the same fields as JSON: its pictures are files, and objects in it are JSON as text.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from diptych.collection.ingest import checked_metadata
from diptych.collection.root import NAME
from diptych.dedupe.keeper import DEFAULT
from diptych.http.middleware.errors import RequestError
from diptych.http.schemas.pictures import IMAGE_ID, Picture, PicturePair, Pictures, Strict
from diptych.store.filters import to_sql
from diptych.store.records import Answer
from diptych_runtime.parsing import parse_json


def _read_object(value: Any) -> Any:
    """A form and a query string have JSON as text."""
    try:
        value = parse_json(value) if isinstance(value, str) else value
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise PydanticCustomError("not_an_object", "expected one JSON object, like {example}", {"example": '{"a": 1}'})
    return value


def _check_filter(value: dict[str, Any]) -> dict[str, Any]:
    to_sql(value)
    return value


def _check_threshold(value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1
    if not number and value != "auto":
        raise PydanticCustomError("not_a_threshold", 'expected a number above 0 and up to 1, or "auto"')
    return value


# JSON has one kind of number: 10.0 is an integer.
_Whole = BeforeValidator(lambda value: int(value) if isinstance(value, float) and value.is_integer() else value)
Count = Annotated[int, Field(ge=0), _Whole]
# Python reads NaN, halves of surrogate pairs and a thousand levels from JSON, but nobody could read them back.
Metadata = Annotated[dict[str, Any], BeforeValidator(_read_object), AfterValidator(checked_metadata)]
Threshold = Annotated[Annotated[float, Field(gt=0, le=1)] | Literal["auto"], BeforeValidator(_check_threshold)]
FILTER_SCHEMA = {"$ref": "#/components/schemas/Filter"}
Filter = Annotated[
    dict[str, Any],
    BeforeValidator(_read_object),
    AfterValidator(_check_filter),
    WithJsonSchema(FILTER_SCHEMA, mode="validation"),
]
# Of a folder that was named first a collection knows nothing.
Rule = Literal["resolution", "with-exif", "format", "exif", "largest", "oldest", "newest", "shortest"]
COLLECTION = "The collection that is meant; by default the only one, or else that called `default`."
_Ignored = Field(None, description="Taken for compatibility and ignored: every picture is seen whole.")
_OwnQuestion = Field(None, description="`copy`, the default, or `thing`.", examples=["copy"])


def read_filter(text: str) -> dict[str, Any]:
    """A filter of a query string. Raises RequestError: 422."""
    try:
        return TypeAdapter(Filter).validate_python(text)
    except ValidationError as error:
        message = f"filter: {error.errors()[0]['msg']}"
        raise RequestError(422, "invalid_request", message, param="filter") from None


class Request(Strict):
    """The fields of every request about pictures."""

    model: str | None = Field(None, description="The served model's name, if given; any other is refused.")
    collection: str | None = Field(None, description=COLLECTION, examples=["shoes"])
    user: str | None = Field(None, description="Taken for compatibility and ignored.")


class Asking(Request):
    """The fields of every request that scores."""

    question: str | None = Field(
        None,
        description="`copy`: was one picture made from the other, or both from a third? `thing`, the default: do both "
        "show the same thing? A model of one question answers either by that.",
        examples=["copy"],
    )


class TextOptions(Asking):
    """The fields that clients of vLLM, Cohere, Jina, infinity and Text Embeddings Inference send for texts."""

    raw_scores: bool = Field(False, description="Answer the network's logits in place of probabilities.")
    truncate_prompt_tokens: int | None = _Ignored
    truncation_side: str | None = _Ignored
    max_tokens_per_query: int | None = _Ignored
    max_tokens_per_doc: int | None = _Ignored
    max_chunks_per_doc: int | None = _Ignored
    mm_processor_kwargs: Annotated[dict[str, Any], BeforeValidator(_read_object)] | None = _Ignored
    priority: int | None = Field(None, description="Taken for compatibility and ignored: requests take turns.")
    request_id: str | None = Field(None, description="Taken for compatibility and ignored: send X-Request-ID.")
    use_activation: bool | None = Field(None, description="`false` is vLLM's word for `raw_scores`.")

    @property
    def is_raw(self) -> bool:
        """True if logits are to be answered as scores."""
        return self.raw_scores or self.use_activation is False


class ScoreRequest(TextOptions):
    """Pairs to score: one query with one document, one with many, or as many with as many, paired in order."""

    queries: Pictures = Field(validation_alias=AliasChoices("queries", "text_1"), description="Also as `text_1`.")
    documents: Pictures = Field(validation_alias=AliasChoices("documents", "text_2"), description="Also as `text_2`.")


class RerankRequest(TextOptions):
    """Documents to order by how alike they are to the query."""

    query: Picture
    documents: Pictures = Field(
        validation_alias=AliasChoices("documents", "texts"), description="Also as Text Embeddings Inference's `texts`."
    )
    top_n: Count | None = Field(None, description="Answer only the best; all of them if not given, or 0.")
    return_documents: bool = Field(
        False,
        validation_alias=AliasChoices("return_documents", "return_text"),
        description="Send each document back with its score, unless it is a file.",
    )
    truncate: bool | None = _Ignored
    truncation_direction: str | None = _Ignored


class ExplainRequest(Asking):
    """A pair whose score is to be explained."""

    images: PicturePair
    links: Count = Field(24, le=1024, description="How many of the strongest links to answer.")
    matrix: bool = Field(False, description="Answer how surely each patch is found in every other one, too.")
    overlay: bool = Field(False, description="Answer both pictures with the links drawn over them, as a PNG.")


class EmbeddingRequest(Request):
    """Pictures to embed."""

    images: Pictures = Field(validation_alias=AliasChoices("images", "input"), description="Also as OpenAI's `input`.")
    encoding_format: Literal["float", "base64"] = Field("float", description="`base64` is little-endian float32.")


class SearchRequest(Asking):
    """A picture to look for in the collection."""

    image: Picture
    top: Annotated[int, Field(ge=1), _Whole] = Field(10, description="How many matches to answer.")
    candidates: Count = Field(100, description="How many of the first stage are re-ranked; 0 for none.")
    early_stop: float | None = Field(
        None, gt=0, le=1, description="Re-rank no more candidates once `top` have this relevance: faster, not exact."
    )
    filter: Filter | None = Field(
        None,
        description='A condition on metadata: {"label": "shoe", "price": {"$gte": 10}}; also $ne, $gt, $lt, $lte, $in, '
        "$nin, $exists, $and, $or, $not. In a form or a query as JSON text.",
        examples=[{"label": "shoe"}],
    )


class PairsRequest(Asking):
    """The number of pairs to label, and the question that is asked of a person about them."""

    question: str | None = _OwnQuestion
    count: Annotated[int, Field(ge=1, le=50), _Whole] = Field(10, description="How many at most.")


class LabelRequest(Asking):
    """A person's answer about two stored pictures."""

    question: str | None = _OwnQuestion
    a: str = Field(description="The id of one.", json_schema_extra=IMAGE_ID)
    b: str = Field(description="The id of the other; their order makes no difference.", json_schema_extra=IMAGE_ID)
    answer: Answer = Field(description="`same`, `different` or `cannot tell`.")


class DuplicatesRequest(Request):
    """The least certainty of a duplicate, and the rules for the picture of a group to keep."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"threshold": "auto"}]})

    threshold: Threshold = Field(
        "auto", description="The relevance from which two pictures are the same; `auto` by their number and likeness."
    )
    keep: Annotated[list[Rule], Field(min_length=1, fail_fast=True)] = Field(
        list(DEFAULT), description="Rules for the picture to keep, in order: a later one parts what earlier ones tie."
    )


class AddRequest(Request):
    """Pictures to add to the collection."""

    images: Pictures = Field(
        validation_alias=AliasChoices("images", "image"), description="One or more; one also as `image`."
    )
    metadata: Metadata | None = Field(
        None, description="A JSON object for each of the pictures; it replaces what one has that is there already."
    )
    dry_run: bool = Field(False, description="Check everything and write nothing: the answer says what would be added.")


class NewCollection(Strict):
    """A collection to make."""

    name: str = Field(
        description="1 to 63 of a-z, 0-9, - and _; a letter or a digit begins.", examples=["shoes"], pattern=f"^{NAME}$"
    )
