"""The calibration of the model, as answers say it."""

from __future__ import annotations

from pydantic import BaseModel, Field

from diptych_runtime.calibration.thresholds import Negatives
from diptych_runtime.calibration.verdicts import Verdict


class QuestionItem(BaseModel):
    """A question that the model answers."""

    thresholds: dict[str, float] = Field(description="relevance_score at stated false-positive rates.")
    verdicts: dict[Verdict, float] = Field(description="The lowest relevance_score of each verdict but `different`.")
    negatives: dict[Negatives, dict[str, float]] = Field(
        description="relevance_score at the rates at which pairs that do not match reach it, drawn at `random` or as "
        "the first stage's ten `nearest`; what is not measured is missing."
    )


class CalibratedQuestion(BaseModel):
    """The labels that a question's own calibration was fitted to."""

    same: int
    different: int


class CalibrationItem(BaseModel):
    """A calibration of one's own over the released one (`diptych calibrate`)."""

    made: str = Field(description="ISO 8601 time.")
    model: str = Field(description="The model that it was made over, as it was opened.")
    questions: dict[str, CalibratedQuestion]
