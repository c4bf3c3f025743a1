"""`diptych bench` on pictures that are drawn in no time and with peers that compute nothing."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from diptych.bench import model, peers
from diptych.bench.graphs import open_yardstick


class Peer:
    """Stands in for a session of a peer, seconds a round; `tests/studies/benchmarks/test_bench_graphs` runs it."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def run(self, outputs, feeds) -> None:
        assert feeds["pixels"].shape == self.shape
        time.sleep(0.02)


SHAPES = {"vit_s16_pair": (1, 3, 224, 448), "cnn_pair": (1, 6, 224, 224)}


def simplify(patch: pytest.MonkeyPatch, photo: Callable[..., Image.Image]) -> None:
    """Replace the drawn scenes by pictures of `photo`, which take a hundredth of the time, and the peers by `Peer`."""

    def drawn(folder: Path, count: int) -> list[Path]:
        folder.mkdir()
        for number in range(count):
            photo(number, (160, 120)).save(folder / f"{number}.jpg")
        return sorted(folder.iterdir())

    patch.setattr(model, "draw_collection", drawn)
    patch.setattr(
        peers,
        "open_yardstick",
        lambda name, threads: Peer(SHAPES[name]) if name in SHAPES else open_yardstick(name, threads),
    )
