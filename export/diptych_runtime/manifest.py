"""The manifest of a model artifact."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ConfigDict, StrictInt, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from diptych_runtime.atomic import write_atomic
from diptych_runtime.calibration.evidence import NUMBERS, AfterLook, Evidence, Verification
from diptych_runtime.calibration.normalization import normalize_logits, shifts_of_pairs
from diptych_runtime.calibration.questions import MATCH, default_question, upgrade_to_questions
from diptych_runtime.calibration.recalibration import sigmoid
from diptych_runtime.calibration.thresholds import Negatives, Thresholds, alarm_rate
from diptych_runtime.calibration.verdicts import Verdict, verdict, verdict_thresholds
from diptych_runtime.errors import ArtifactError
from diptych_runtime.own_files import open_own
from diptych_runtime.parsing import parse_json
from diptych_runtime.paths import shell_word
from diptych_runtime.token_codec import TokenCodec

FORMAT = 2
MANIFEST = "manifest.json"
PANEL_GRAPH, PAIR_GRAPH, EXPLAIN_GRAPH, CARD = "panel.onnx", "pair.onnx", "explain.onnx", "CARD.md"
# What stands for a folder, a file or a column somewhere: a word, which is no path.
_NAME = re.compile(r"[^\x00-\x1f\x7f/.][^\x00-\x1f\x7f/]{0,199}")
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
PAIR_INT8_GRAPH = "pair-int8.onnx"  # for processors with AVX-512 VNNI; what older versions of Diptych leave alone


def check_name(name: str) -> None:
    """Raise ValueError for the name of a model that a folder cannot have."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"the name must be one line without a slash or a dot at its beginning, got {name[:80]!r}")


_LOOKS = ("verification", "after_look")  # what a question makes of a closer look


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Question:
    """One question: relevance = sigmoid(scale * logit + offset), and `thresholds` {false-positive rate: relevance}.

    `weights` are what the parts of a query's embedding, all of one length, are multiplied by before it is compared with
    stored ones; none leave it as it is. `crops` is the side of the crops in which a query is looked for besides, as a
    share of its picture's (see `crops`); 0 for none. `cohort` is what the cohort of a list of candidates counts, whose
    mean logit is at the `level` for most queries (see `normalization`); 0 leaves scores as they are. `verification` is
    what a closer look makes of a score, and from which score on there is one; `after_look` is what a look at a possible
    copy makes of a score to a question that is not about copies. Those of a version that weighed other numbers
    (`evidence.NUMBERS`) are left out. `negatives` are thresholds of what is shown, after the closer look, for pairs
    that do not match and are drawn at `random`, or are the first stage's ten `nearest`.
    """

    scale: float = 1.0
    offset: float = 0.0
    thresholds: Thresholds = field(default_factory=dict)
    weights: tuple[float, ...] = ()
    crops: float = 0.0
    cohort: float = 0.0
    level: float = 0.0
    verification: Verification | None = None
    after_look: AfterLook | None = None
    negatives: dict[Negatives, Thresholds] = field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _drop_other_looks(cls, values: Any) -> Any:
        # What another version made of a look says nothing here: such a model is served without a closer look.
        if not isinstance(values, dict):
            return values
        looks = {name: look for name in _LOOKS if isinstance(look := values.get(name), dict)}
        other = [name for name, look in looks.items() if not set(look.get("weights", ())) <= set(NUMBERS)]
        other += ["after_look"] if "looked" in looks.get("after_look", ()) else []
        return {key: value for key, value in values.items() if key not in other}

    def __post_init__(self) -> None:
        if not 0 <= self.crops < 1 or not 0 <= self.cohort < math.inf or not math.isfinite(self.level):
            raise ValueError(
                "'crops' must be 0 or more and below 1, 'cohort' 0 or more and 'level' a number, "
                f"got {self.crops}, {self.cohort} and {self.level}"
            )
        if not (0 < self.scale < math.inf and math.isfinite(self.offset)):
            raise ValueError(
                f"calibration must be a positive 'scale' and an 'offset', got {self.scale} and {self.offset}"
            )

    def relevance(self, logits: np.ndarray) -> np.ndarray:
        """Calibrated probabilities float32 in [0, 1] of logits of any shape, computed in float64."""
        return sigmoid(self.scale * np.asarray(logits, np.float64) + self.offset).astype(np.float32)

    def logit(self, relevance: float) -> float:
        """The logit of a probability above 0 and below 1."""
        return (math.log(relevance / (1 - relevance)) - self.offset) / self.scale

    @property
    def is_calibrated(self) -> bool:
        """True if logits were calibrated to probabilities; otherwise they only order pairs."""
        return bool(self.thresholds or self.verification) or (self.scale, self.offset) != (1.0, 0.0)

    @property
    def effective_thresholds(self) -> dict[str, float]:
        """The thresholds that verdicts are made by: those after a closer look, if there is one."""
        return self.verification.thresholds if self.verification else self.thresholds

    def shown_relevance(self, logits: np.ndarray, seen: Sequence[Evidence | None]) -> np.ndarray:
        """Probabilities float64 (P,) as they are shown, from the logits (P,) of pairs and the evidence `seen` by a
        closer look at each, where there is one (`Verification.shown_relevance`).
        """
        known = self.relevance(logits).astype(np.float64)
        return self.verification.shown_relevance(known, seen) if self.verification else known

    def verdict(self, relevance: float) -> Verdict:
        """The verdict of a probability by `shown_relevance` (see `verdicts`)."""
        return verdict(relevance, self.effective_thresholds)

    def alarm_rate(self, pictures: int, threshold: float | None = None) -> float | None:
        """The false-alarm rate of a search without a match among so many pictures, for *same* or for another threshold
        (see `thresholds.alarm_rate`); None where random negatives were not measured.
        """
        least = verdict_thresholds(self.effective_thresholds)["same"] if threshold is None else threshold
        return alarm_rate(self.negatives.get("random", {}), least, pictures)

    def normalize_logits(self, logits: np.ndarray) -> np.ndarray:
        """The logits (..., K) of lists of K candidates, normalized by their rivals."""
        return normalize_logits(logits, self.cohort, self.level)

    def logit_shifts(self, pairs: np.ndarray, logits: np.ndarray, count: int) -> np.ndarray:
        """By how much float32 (count,) each picture of pairs int64 (P, 2) with logits (P,) lowers them, a pair by half
        of both of its pictures' together: what `normalize_logits` is where both sides have rivals.
        """
        return shifts_of_pairs(pairs, logits, count, self.cohort, self.level)

    def weight_queries(self, embeddings: np.ndarray) -> np.ndarray:
        """The embeddings float32 (B, e) weighted as those of queries that ask this."""
        if not self.weights:
            return embeddings
        return embeddings * np.repeat(np.array(self.weights, np.float32), embeddings.shape[1] // len(self.weights))


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Manifest:
    """The description of an artifact; `Manifest.load(directory)` reads and checks it.

    `revision` names the panel and the pair graph: what was stored under one revision cannot be compared with another's.
    The explain graph, where there is one, is not in it: no stored number depends on it; nor is the pair graph in 8
    bits, whose scores are told apart by themselves (`Runtime.scores_revision`).
    `token_shape` is (N, M, d), of which the first `byte_channels` are kept in 8 bits (`codec`), `questions` what the
    logits answer, a column each in this order, `digests` {file: sha256}, `parity` what the export compared and found,
    `metrics` what training measured, `flops` the operations of the panel graph for a picture and of the pair graph for
    a pair, `precision` "float32", "float16" or "int8", and `ranking` what the two latter did to one.
    """

    name: str
    revision: str
    panel_size: int
    token_shape: tuple[int, int, int]
    embedding_dim: int
    opset: int
    preprocessing: str
    digests: dict[str, str]
    questions: dict[str, Question] = field(default_factory=lambda: {MATCH: Question()})
    parity: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    flops: dict[str, int] = field(default_factory=dict)
    precision: str = "float32"
    ranking: dict[str, Any] = field(default_factory=dict)
    package: str = ""
    byte_channels: StrictInt = 0
    format: int = FORMAT

    def __post_init__(self) -> None:
        sizes = (self.panel_size, *self.token_shape, self.embedding_dim)
        if min(sizes) < 1:
            raise ValueError(f"sizes must be positive, got panel, tokens and embedding {sizes}")
        for what, words in {"revision": [self.revision], "question": self.questions, "digest": self.digests}.items():
            if strange := [word for word in words if not _WORD.fullmatch(word)]:
                raise ValueError(
                    f"each {what} must be a word of up to 64 letters, digits and ._-, got {strange[0][:80]!r}"
                )
        check_name(self.name)
        if not self.questions:
            raise ValueError("a model answers at least one question, got no questions")
        _ = self.codec  # raises ValueError
        if missing := {PANEL_GRAPH, PAIR_GRAPH} - set(self.digests):
            raise ValueError(f"digests lack {', '.join(sorted(missing))}")

    @property
    def scores_pixels(self) -> bool:
        """True if pairs are scored from pixels (`seam = "pixels"`).

        The pair graph is then the whole network, and the tokens of a picture are its pixels, from 0 to 255.
        """
        return self.token_shape == (self.panel_size, self.panel_size, 3)

    @property
    def codec(self) -> TokenCodec:
        """The way in which the tokens of a picture are kept."""
        return TokenCodec(self.token_shape, self.byte_channels)

    @property
    def picture_bytes(self) -> int:
        """The bytes that a picture's tokens and embedding take where they are kept."""
        return self.codec.nbytes + 4 * self.embedding_dim

    @property
    def thresholds(self) -> dict[str, float]:
        """The thresholds of the default question."""
        return self.questions[default_question(self.questions)].thresholds

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Manifest:
        """Read `manifest.json` of an artifact; ArtifactError where it is missing, damaged or of an unknown format.

        Format 1 had one calibration for whatever is asked.
        """
        path = Path(directory) / MANIFEST
        try:
            values = parse_json(_bytes_of(path).decode())
        except FileNotFoundError:
            # A checkpoint, or the best of a run: what can be exported as it is.
            trained = [
                place for place in (path.parent, path.parent / "best") if (place / "weights.safetensors").is_file()
            ]
            raise ArtifactError(
                f"{directory} is no model artifact: it has no {MANIFEST}; "
                f"make one with `diptych export {shell_word(trained[0]) if trained else 'CHECKPOINT'} -o DIR`"
            ) from None
        except (OSError, ValueError) as error:
            raise ArtifactError(f"{path} cannot be read as JSON ({error}); export the artifact again") from None
        found = values.get("format") if isinstance(values, dict) else None
        # As JSON has it: neither True nor 1.0 is a format.
        if type(found) is not int or found not in (1, FORMAT):
            raise ArtifactError(
                f"{path} has format {found!r}, this version of diptych reads the formats 1 and {FORMAT}; "
                "install a newer version of Diptych, or export the checkpoint again with the version installed here"
            )
        try:
            if found == 1:
                values = upgrade_to_questions(values) | {"format": FORMAT}
            return TypeAdapter(cls).validate_python(values)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "the whole"
            raise ArtifactError(f"{path} is not valid: {where}: {first['msg']}; export the artifact again") from None
        except ValueError as error:
            raise ArtifactError(f"{path} is not valid: {error}; export the artifact again") from None

    def check_shapes(self, panel: Any, pair: Any) -> None:
        """Raise ArtifactError where the sessions of a model's graphs have other shapes than this says."""
        size, questions = self.panel_size, self.questions
        pixels, tokens = (tuple(value.shape[1:]) for value in (panel.get_inputs()[0], panel.get_outputs()[0]))
        if (pixels, tokens) != ((size, size, 3), self.token_shape):
            raise ArtifactError(
                f"the model {self.name!r} has panels of {size} pixels with tokens {self.token_shape}, and its panel "
                f"graph takes {pixels} and gives {tokens}; export the artifact again"
            )
        embeddings = [tuple(value.shape[1:]) for value in panel.get_outputs()[1:]]
        if embeddings != [(self.embedding_dim,)]:
            raise ArtifactError(
                f"the model {self.name!r} has embeddings of {self.embedding_dim} numbers, and its panel graph gives "
                f"{embeddings}; export the artifact again"
            )
        _, *columns = pair.get_outputs()[0].shape
        if (columns or [1]) != [len(questions)]:
            raise ArtifactError(
                f"the model {self.name!r} names {len(questions)} questions ({', '.join(questions)}), and its pair "
                f"graph gives {columns or [1]} logits a pair; export the artifact again"
            )

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write `manifest.json` into the directory, whole or not at all."""
        write_atomic(Path(directory) / MANIFEST, (json.dumps(asdict(self), indent=2) + "\n").encode())

    def read_checked(self, directory: str | os.PathLike[str], file: str) -> bytes:
        """The bytes of one of the artifact's files, after comparing their sha256 with the manifest's."""
        path = Path(directory) / file
        try:
            data = _bytes_of(path)
        except OSError as error:
            raise ArtifactError(f"{path} cannot be read ({error.strerror}); export the artifact again") from None
        if (found := digest(data)) != self.digests[file]:
            raise ArtifactError(
                f"{path} is damaged or was exchanged: its sha256 is {found[:12]}..., "
                f"the manifest says {self.digests[file][:12]}...; copy or export the artifact again"
            )
        return data


def _bytes_of(path: Path) -> bytes:
    with open_own(path, may_link=True) as file:  # caches of downloaded models hold links
        return file.read()


def digest(data: bytes) -> str:
    """The sha256 of some bytes in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def revision_of(digests: Mapping[str, str]) -> str:
    """The revision that the panel and the pair graph make together: 12 hexadecimal digits."""
    return digest(f"{digests[PANEL_GRAPH]} {digests[PAIR_GRAPH]}".encode())[:12]
