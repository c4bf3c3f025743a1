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
    Discriminator,
    Field,
    RootModel,
    Tag,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from diptych.collection.ingest import checked_metadata
from diptych.collection.root import NAME, check_name
from diptych.dedupe.keeper import DEFAULT
from diptych.errors import CollectionNameError
from diptych.http.middleware.errors import RequestError
from diptych.http.schemas.pictures import IMAGE_ID, Picture, PicturePair, Pictures, Strict
from diptych.store.filters import to_sql
from diptych.store.records import Answer
from diptych_runtime.parsing import parse_json

_JSON_KINDS = {list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}


def _read_metadata(value: Any, check: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """The metadata of a request; in place of pydantic's words, those that say it is one object, and for whom."""
    got = None
    if info.context is not None and info.context.is_form:
        try:
            value = parse_json(value)
        except ValueError:
            got = "no JSON"
    if got is None and isinstance(value, dict):
        return check(value)
    raise PydanticCustomError(
        "not_one_object",
        "expected one JSON object for all pictures of the request, like {example}, got {got}; "
        "send pictures with metadata of their own in requests of their own",
        {"example": '{"label": "shoe"}', "got": got or _JSON_KINDS.get(type(value), "null")},
    )


def _read_object(value: Any) -> Any:
    """A form and a query string have JSON as text."""
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value)
    except ValueError:
        raise ValueError("expected a JSON object") from None


def _check_filter(value: dict[str, Any]) -> dict[str, Any]:
    to_sql(value)
    return value


def _check_threshold(value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1
    if not number and value != "auto":
        raise PydanticCustomError("not_a_threshold", 'expected a number above 0 and up to 1, or "auto"')
    return value


def _check_name(value: str) -> str:
    try:
        check_name(value)
    except CollectionNameError as error:
        raise PydanticCustomError("collection_name", "{said}", {"said": str(error)}) from None
    return value


# JSON has one kind of number: 10.0 is an integer.
_Whole = BeforeValidator(lambda value: int(value) if isinstance(value, float) and value.is_integer() else value)
Count = Annotated[int, Field(ge=0), _Whole]
# Python reads NaN, halves of surrogate pairs and a thousand levels from JSON, but nobody could read them back.
Metadata = Annotated[dict[str, Any], AfterValidator(checked_metadata), WrapValidator(_read_metadata)]
Threshold = Annotated[Annotated[float, Field(gt=0, le=1)] | Literal["auto"], BeforeValidator(_check_threshold)]
FILTER_SCHEMA = {"$ref": "#/components/schemas/Filter"}
Filter = Annotated[
    dict[str, Any],
    BeforeValidator(_read_object),
    AfterValidator(_check_filter),
    WithJsonSchema(FILTER_SCHEMA, mode="validation"),
]
Rule = Literal[
    "resolution", "with-exif", "format", "exif", "largest", "oldest", "newest", "shortest"
]  # of a folder that was named first a collection knows nothing
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
    collection: str | None = Field(
        None,
        description="The collection that is meant; by default the only one, or else that called `default`.",
        examples=["shoes"],
    )
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
    documents: Pictures
    top_n: Count | None = Field(None, description="Answer only the best; all of them if not given, or 0.")
    return_documents: bool = Field(False, description="Send each document back with its score, unless it is a file.")


class TextsRequest(RerankRequest):
    """A `RerankRequest` with the names of Text Embeddings Inference."""

    documents: Pictures = Field(validation_alias=AliasChoices("texts"))
    return_documents: bool = Field(
        False, validation_alias=AliasChoices("return_text"), description="Send each picture back with its score."
    )
    truncate: bool | None = _Ignored
    truncation_direction: str | None = _Ignored


class AnyRerankRequest(
    RootModel[
        Annotated[
            Annotated[RerankRequest, Tag("@documents")] | Annotated[TextsRequest, Tag("@texts")],
            Discriminator(lambda body: "@texts" if isinstance(body, dict) and "texts" in body else "@documents"),
        ]
    ]
):
    """Pictures to order by how alike they are to a query: as `documents`, or as `texts`."""


class ExplainRequest(Asking):
    """A pair whose score is to be explained."""

    images: PicturePair
    links: Count = Field(24, le=1024, description="How many of the strongest links to answer.")
    matrix: bool = Field(False, description="Answer the whole attention too, patch by patch.")
    overlay: bool = Field(False, description="Answer both pictures with the links drawn over them, as a PNG.")


class EmbeddingRequest(Request):
    """Pictures to embed."""

    images: Pictures = Field(
        validation_alias=AliasChoices("images", "input"), description="Also as `input`, as OpenAI's client says."
    )
    encoding_format: Literal["float", "base64"] = Field(
        "float", description="`base64` is little-endian float32, as OpenAI's client asks for."
    )


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
        list(DEFAULT),
        description="Rules for the picture to keep, in order: a later one only parts what earlier ones tie. Where a "
        "picture's file is gone, it counts as one without bytes and EXIF entries, as old as it is in the collection.",
    )


class AddRequest(Request):
    """Pictures to add to the collection."""

    images: Pictures = Field(
        validation_alias=AliasChoices("images", "image"), description="One or more; one also as `image`."
    )
    metadata: Metadata | None = Field(
        None,
        description="A JSON object, kept with each picture, in place of what one has that is there already; without "
        "it, that stays.",
    )
    dry_run: bool = Field(False, description="Check everything and write nothing: the answer says what would be added.")


class NewCollection(Strict):
    """A collection to make."""

    name: Annotated[str, AfterValidator(_check_name)] = Field(
        description="1 to 63 of a-z, 0-9, - and _; a letter or a digit begins.",
        examples=["shoes"],
        json_schema_extra={"pattern": f"^{NAME}$"},
    )
