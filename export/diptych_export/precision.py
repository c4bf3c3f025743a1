"""A model in 8 bits for the CPU, accepted only if its rankings stay good.

Norms do not say whether the right picture still comes first, so pictures decide: each is edited, and the edit has to
find it among all others.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from PIL import Image

from diptych.console import format_table
from diptych_export.byte_pair import in_bytes
from diptych_export.graphs import Graphs
from diptych_runtime.calibration.questions import COPY, MATCH
from diptych_runtime.decoder import open_picture, panel_pixels
from diptych_runtime.errors import ArtifactError, PictureError
from diptych_runtime.folders import pictures_below
from diptych_runtime.kernel import KernelError, Library, load_kernel
from diptych_runtime.manifest import PAIR_INT8_GRAPH, Question
from diptych_runtime.session import open_session

PRECISIONS = ("float32", "int8")
LOSS, PAIR_LOSS = 0.01, 0.003  # of a ranking metric by convolutions in 8 bits; by pairs in 8 bits
MOST, FEWEST = 400, 32  # pictures, half of them to calibrate on and half to judge by
EXACT = 1 / 8  # of the convolutions, the first ones, stay in float32: what they lose, all others lose too
RANKED = "pairs_int8"  # in a manifest's `ranking`
_CHUNK = 16


@dataclass(frozen=True)
class Ranking:
    """Ranking metrics of edits that look for their originals, in float32 and as written: (before, after) of each
    figure.

    `recall` is the share of edits whose original has the nearest embedding, `micro_ap` the average precision of all
    pairs of an edit and a picture, by their score.
    """

    pictures: int
    recall: tuple[float, float]
    micro_ap: tuple[float, float]

    def require(self, loss: float = LOSS) -> None:
        """Raise ArtifactError if either figure falls by more than `loss`."""
        for name, (before, after) in (("recall@1", self.recall), ("micro-AP", self.micro_ap)):
            if not after >= before - loss:
                raise ArtifactError(
                    f"in 8 bits {name} falls from {before:.3f} to {after:.3f} over {self.pictures} pictures; at most "
                    f"{loss:g} is allowed, so nothing was written: write it with --precision float32"
                )

    def text(self) -> str:
        """A table for people."""
        rows = [
            (name, f"{before:.3f}", f"{after:.3f}")
            for name, (before, after) in (("embedding, recall@1", self.recall), ("pairs, micro-AP", self.micro_ap))
        ]
        return f"{format_table((f'{self.pictures} edits', 'float32', 'as written'), rows)}"


@dataclass(frozen=True)
class Pictures:
    """Pictures to calibrate and judge a model in 8 bits: pixels uint8 (n, S, S, 3) each; `edits` are of `originals`."""

    calibration: np.ndarray
    originals: np.ndarray
    edits: np.ndarray

    @classmethod
    def read_folder(cls, folder: Path, size: int) -> Pictures:
        """Up to `MOST` pictures from all over a folder. Raises ArtifactError if it has too few."""
        if not folder.is_dir():
            raise ArtifactError(
                f"{folder} is no folder; give --pictures a folder of pictures like those to be compared"
            )
        files = sorted(pictures_below(folder))
        pictures: list[Image.Image] = []
        for path in files[:: max(1, len(files) // MOST)][:MOST]:
            try:
                pictures.append(open_picture(path))
            except PictureError:
                continue
        if len(pictures) < FEWEST:
            raise ArtifactError(f"{folder} has {len(pictures)} readable pictures; at least {FEWEST} are needed")
        judged = pictures[1::2]
        rng = np.random.default_rng(0)
        return cls(
            np.stack([panel_pixels(picture, size) for picture in pictures[::2]]),
            np.stack([panel_pixels(picture, size) for picture in judged]),
            np.stack([panel_pixels(_edit_picture(picture, rng), size) for picture in judged]),
        )


def make_int8(
    graphs: Graphs, pictures: Pictures, questions: Mapping[str, Question]
) -> tuple[Graphs, dict[str, bytes], dict[str, Any]]:
    """The graphs with the panel's convolutions in 8 bits, further files of the artifact, and its `ranking`.

    The first convolutions stay in float32, and so does the pair graph, beside which one in 8 bits lies as a file of
    its own where this processor can judge it. Raises ArtifactError where the pictures are ranked worse.
    """
    made = graphs._replace(panel=quantize_panel(graphs.panel, pictures.calibration))
    ranking = compare_ranking(graphs, made, pictures, questions)
    ranking.require()
    try:
        library, pair = load_kernel(), in_bytes(made.pair)
    except (KernelError, ArtifactError):  # without the kernel nobody could judge it; or nothing of it can be in 8 bits
        return made, {}, asdict(ranking)
    if not library.byte_instructions:
        return made, {}, asdict(ranking)
    of_pairs = compare_ranking(made, made._replace(pair=pair), pictures, questions, library=library)
    of_pairs.require(PAIR_LOSS)
    files = {PAIR_INT8_GRAPH: pair.SerializeToString(deterministic=True)}
    return made, files, asdict(ranking) | {RANKED: asdict(of_pairs)}


def compare_ranking(
    before: Graphs,
    after: Graphs,
    pictures: Pictures,
    questions: Mapping[str, Question] | None = None,
    *,
    library: Library | None = None,
) -> Ranking:
    """The ranking metrics of two versions of the graphs, whose logits answer the questions.

    By the kernel's `library`, if it is given, and else by standard operators. Edits are copies, so *copy* is asked
    where it is among them, and else the first.
    """
    questions = questions or {MATCH: Question()}
    asked = COPY if COPY in questions else next(iter(questions))
    column = list(questions).index(asked)
    found = [_measure_ranking(graphs, pictures, column, questions[asked], library) for graphs in (before, after)]
    (recall, micro_ap), (recall_after, micro_ap_after) = found
    return Ranking(len(pictures.edits), (recall, recall_after), (micro_ap, micro_ap_after))


def ranking_texts(ranking: Mapping[str, Any]) -> list[str]:
    """The tables of a manifest's `ranking`."""
    whole = {name: value for name, value in ranking.items() if name != RANKED}
    texts = [Ranking(**whole).text()] if whole else []
    return [*texts, f"the pair graph in 8 bits:\n{Ranking(**ranking[RANKED]).text()}"] if RANKED in ranking else texts


def _edit_picture(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """A quarter to a half of the picture's area, saved as a poor JPEG."""
    share = np.sqrt(rng.uniform(0.25, 0.5))
    width, height = (max(8, round(side * share)) for side in picture.size)
    left, top = (int(rng.integers(whole - part + 1)) for whole, part in zip(picture.size, (width, height), strict=True))
    buffer = BytesIO()
    picture.crop((left, top, left + width, top + height)).save(buffer, "JPEG", quality=30)
    return Image.open(buffer)


class _Reader(CalibrationDataReader):
    """Hands the pictures to the quantiser, chunk by chunk."""

    def __init__(self, name: str, pixels: np.ndarray) -> None:
        self.feeds = iter([{name: pixels[start : start + _CHUNK]} for start in range(0, len(pixels), _CHUNK)])

    def get_next(self) -> dict[str, np.ndarray]:
        """The next chunk; its None at the end is the library's own way."""
        return next(self.feeds, None)  # pyright: ignore[reportReturnType]


def quantize_panel(graph: onnx.ModelProto, calibration: np.ndarray) -> onnx.ModelProto:
    """The panel graph with its convolutions in 8 bits, with scales from the pixels of `calibration`."""
    with tempfile.TemporaryDirectory() as folder, _silence_quantiser():
        # A path: given the graph itself, it would move its weights to a file.
        onnx.save(graph, Path(folder, "float32.onnx"))
        convolutions = [node.name for node in graph.graph.node if node.op_type == "Conv"]
        quantize_static(
            Path(folder, "float32.onnx"),
            Path(folder, "int8.onnx"),
            _Reader(graph.graph.input[0].name, calibration),
            quant_format=QuantFormat.QDQ,
            # A convolution's result is kept in 8 bits behind its ReLU6: what that cuts off needs no part of the range.
            op_types_to_quantize=["Conv", "Clip"],
            nodes_to_exclude=convolutions[: round(EXACT * len(convolutions))],
            per_channel=True,
            # Without VNNI two products are added in 16 bits, which 8-bit weights overflow.
            reduce_range=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        return onnx.load(Path(folder, "int8.onnx"))


def _measure_ranking(
    graphs: Graphs, pictures: Pictures, column: int, question: Question, library: Library | None
) -> tuple[float, float]:
    """The share of edits whose original has the nearest embedding, and the average precision by one logit."""
    panel, pair = (open_session(graph.SerializeToString(), library=library) for graph in (graphs.panel, graphs.pair))
    (tokens, embeddings), (edited, queries) = (
        [np.concatenate(part) for part in zip(*_in_chunks(panel, pixels), strict=True)]
        for pixels in (pictures.originals, pictures.edits)
    )
    kind = np.float16 if "float16" in pair.get_inputs()[0].type else np.float32
    # As they are stored.
    tokens, edited = (each.astype(np.float16).astype(kind) for each in (tokens, edited))
    count = len(tokens)
    logits = np.empty((count, count), np.float32)
    for row in range(count):
        for start in range(0, count, _CHUNK):
            some = tokens[start : start + _CHUNK]
            feeds = {"tokens_a": np.repeat(edited[row : row + 1], len(some), 0), "tokens_b": some}
            logits[row, start : start + _CHUNK] = pair.run(None, feeds)[0].reshape(len(some), -1)[:, column]
    nearest = (question.weight_queries(queries.astype(np.float32)) @ embeddings.T.astype(np.float32)).argmax(1)
    right = np.eye(count, dtype=bool).ravel()[np.argsort(-logits.ravel(), kind="stable")]
    places = right.nonzero()[0]
    return float((nearest == np.arange(count)).mean()), float((np.arange(1, count + 1) / (places + 1)).mean())


def _in_chunks(panel: Any, pixels: np.ndarray) -> list[list[np.ndarray]]:
    return [panel.run(None, {"pixels": pixels[start : start + _CHUNK]}) for start in range(0, len(pixels), _CHUNK)]


@contextmanager
def _silence_quantiser() -> Iterator[None]:
    """Silence the quantiser, which advises a preparation that folded graphs do not need."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
