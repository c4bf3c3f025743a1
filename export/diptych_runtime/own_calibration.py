"""A calibration of one's own, laid over a released artifact: a small JSON file that names the model and holds, for each
question, a line through its log-odds and the probabilities from which on each verdict is said.

Wherever a model is named, such a file may be: the artifact is opened with the calibration over it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from diptych_runtime.atomic import sync_folder, write_atomic
from diptych_runtime.calibration.evidence import AfterLook
from diptych_runtime.calibration.recalibration import recalibrate_probabilities
from diptych_runtime.calibration.thresholds import Thresholds
from diptych_runtime.errors import ArtifactError
from diptych_runtime.manifest import Manifest, Question, digest
from diptych_runtime.own_files import open_own
from diptych_runtime.parsing import parse_json

CALIBRATION = "calibration.json"  # beside a collection
FORMAT = 1
_FAR = 1000.0  # farther than labels move log-odds


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class OwnQuestion:
    """One question: the `scale` (0.001 to 1,000) and `offset` (up to 1,000 either way) of the released log-odds, and
    `thresholds` {false-positive rate: relevance} of what comes out; `same` and `different` count the labels it was
    fitted to.
    """

    scale: float
    offset: float
    thresholds: Thresholds
    same: int = 0
    different: int = 0

    def __post_init__(self) -> None:
        if not 1 / _FAR <= self.scale <= _FAR:
            raise ValueError(f"expected a 'scale' from {1 / _FAR:g} to {_FAR:g}, got {self.scale}")
        if not -_FAR <= self.offset <= _FAR:
            raise ValueError(f"expected an 'offset' from {-_FAR:g} to {_FAR:g}, got {self.offset}")

    def apply_to(self, released: Question) -> Question:
        """The released question with this calibration applied to it.

        Of what does not match, as many pairs pass a place of the line as before: `negatives` move along.
        """
        negatives = {
            kind: {
                rate: float(recalibrate_probabilities(np.array(least), self.scale, self.offset))
                for rate, least in stated.items()
            }
            for kind, stated in released.negatives.items()
        }
        made = replace(released, negatives=negatives, thresholds=self.thresholds)
        if (look := released.verification) is not None:
            before, offset = look.recalibration
            line = (self.scale * before, self.scale * offset + self.offset)
            look = replace(look, recalibration=line, thresholds=self.thresholds)
            return replace(made, verification=look, thresholds=released.thresholds)
        if (after := released.after_look) is not None:
            # Of x the network's log-odds have become scale * x + offset, which the other weights have to follow.
            weights = {name: self.scale * weight for name, weight in after.weights.items()}
            weights["odds"] = after.weights["odds"]
            weights["bias"] += (1 - weights["odds"]) * self.offset
            made = replace(made, after_look=AfterLook(weights, self.scale * after.in_vain))
        scale, offset = self.scale * released.scale, self.scale * released.offset + self.offset
        return replace(made, scale=scale, offset=offset)


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class OwnCalibration:
    """Calibrations of some `questions` of a `model`, which is named as it is opened: by name, or by an absolute path.

    `revision` is that of its graphs, and `released` the digest of the released calibration that this one begins at;
    `made` is an ISO time (UTC).
    """

    model: str
    revision: str
    released: str
    made: str
    questions: dict[str, OwnQuestion] = field(default_factory=dict)
    format: int = FORMAT

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> OwnCalibration:
        """Read a calibration; ArtifactError where it is missing, damaged or of an unknown format."""
        again = "make it again with `diptych calibrate`, or remove it"
        try:
            with open_own(path, may_link=True) as file:
                values = parse_json(file.read().decode())
            json.dumps(values, ensure_ascii=False).encode()  # half a surrogate pair could not be printed
        except (OSError, ValueError) as error:
            raise ArtifactError(f"the calibration {path} cannot be read as JSON ({error}); {again}") from None
        found = values.get("format") if isinstance(values, dict) else None
        if type(found) is not int or found != FORMAT:
            raise ArtifactError(
                f"the calibration {path} has format {found!r}, this version of diptych reads {FORMAT}; {again}"
            )
        try:
            return TypeAdapter(cls).validate_python(values)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the whole"
            raise ArtifactError(f"the calibration {path} is not valid: {where}: {first['msg']}; {again}") from None

    @classmethod
    def load_beside(cls, folder: Path) -> OwnCalibration | None:
        """The calibration in the folder of a collection, or None.

        It may be over any model. Raises ArtifactError for a damaged one.
        """
        return cls.load(folder / CALIBRATION) if (folder / CALIBRATION).exists() else None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file, whole or not at all."""
        write_atomic(Path(path), (json.dumps(asdict(self), indent=2) + "\n").encode())

    def fits(self, manifest: Manifest) -> bool:
        """True if it was made over the calibration of this model."""
        return (self.revision, self.released) == (manifest.revision, released_digest(manifest))

    def apply_to(self, manifest: Manifest) -> Manifest:
        """The manifest of a model with this calibration applied to it.

        Raises ArtifactError if it was made over another, or has a question that the model does not answer.
        """
        if not self.fits(manifest):
            raise ArtifactError(
                f"the calibration was made over the model {self.model} ({self.revision}, calibrated as "
                f"{self.released}) and not over {manifest.name} ({manifest.revision}, {released_digest(manifest)}); "
                "make it again with `diptych calibrate`"
            )
        if strange := [name for name in self.questions if name not in manifest.questions]:
            raise ArtifactError(
                f"the calibration has the question {', '.join(map(repr, strange))}, which the model {manifest.name} "
                f"does not answer (it answers {', '.join(manifest.questions)}); make it again with `diptych "
                "calibrate`, or remove it"
            )
        laid = {name: own.apply_to(manifest.questions[name]) for name, own in self.questions.items()}
        return replace(manifest, questions=dict(manifest.questions) | laid)


def remove_calibration(folder: Path) -> bool:
    """Remove the calibration in the folder of a collection, also a damaged one; False if there was none."""
    try:
        (folder / CALIBRATION).unlink()
    except FileNotFoundError:
        return False
    sync_folder(folder)
    return True


def released_digest(manifest: Manifest) -> str:
    """The digest of a manifest's calibration: 12 hexadecimal digits."""
    described = {name: _nonempty_values(asdict(question)) for name, question in manifest.questions.items()}
    return digest(json.dumps(described, sort_keys=True).encode())[:12]


def _nonempty_values(question: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a question that are not empty: a later version, which has more of them, gives the same."""
    parts = {name: _nonempty_values(value) if isinstance(value, dict) else value for name, value in question.items()}
    return {name: value for name, value in parts.items() if value}
