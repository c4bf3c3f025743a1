"""The responses of the service: one model per route."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from diptych.http.schemas.pictures import Picture, is_missing
from diptych.labelling.choose import Reason
from diptych.store.records import Answer, FileState
from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.calibration.thresholds import Negatives
from diptych_runtime.calibration.verdicts import Verdict
from diptych_runtime.judgement import CLOSER_LOOKS, NOT_TAKEN, CloserLook

_PROBABILITY = "The calibrated probability, 0 to 1, that the answer to the question is yes."
_SCORE = f"{_PROBABILITY} With `raw_scores` the network's logit."
LOOK = (
    "Whether the closer look that such a pair deserves was `taken` or, as a file is not at hand or a search has had "
    f"its {CLOSER_LOOKS}, `not taken`: {NOT_TAKEN}. null where it deserves none."
)
_ANSWERS = "What is said to every question that the model answers, by name."
QUESTION = "The question that was asked: `copy` or `thing`, or the only one that the model answers."


class Shown(BaseModel):
    """A part of an answer, made of keys or of an object with these attributes."""

    model_config = ConfigDict(from_attributes=True)


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
    closer_look: CloserLook | None = Field(None, description=LOOK)


class AnswerItem(Judged):
    """The answer to one question about a pair."""

    relevance_score: float = Field(description=_PROBABILITY)


class ScoreItem(Judged):
    """The score of one pair."""

    index: int
    object: Literal["score"] = "score"
    score: float = Field(description=_SCORE)
    answers: dict[str, AnswerItem] = Field(description=_ANSWERS)


class ScoreAnswer(BaseModel):
    """Scores in the order of the pairs."""

    id: str
    object: Literal["list"] = "list"
    created: int = Field(description="Seconds since 1970.")
    model: str
    question: str = Field(description=QUESTION)
    data: list[ScoreItem]
    usage: Usage


class RerankItem(AnswerItem):
    """One document's place."""

    relevance_score: float = Field(description=_SCORE)
    index: int = Field(description="The document's place in the request.")
    document: Picture | None = Field(None, exclude_if=is_missing, description="As sent, with `return_documents`.")


class RerankAnswer(BaseModel):
    """Documents from the most to the least alike."""

    id: str
    model: str
    question: str = Field(description=QUESTION)
    results: list[RerankItem]
    usage: Usage


class TextRank(BaseModel):
    """The place of one of the `texts`, in the form of Text Embeddings Inference."""

    index: int = Field(description="The picture's place in the request.")
    score: float = Field(description=_SCORE)
    text: Picture | None = Field(None, exclude_if=is_missing, description="As sent, with `return_text`.")


class LinkItem(BaseModel):
    """A patch of each of the two pictures, and how much the network looked from one to the other."""

    patches: tuple[tuple[int, int], tuple[int, int]] = Field(
        description="Row and column, from the top left, of the patch of the first picture and of that of the second."
    )
    share: float = Field(description="Share of a patch's attention that the other one gets, 0 to 1.")


Corners = list[tuple[float, float]]


class Placement(BaseModel):
    """The corners of each of two pictures in the other, from its top left clockwise: x and y as shares of the other's
    width and height.
    """

    first_in_second: Corners
    second_in_first: Corners


class ExplainAnswer(AnswerItem):
    """The explanation of a pair's score."""

    id: str
    object: Literal["explanation"] = "explanation"
    model: str
    question: str = Field(description=QUESTION)
    answers: dict[str, AnswerItem] = Field(description=_ANSWERS)
    grid: tuple[int, int] = Field(description="Rows and columns of patches that each picture is cut into.")
    crossing: float = Field(description="Share of all attention that goes to the other picture, 0 to 1.")
    evidence: Evidence | None = Field(None, description="What the closer look saw; null without one.")
    placement: Placement | None = Field(
        None, description="null where one cannot be laid over the other, and without a closer look."
    )
    links: list[LinkItem] = Field(description="Strongest first; each patch in one at most.")
    attention: list[list[float]] | None = Field(
        None,
        exclude_if=is_missing,
        description="With `matrix`: a row a patch of the first picture, a column one of the second, row by row.",
    )
    overlay: str | None = Field(None, exclude_if=is_missing, description="With `overlay`: a PNG as a data URI.")
    usage: Usage


class EmbeddingItem(BaseModel):
    """One picture's embedding, a unit vector."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingAnswer(BaseModel):
    """Embeddings in the order of the pictures."""

    object: Literal["list"] = "list"
    data: list[EmbeddingItem]
    model: str
    usage: Usage


class MatchItem(BaseModel):
    """A picture of the collection beside the query."""

    id: str
    path: str | None
    metadata: dict[str, Any]
    relevance_score: float | None = Field(description="Calibrated probability; null where the network did not look.")
    raw_score: float | None
    verdict: Verdict | None = Field(description="What the probability comes to; null where there is none.")
    closer_look: CloserLook | None = Field(None, description=LOOK)
    similarity: float = Field(description="Cosine of the two embeddings, weighted for the question, -1 to 1.")
    rank: int = Field(description="Place after re-ranking, from 1.")
    first_rank: int = Field(description="Place by the embedding alone, from 1.")
    file_state: FileState | None = Field(
        None, description="Whether its file is still the one that was read, by size and time; null if not known."
    )
    thumbnail: str = Field(description="Where a small JPEG of it is.")


class SearchAnswer(BaseModel):
    """The matches after re-ranking, and the candidates as the embedding alone would have answered."""

    id: str
    object: Literal["search"] = "search"
    model: str
    question: str = Field(description=QUESTION)
    matches: list[MatchItem]
    candidates: list[MatchItem]
    reranked: int = Field(description="The number of candidates that were re-ranked.")
    closer_looks: int = Field(
        description=f"The number of candidates that got a closer look: the likeliest {CLOSER_LOOKS} at most."
    )
    timings: dict[str, float] = Field(description="Seconds by stage.")


class ImageItem(BaseModel):
    """A picture of the collection."""

    id: str
    object: Literal["image"] = "image"
    path: str | None
    metadata: dict[str, Any]
    width: int
    height: int
    frames: int | None = Field(
        description="Frames of an animation, pages of a TIFF or pictures of a burst; null if an earlier version of "
        "Diptych added the picture, which did not count them."
    )
    original_kept: bool = Field(description="Whether the collection keeps the file itself, not only its path.")
    added: str = Field(description="ISO 8601 time.")
    content: str = Field(description="Where the file is.")
    thumbnail: str = Field(description="Where a small JPEG of it is.")


class AddedItem(ImageItem):
    """A picture that is in the collection now."""

    created: bool = Field(description="False if the same file was there already.")


class AddAnswer(BaseModel):
    """The added pictures in the order of the request."""

    object: Literal["list"] = "list"
    data: list[AddedItem]


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


class DryRunAnswer(BaseModel):
    """The preview of adding these pictures; nothing was written."""

    object: Literal["list"] = "list"
    dry_run: Literal[True] = True
    data: list[ForeseenItem]
    refused: int = Field(description="How many would be refused. With any, none of the others is added either.")


class ImageList(BaseModel):
    """A page of the collection."""

    object: Literal["list"] = "list"
    data: list[ImageItem]
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
    closer_look: CloserLook | None = Field(None, description=LOOK)
    replaced_by: str | None = Field(
        description="The id of the picture that can stand for it, so that this one can go; null where it is left to a "
        "person."
    )
    kept_because: str = Field(
        description='The reason for which that one is kept and not this one, "more pixels", or for which this one '
        'stays: "they differ in a part".'
    )
    edit: str = Field(description='What distinguishes it from the other: "mirrored, smaller".')


class DuplicateGroup(BaseModel):
    """The picture to keep, and those that match it."""

    keeper: str = Field(description="Its id.")
    members: list[DuplicateItem]


class KeypointsItem(BaseModel):
    """The progress of the pictures of a crowd, whose keypoints vote for further pairs."""

    described: int = Field(description="Those described by their keypoints, now and in earlier requests.")
    total: int = Field(description="Those to describe: 0 until all pairs are scored, and where there is no crowd.")


class LooksItem(BaseModel):
    """The progress of the closer looks."""

    taken: int = Field(description="Those taken, now and in earlier requests.")
    total: int = Field(description="Those due, as far as is known: 0 until all pairs are scored.")


class Pairs(BaseModel):
    """The progress of scoring pairs."""

    id: str
    model: str
    question: str = Field(description=QUESTION)
    stage: Literal["pairs", "keypoints", "closer_looks"] = Field(
        description="What is being counted: the `pairs` that are scored, then, of pictures in a crowd of look-alikes, "
        "those that are described by their `keypoints`, and then the `closer_looks` at pairs that deserve one, which "
        "take longest."
    )
    scored: int = Field(description="Pairs that have their score, now and from earlier requests.")
    total: int = Field(description="Pairs to score, as far as is known.")
    keypoints: KeypointsItem
    closer_looks: LooksItem


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
    alarm_rate: float | None = Field(
        description="The share of the pictures expected in a false pair; null where the model does not say."
    )
    left_out: int = Field(description="Pairs that reach lower, but were too many to answer: the least sure ones.")


class PairItem(BaseModel):
    """Two pictures to ask a person about."""

    a: ImageItem
    b: ImageItem
    relevance_score: float = Field(description="As it is now.")
    verdict: Verdict
    similarity: float = Field(description="The cosine of their embeddings.")
    reason: Reason = Field(
        description="Why it teaches: it is near a `threshold`, two ways of looking are in `disagreement`, or it adds "
        "to the `spread` of probabilities."
    )


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


class LabelItem(Shown):
    """A person's answer about two pictures, the lower id first."""

    a: str
    b: str
    question: str
    answer: Answer
    added: str = Field(description="ISO 8601 time.")
    path_a: str | None = Field(description="null where the collection has no path, or not the picture any more.")
    path_b: str | None


class LabelList(BaseModel):
    """A page of the labels of a collection."""

    object: Literal["list"] = "list"
    data: list[LabelItem]
    has_more: bool
    next: int | None = Field(description="The `after` of the next page.")
    counts: LabelCounts | None = Field(description="Of all labels, on the first page; null on those behind it.")


class LabelTakenBack(BaseModel):
    """A label that was taken back, if there was one."""

    a: str
    b: str
    question: str
    taken_back: bool = Field(description="False if the pair had no label.")


class CollectionItem(Shown):
    """A collection by its name."""

    name: str
    object: Literal["collection"] = "collection"
    pictures: int | None = Field(description="null if it is damaged, like the generation.")
    disk_bytes: int | None = Field(description="null where that is not to be known.")
    model: str | None = Field(description="The model that serves it; null if it is damaged, like its revision.")
    revision: str | None
    generation: int | None = Field(description="Changes in its index.")
    fault: str | None = Field(description="Why it could not be opened; null if all is well.")


class CollectionList(BaseModel):
    """All collections, by name."""

    object: Literal["list"] = "list"
    data: list[CollectionItem]


class DeletedCollection(BaseModel):
    """A collection that is no more."""

    name: str
    object: Literal["collection"] = "collection"
    deleted: Literal[True] = True
    pictures: int = Field(description="How many went with it.")


class ModelItem(BaseModel):
    """The served model."""

    id: str
    object: Literal["model"] = "model"
    created: int = Field(description="When this service started, seconds since 1970.")
    owned_by: Literal["diptych"] = "diptych"
    revision: str


class ModelList(BaseModel):
    """The served model, as a list of one."""

    object: Literal["list"] = "list"
    data: list[ModelItem]


class Limits(BaseModel):
    """The limits of one request."""

    body_bytes: int
    body_seconds: float = Field(description="How long a body may take to arrive.")
    bodies_bytes: int = Field(description="Bytes of the bodies of all requests that are being answered.")
    pictures: int
    pairs: int = Field(description="How many may wait to be scored.")
    seconds: float = Field(description="How long a request may take.")
    top: int
    candidates: int
    workers: int
    waiting: int
    decode_seconds: float = Field(description="How long decoding a picture may take.")
    decode_memory: int = Field(description="Bytes of memory that decoding one may take.")
    urls: bool = Field(description="Whether pictures may be named by web address.")
    url_bytes: int = Field(description="Bytes of a picture behind a web address.")
    url_seconds: float = Field(description="How long fetching one may take.")
    duplicates_pictures: int = Field(description="The largest collection that /v1/duplicates searches.")
    duplicates_pairs: int = Field(description="The most pairs that it answers.")
    metadata_bytes: int = Field(
        description="Bytes of a picture's metadata as JSON, the `filename` of an upload among them."
    )
    picture_bytes: int
    picture_pixels: int
    picture_side: int = Field(description="The shortest side that is still taken, in pixels.")


class QuestionItem(BaseModel):
    """A question that the model answers."""

    thresholds: dict[str, float] = Field(description="relevance_score at stated false-positive rates.")
    verdicts: dict[Verdict, float] = Field(description="The lowest relevance_score of each verdict but `different`.")
    negatives: dict[Negatives, dict[str, float]] = Field(
        description="relevance_score at the rates at which pairs that do not match reach it, drawn at `random` or as "
        "the first stage's ten `nearest`; what is not measured is missing."
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


class Info(BaseModel):
    """The description of this service, its model and its settings."""

    name: Literal["diptych"] = "diptych"
    version: str
    model: str
    revision: str
    provider: str = Field(description="The ONNX Runtime provider that really runs.")
    attention_path: str = Field(description="How the custom operator is computed.")
    pair_path: str = Field(description="In which precision pairs are scored here, and why.")
    threads: int
    panel_size: int = Field(description="Side in pixels to which each picture is brought.")
    embedding_dim: int
    formats: list[str] = Field(description="The formats of pictures that are read here.")
    thresholds: dict[str, float] = Field(description="relevance_score at false-positive rates, default question.")
    questions: dict[str, QuestionItem] = Field(description="What the model answers, by name.")
    calibration: CalibrationItem | None = Field(description="One's own over the released one; null if there is none.")
    limits: Limits
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
