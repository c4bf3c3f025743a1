"""`diptych bench` on pictures that are drawn in no time and with peers that compute nothing."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from diptych.bench import model
from diptych.bench.graphs import open_yardstick


class Peer:
    """Stands in for a session of a peer, seconds a round; `tests/export/test_bench_graphs` runs it."""

    def run(self, outputs, feeds) -> None:
        assert feeds["pixels"].shape == (1, 3, 224, 448)
        time.sleep(0.02)


def simplify(patch: pytest.MonkeyPatch, photo: Callable[..., Image.Image]) -> None:
    """Replace the drawn scenes by pictures of `photo`, which take a hundredth of the time, and the peers by `Peer`."""

    def drawn(folder: Path, count: int) -> list[Path]:
        folder.mkdir()
        for number in range(count):
            photo(number, (160, 120)).save(folder / f"{number}.jpg")
        return sorted(folder.iterdir())

    patch.setattr(model, "draw_collection", drawn)
    patch.setattr(
        model, "open_yardstick", lambda name, threads: Peer() if "vit" in name else open_yardstick(name, threads)
    )
