"""Graphs to measure a machine and ourselves against: a plain matrix product, and peers of ours, whose weights, where
they have any, say nothing. No torch, no onnx: `diptych_studies.benchmarks.bench_graphs` made the files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diptych_runtime.session import open_session

FOLDER = Path(__file__).parent
SGEMM_SIZE = 1024


def open_yardstick(name: str, threads: int) -> Any:
    """An ONNX Runtime session of one of the graphs of this folder, on the CPU.

    *sgemm* multiplies two float32 (1024, 1024); *vit_s16_pair* scores two pictures (B, 3, 224, 448) side by side with
    the layers of ViT-S/16: 12 of width 384 with 6 heads, over 392 patches and a class token; *cnn_pair* scores them as
    six channels (B, 6, 224, 224) with those of ResNet-18. *late* scores unit tokens float16, of a query (1, T, d) and
    of candidates (P, T, d), by late interaction.
    """
    return open_session((FOLDER / f"{name}.onnx").read_bytes(), threads=threads)
