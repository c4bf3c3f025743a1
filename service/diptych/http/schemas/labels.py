"""The answers about labelled pairs."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from diptych.http.schemas.pairs import Pairs
from diptych.http.schemas.responses import ImageItem
from diptych.labelling.choose import Reason
from diptych.store.records import Answer
from diptych_runtime.calibration.verdicts import Verdict


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


class PairsBegun(Pairs):
    """Not done yet: the same request once more goes on from here."""

    complete: Literal[False] = False


class PairsToLabel(Pairs):
    """The pairs to label, the one that teaches most first; none when all are labelled."""

    complete: Literal[True] = True
    data: list[PairItem]
    labels: LabelCounts = Field(description="Of the labels to this question.")


class LabelItem(BaseModel):
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
