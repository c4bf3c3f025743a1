"""The responses of the service: one model per route."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from diptych.collection.registry import Summary
from diptych.collection.search import Match
from diptych.http.schemas.pictures import Picture, is_missing
from diptych.labelling.choose import Reason
from diptych.store.records import Label
from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.calibration.thresholds import Negatives
from diptych_runtime.calibration.verdicts import Verdict
from diptych_runtime.judgement import CLOSER_LOOKS, NOT_TAKEN, CloserLook

Item = TypeVar("Item")

_PROBABILITY = "The calibrated probability, 0 to 1, that the answer to the question is yes."
_SCORE = f"{_PROBABILITY} With `raw_scores` the network's logit."
_LOOK = (
    "Whether the closer look that such a pair deserves was `taken` or, as a file is not at hand or a search has had "
    f"its {CLOSER_LOOKS}, `not taken`: {NOT_TAKEN}. null where it deserves none."
)
_ANSWERS = "What is said to every question that the model answers, by name."


class Shown(BaseModel):
    """A part of an answer, made of keys or of an object with these attributes."""

    model_config = ConfigDict(from_attributes=True)


class ItemList(BaseModel, Generic[Item]):
    """Items in the order of the request, or of their names."""

    object: Literal["list"] = "list"
    data: list[Item]


class Asked(BaseModel):
    """The fields of every answer to a question."""

    id: str
    model: str
    question: str = Field(description="`copy` or `thing`, or the only question that the model answers.")


class Usage(BaseModel):
    """The work that a request took."""

    images: int = Field(description="Pictures sent or named.")
    pairs: int = Field(0, description="Pairs that the network scored.")
    prompt_tokens: int = Field(description="Patches of all pictures.")
    total_tokens: int


class Judged(Shown):
    """The judgement of a pair beside its probability."""

    raw_score: float = Field(description="The network's logit.")
    verdict: Verdict = Field(description="same, likely, unsure or different: what the probability comes to.")
    closer_look: CloserLook | None = Field(None, description=_LOOK)


class AnswerItem(Judged):
    """The answer to one question about a pair."""

    relevance_score: float = Field(description=_PROBABILITY)


class ScoreItem(Judged):
    """The score of one pair."""

    index: int
    object: Literal["score"] = "score"
    score: float = Field(description=_SCORE)
    answers: dict[str, AnswerItem] = Field(description=_ANSWERS)


class ScoreAnswer(Asked, ItemList[ScoreItem]):
    """Scores in the order of the pairs."""

    created: int = Field(description="Seconds since 1970.")
    usage: Usage


class RerankItem(AnswerItem):
    """One document's place."""

    relevance_score: float = Field(description=_SCORE)
    index: int = Field(description="The document's place in the request.")
    document: Picture | None = Field(None, exclude_if=is_missing, description="As sent, with `return_documents`.")


class RerankAnswer(Asked):
    """Documents from the most to the least alike."""

    results: list[RerankItem]
    usage: Usage


class TextRank(BaseModel):
    """The place of one of the `texts`, in the form of Text Embeddings Inference."""

    index: int = Field(description="The picture's place in the request.")
    score: float = Field(description=_SCORE)
    text: Picture | None = Field(None, exclude_if=is_missing, description="As sent, with `return_text`.")


class LinkItem(BaseModel):
    """A patch of each of the two pictures, and how surely the network finds one in the other."""

    patches: tuple[tuple[int, int], tuple[int, int]] = Field(
        description="Row and column, from the top left, of the patch of the first picture and of that of the second."
    )
    share: float = Field(description="How surely each is found in the other, 0 to 1.")


class ExplainAnswer(Asked, AnswerItem):
    """The explanation of a pair's score."""

    object: Literal["explanation"] = "explanation"
    answers: dict[str, AnswerItem] = Field(description=_ANSWERS)
    grid: tuple[int, int] = Field(description="Rows and columns of patches that each picture is cut into.")
    crossing: float = Field(description="How surely a patch is found in the other picture, the mean of all: 0 to 1.")
    evidence: Evidence | None = Field(description="What the closer look saw; null without one.")
    placement: dict[str, list[list[float]]] | None = Field(
        description="`first_in_second` and `second_in_first`: the corners of each in the other, from the top left "
        "clockwise, as shares of width and height; null where one cannot be laid over the other."
    )
    links: list[LinkItem] = Field(description="Strongest first; each patch in one at most.")
    attention: list[list[float]] | None = Field(
        exclude_if=is_missing,
        description="With `matrix`: a row a patch of the first picture, a column one of the second, row by row.",
    )
    overlay: str | None = Field(exclude_if=is_missing, description="With `overlay`: a PNG as a data URI.")
    usage: Usage


class EmbeddingItem(BaseModel):
    """One picture's embedding, a unit vector."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingAnswer(ItemList[EmbeddingItem]):
    """Embeddings in the order of the pictures."""

    model: str
    usage: Usage


@dataclass(frozen=True, kw_only=True)
class MatchItem(Match):
    """A picture of the collection beside the query, with its places after re-ranking and by the embedding alone.

    `relevance_score` is the calibrated probability, and null, like the verdict, where the network did not look.
    `similarity` is the cosine of the two embeddings, and `thumbnail` is where a small JPEG of the picture is.
    """

    thumbnail: str


class SearchAnswer(Asked):
    """The matches after re-ranking, and the candidates as the embedding alone would have answered."""

    object: Literal["search"] = "search"
    matches: list[MatchItem]
    candidates: list[MatchItem]
    reranked: int = Field(description="The number of candidates that were re-ranked.")
    closer_looks: int = Field(description=f"The number of candidates that got a closer look: {CLOSER_LOOKS} at most.")
    timings: dict[str, float] = Field(description="Seconds by stage.")


class ImageItem(BaseModel):
    """A picture of the collection."""

    id: str
    object: Literal["image"] = "image"
    path: str | None
    metadata: dict[str, Any]
    width: int
    height: int
    frames: int | None = Field(description="Frames or pages of its file; null if an earlier version added it.")
    original_kept: bool = Field(description="Whether the collection keeps the file itself, not only its path.")
    added: str = Field(description="ISO 8601 time.")
    content: str = Field(description="Where the file is.")
    thumbnail: str = Field(description="Where a small JPEG of it is.")


class AddedItem(ImageItem):
    """A picture that is in the collection now."""

    created: bool = Field(description="False if the same file was there already.")


class Fault(BaseModel):
    """The reason why a picture would be refused."""

    message: str
    code: str = Field(description="One word for programs.", examples=["invalid_picture"])


class ForeseenItem(BaseModel):
    """The outcome that one picture would have."""

    position: str = Field(description="Its place in the request.", examples=["images[3]"])
    id: str | None = Field(description="The id it has or would get; null if it would be refused.")
    created: bool = Field(description="Whether it would be new.")
    error: Fault | None


class DryRunAnswer(ItemList[ForeseenItem]):
    """The preview of adding these pictures; nothing was written."""

    dry_run: Literal[True] = True
    refused: int = Field(description="How many would be refused. With any, none of the others is added either.")


class ImageList(ItemList[ImageItem]):
    """A page of the collection."""

    has_more: bool
    next: str | None = Field(description="Give this as `after` for the next page.")


class Deleted(BaseModel):
    """A picture that is no longer in the collection."""

    id: str
    object: Literal["image"] = "image"
    deleted: Literal[True] = True


class DuplicateItem(Shown):
    """A picture of a group beside the one to keep."""

    id: str
    relevance_score: float = Field(description="Of the pair it makes with the one to keep.")
    verdict: Verdict = Field(description="What that comes to.")
    closer_look: CloserLook | None = Field(description=_LOOK)
    replaced_by: str | None = Field(description="The id of the picture that can stand for it; null if none can.")
    kept_because: str = Field(description='Why that one is kept, "more pixels", or this one stays.')
    edit: str = Field(description='What distinguishes it from the other: "mirrored, smaller".')


class DuplicateGroup(BaseModel):
    """The picture to keep, and those that match it."""

    keeper: str = Field(description="Its id.")
    members: list[DuplicateItem]


class Pairs(Asked):
    """The progress of scoring pairs."""

    stage: Literal["pairs", "keypoints", "closer_looks"] = Field(
        description="What is counted now: pairs that are scored, pictures that are described, or looks that are taken."
    )
    scored: int = Field(description="Pairs that have their score, now and from earlier requests.")
    total: int = Field(description="Pairs to score, as far as is known.")
    keypoints: dict[str, int] = Field(description="Pictures of a crowd `described` by keypoints, of a `total`.")
    closer_looks: dict[str, int] = Field(description="Looks `taken`, of a `total`: 0 until all pairs are scored.")


class PairsBegun(Pairs):
    """Not done yet: the same request once more goes on from here."""

    complete: Literal[False] = False


class Duplicates(Pairs):
    """The groups of the collection, and the pairs from which to group it anew at another threshold."""

    complete: Literal[True] = True
    threshold: float
    bound: float = Field(description="The lowest score that `pairs` reach down to.")
    groups: list[DuplicateGroup]
    pictures: list[ImageItem] = Field(description="All that are in a pair or a group, the ones to keep first.")
    pairs: list[tuple[int, int, float]] = Field(
        description="Two places in `pictures` and the score, of all pairs that were looked at and reach `bound`."
    )
    verdicts: dict[Verdict, float] = Field(description="The lowest score of each verdict but `different`.")
    alarm_rate: float | None = Field(description="The share of the pictures expected in a false pair, if known.")
    left_out: int = Field(description="Pairs that reach lower, but were too many to answer: the least sure ones.")


class PairItem(BaseModel):
    """Two pictures to ask a person about."""

    a: ImageItem
    b: ImageItem
    relevance_score: float = Field(description="As it is now.")
    verdict: Verdict
    similarity: float = Field(description="The cosine of their embeddings.")
    reason: Reason = Field(description="Why it teaches: it is near a `threshold`, in `disagreement`, or for `spread`.")


class LabelCounts(BaseModel):
    """Numbers of labels by answer."""

    same: int
    different: int
    cannot_tell: int


class PairsToLabel(Pairs):
    """The pairs to label, the one that teaches most first; none when all are labelled."""

    complete: Literal[True] = True
    data: list[PairItem]
    labels: LabelCounts = Field(description="Of the labels to this question.")


class LabelList(ItemList[Label]):
    """A page of the labels of a collection."""

    has_more: bool
    next: int | None = Field(description="The `after` of the next page.")
    counts: LabelCounts | None = Field(description="Of all labels, on the first page; null on those behind it.")


class LabelTakenBack(BaseModel):
    """A label that was taken back, if there was one."""

    a: str
    b: str
    question: str
    taken_back: bool = Field(description="False if the pair had no label.")


@dataclass(frozen=True, kw_only=True)
class CollectionItem(Summary):
    """A collection by its name; figures that are not to be known are null, those of a damaged one with its `fault`."""

    object: Literal["collection"] = "collection"


class DeletedCollection(BaseModel):
    """A collection that is no more."""

    name: str
    object: Literal["collection"] = "collection"
    deleted: Literal[True] = True
    pictures: int = Field(description="How many went with it.")


class ModelItem(BaseModel):
    """A served model, in OpenAI's form."""

    id: str
    object: Literal["model"] = "model"
    created: int = Field(description="When this service started, seconds since 1970.")
    owned_by: Literal["diptych"] = "diptych"
    revision: str


class QuestionItem(BaseModel):
    """A question that the model answers."""

    thresholds: dict[str, float] = Field(description="relevance_score at stated false-positive rates.")
    verdicts: dict[Verdict, float] = Field(description="The lowest relevance_score of each verdict but `different`.")
    negatives: dict[Negatives, dict[str, float]] = Field(
        description="relevance_score that pairs which do not match reach, `random` or `nearest`, by rate, if measured."
    )


class CalibratedQuestion(Shown):
    """The labels that a question's own calibration was fitted to."""

    same: int
    different: int


class CalibrationItem(Shown):
    """A calibration of one's own over the released one (`diptych calibrate`)."""

    made: str = Field(description="ISO 8601 time.")
    model: str = Field(description="The model that it was made over, as it was opened.")
    questions: dict[str, CalibratedQuestion]


class RuntimeFacts(Shown):
    """What scores pictures here, and on what."""

    revision: str
    provider: str = Field(description="The ONNX Runtime provider that really runs.")
    attention_path: str = Field(description="How the custom operator is computed.")
    pair_path: str = Field(description="In which precision pairs are scored here, and why.")
    threads: int
    panel_size: int = Field(description="Side in pixels to which each picture is brought.")
    embedding_dim: int
    thresholds: dict[str, float] = Field(description="relevance_score at false-positive rates, default question.")


class Info(RuntimeFacts):
    """The description of this service, its model and its settings."""

    name: Literal["diptych"] = "diptych"
    version: str
    model: str
    formats: list[str] = Field(description="The formats of pictures that are read here.")
    questions: dict[str, QuestionItem] = Field(description="What the model answers, by name.")
    calibration: CalibrationItem | None = Field(description="One's own over the released one; null if there is none.")
    limits: dict[str, bool | int | float] = Field(
        description="Settings that bound a request, by name, and `duplicates_pictures`, the largest collection that "
        "/v1/duplicates searches, `duplicates_pairs`, the most pairs that it answers, `metadata_bytes` of a picture, "
        "and `picture_side`, the shortest that is taken, in pixels."
    )
    collection: dict[str, Any] | None = Field(
        description="Figures of the collection that is meant; null if there is none, or it is damaged."
    )
    collections: list[CollectionItem]
    collections_fixed: bool = Field(description="Whether collections can neither be made nor removed.")


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Ready(BaseModel):
    """The service scores pictures as it should."""

    status: Literal["ready"] = "ready"
    warm_up_seconds: float
    same: float = Field(description="raw_score of a drawn picture with itself.")
    other: float = Field(description="raw_score of the same picture with another one.")
    damaged: list[str] = Field(description="Collections that could not be opened; requests to them are 503.")
