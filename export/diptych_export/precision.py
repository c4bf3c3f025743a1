"""A model in fewer bits, int8 convolutions for the CPU or float16 for a GPU, accepted only if its rankings stay good.

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
from onnxruntime.transformers.float16 import convert_float_to_float16
from PIL import Image

from diptych.console import format_table
from diptych_export.graphs import Graphs, inline_functions
from diptych_runtime.calibration.questions import COPY, MATCH
from diptych_runtime.decoder import open_picture, panel_pixels
from diptych_runtime.errors import ArtifactError, PictureError
from diptych_runtime.folders import pictures_below
from diptych_runtime.kernel import Library
from diptych_runtime.manifest import Question
from diptych_runtime.session import open_session

PRECISIONS = ("float32", "float16", "int8")
LOSS, PAIR_LOSS = 0.01, 0.003  # of a ranking metric by another precision; of the pair graph by 8 bits
MOST, FEWEST = 400, 32  # pictures, half of them to calibrate on and half to judge by
EXACT = 1 / 8  # of the convolutions, the first ones, stay in float32: what they lose, all others lose too
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
                    f"in fewer bits {name} falls from {before:.3f} to {after:.3f} over {self.pictures} pictures; at "
                    f"most {loss:g} is allowed, so nothing was written: write it with --precision float32"
                )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, as written into the manifest."""
        return asdict(self)

    def text(self) -> str:
        """A table for people."""
        rows = [
            (name, f"{before:.3f}", f"{after:.3f}")
            for name, (before, after) in (("embedding, recall@1", self.recall), ("pairs, micro-AP", self.micro_ap))
        ]
        return f"{format_table((f'{self.pictures} edits', 'float32', 'as written'), rows)}"


@dataclass(frozen=True)
class Pictures:
    """Pictures to calibrate and judge a model in fewer bits: pixels uint8 (n, S, S, 3) each; `edits` are of
    `originals`.
    """

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


def in_precision(graphs: Graphs, precision: str, calibration: np.ndarray) -> Graphs:
    """The graphs in "int8" or "float16".

    int8 has the panel graph's convolutions in 8 bits, but for the first, with scales from the pixels of `calibration`,
    and the pair graph as it was: that in 8 bits lies beside it (`byte_pair`). float16 has panel and pair graph in
    float16 throughout but for the last product and what comes behind it, in standard operators only, with tokens in and
    out in float16 as they are stored.
    """
    if precision == "int8":
        return graphs._replace(panel=_quantize_int8(graphs.panel, calibration))
    names = [node.name for node in graphs.pair.graph.node]
    last = max(place for place, node in enumerate(graphs.pair.graph.node) if node.op_type == "Gemm")
    return graphs._replace(
        panel=_convert_float16(graphs.panel, ["pixels", "embeddings"], []),
        pair=_convert_float16(graphs.pair, ["logits"], names[last:]),
    )


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


def _quantize_int8(graph: onnx.ModelProto, calibration: np.ndarray) -> onnx.ModelProto:
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


def _convert_float16(graph: onnx.ModelProto, kept: list[str], blocked: list[str]) -> onnx.ModelProto:
    plain = inline_functions(graph) if graph.functions else graph
    # Names as well as a bool, says its documentation; its signature does not.
    keep: Any = kept
    return convert_float_to_float16(plain, keep_io_types=keep, node_block_list=blocked)


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
