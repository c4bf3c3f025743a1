"""The answers about pairs of a collection: how far their scoring is, and groups of duplicates."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from diptych.http.schemas.responses import LOOK, QUESTION, ImageItem
from diptych_runtime.calibration.verdicts import Verdict
from diptych_runtime.judgement import CloserLook


class DuplicateItem(BaseModel):
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


class DuplicatesBegun(Pairs):
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
