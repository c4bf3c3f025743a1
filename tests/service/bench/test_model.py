"""`diptych bench`, measured on pictures that are drawn in no time and with peers that compute nothing."""

import io
import json
import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typed import parsed

from diptych.bench import model, peers
from diptych.bench.graphs import open_yardstick
from diptych.bench.model import REQUESTS, format_figures, measure_model, peak_memory
from diptych.bench.peers import PEERS, count_inliers, find_keypoints, list_comparable
from diptych.cli.main import main
from diptych.errors import BenchError

SHAPES = {"vit_s16_pair": (1, 3, 224, 448), "cnn_pair": (1, 6, 224, 224)}


class Peer:
    """Stands in for a session of a peer, seconds a round; `tests/export/test_bench_graphs` runs it."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def run(self, outputs, feeds) -> None:
        assert feeds["pixels"].shape == self.shape
        time.sleep(0.02)


@pytest.fixture(scope="module")
def simple(photo):
    """Pictures of `photo` in the place of drawn scenes, which take a hundred times as long, and each peer a `Peer`."""

    def draw(folder: Path, count: int) -> list[Path]:
        folder.mkdir()
        for number in range(count):
            photo(number, (160, 120)).save(folder / f"{number}.jpg")
        return sorted(folder.iterdir())

    def open_session(name: str, threads: int):
        return Peer(SHAPES[name]) if name in SHAPES else open_yardstick(name, threads)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "REST", 0.0)
        patch.setattr(model, "draw_collection", draw)
        patch.setattr(peers, "open_yardstick", open_session)
        yield


@pytest.fixture(scope="module")
def measured(scorer, simple):
    return measure_model(scorer, rounds=3, peers=list(PEERS))


def test_the_command_prints_one_json_document(simple, artifact, capsys) -> None:
    assert main(["bench", "--model", str(artifact), "--rounds", "3", "--peer", "late", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "tiny"
    assert all(list(parsed("bench", "--peer", name)["peer"]) == [name] for name in PEERS)


def test_every_figure_is_a_median_between_its_percentiles_and_ratios_are_of_one_run(measured, scorer) -> None:
    times = measured["milliseconds"]
    batched = {f"{name} {count}" for name in ("diptych", "late") for count in (1, 32, 100)}
    alone = {f"{name} {work}" for name in ("sift", "cnn", "vit-s16") for work in ("read", 1)}
    assert set(times) == {"sgemm", "pictures", "cold", "search", "diptych read"} | batched | alone
    assert all(0 < low <= middle <= high for middle, low, high in times.values())
    # At best: no less than that of the 10th percentile.
    assert measured["sgemm_gflops"] >= 2 * 1024**3 / times["sgemm"][1] / 1e6 * 0.99
    assert measured["pairs_per_second"] == pytest.approx(100 / times["diptych 100"][0] * 1000, rel=0.01)
    rate = scorer.runtime.manifest.flops["pair"] * measured["pairs_per_second"] / 1e9
    assert measured["pair_of_sgemm"] == pytest.approx(rate / measured["sgemm_gflops"])


def test_a_candidate_costs_its_pair_and_its_share_of_the_reading(measured) -> None:
    times, costs = {name: each[0] for name, each in measured["milliseconds"].items()}, measured["candidates"]
    assert list(costs) == ["diptych", *PEERS]
    read = times["diptych read"]
    assert costs["diptych"]["stored"]["32"] == pytest.approx((read + times["diptych 32"]) / 32, abs=1e-3)
    assert costs["late"]["files"]["100"] == pytest.approx((101 * read + times["late 100"]) / 100, abs=1e-3)
    # Pair by pair a hundred pairs cost a hundred times one, and only the query's share of the reading falls.
    read, pair = times["vit-s16 read"], times["vit-s16 1"]
    assert costs["vit-s16"]["stored"]["100"] == pytest.approx(read / 100 + pair, abs=1e-3)
    # The times are rounded to a thousandth each, the cost is not.
    assert costs["vit-s16"]["files"]["1"] == pytest.approx(2 * read + pair, abs=2e-3)


def test_the_table_names_the_model_and_every_peer(measured, scorer) -> None:
    memory = {"memory": {str(REQUESTS[0]): 2**20, str(REQUESTS[1]): 3 * 2**19}}
    shown = format_figures(measured | memory)
    assert scorer.runtime.revision in shown
    assert all(PEERS[name] in shown for name in PEERS)
    assert len(re.findall(r"^this model +[\d.,]+ +[\d.,]+ +[\d.,]+ +1\.?0?$", shown, re.MULTILINE)) == 2
    assert "1.50 times" in shown


def test_late_interaction_stands_beside_no_model_that_keeps_pixels(scorer, monkeypatch) -> None:
    manifest = scorer.runtime.manifest
    pixels = replace(manifest, token_shape=(manifest.panel_size, manifest.panel_size, 3), byte_channels=0)
    monkeypatch.setattr(scorer.runtime, "manifest", pixels)
    assert list_comparable(pixels) == ["sift", "cnn", "vit-s16"]
    with pytest.raises(BenchError, match="has none but pixels"):
        measure_model(scorer, peers=list(PEERS))


def test_sift_finds_a_turned_copy_and_no_other_and_nothing_in_a_blank_picture() -> None:
    noise = [np.random.default_rng(seed).integers(0, 256, (30, 40, 3), np.uint8) for seed in (0, 1)]
    spots, others = (Image.fromarray(one).resize((400, 300), Image.Resampling.BICUBIC) for one in noise)
    found = []
    for picture in (spots, spots.rotate(10, Image.Resampling.BICUBIC), others, Image.new("RGB", (64, 48))):
        picture.save(file := io.BytesIO(), "JPEG", quality=90)
        found.append(find_keypoints(file.getvalue()))
    query, copy, stranger, blank = found
    assert len(query.places) > 100
    assert count_inliers(query, copy) > 50
    assert count_inliers(query, stranger) < 10
    assert blank.descriptors.shape == (0, 128)
    assert count_inliers(query, blank) == count_inliers(blank, blank) == 0


@pytest.mark.slow
def test_ten_thousand_pairs_hold_little_more_memory_than_a_hundred(artifact) -> None:
    few, many = peak_memory(str(artifact)).values()
    assert many < 1.5 * few
