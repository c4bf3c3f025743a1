import io
from contextlib import redirect_stdout

import numpy as np
import pytest
from exported import drawn_collection

from diptych.cli.main import main
from diptych_studies.benchmarks import dedupe
from diptych_studies.benchmarks.dedupe import EACH, HASHES, THRESHOLDS, close_pairs, figures, measure, text

COUNT = 24


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    drawn_collection(folder, 24)
    return folder / "photos"


def here(*words: object) -> str:
    """A command in this process, for to start a dozen of their own takes longer than what they do."""
    with redirect_stdout(io.StringIO()) as said:
        assert main(list(map(str, words))) == 0
    return said.getvalue()


@pytest.fixture(scope="module")
def measured(photos, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dedupe, "run_command", here)
        return measure(tmp_path_factory.mktemp("bench"), photos, COUNT, "photo-small")


@pytest.mark.slow
def test_every_way_is_measured_and_a_stricter_threshold_lets_fewer_go(measured):
    assert (measured["count"], measured["photos"]) == (COUNT, COUNT // EACH)
    ways = len(THRESHOLDS) + sum(len(tolerances) for *_, tolerances in HASHES.values())
    assert len(measured["rows"]) == ways
    assert all(row["seconds"] > 0 and 0 <= row["pair_recall"] <= 1 for row in measured["rows"])
    assert measured["seconds"].keys() == {"all new", "nothing new", "some new"}
    by_setting = {row["setting"]: row["could_go"] for row in measured["rows"] if row["method"] == "diptych"}
    assert by_setting["0.7"] >= by_setting["0.9"] >= by_setting["0.95"] > 0
    hashed = [row["could_go"] for row in measured["rows"] if row["method"] == "czkawka's gradient 16x16"]
    assert hashed == sorted(hashed)
    assert hashed[-1] > hashed[0]
    assert all(name in text(measured) for name in HASHES)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([["a", "a1", "a2"], ["b1", "b"]], (2, 3, 0, 0.0, 1.0, 1.0, 1.0)),
        ([["a", "a1", "b1"], ["a2", "c"]], (2, 3, 2, 2 / 3, 1 / 4, 1 / 4, 1 / 3)),
        ([], (0, 0, 0, 0.0, 1.0, 0.0, 0.0)),
    ],
)
def test_what_is_wrong_and_what_is_missed_is_counted(groups, expected):
    truth = {"a": "a", "a1": "a", "a2": "a", "b": "b", "b1": "b", "c": "c"}
    names = ("groups", "could_go", "wrong", "wrong_share", "pair_precision", "pair_recall", "to_original")
    assert figures(groups, truth) == dict(zip(names, expected, strict=True))


@pytest.mark.parametrize("words", [1, 4])
def test_close_pairs_are_those_that_plain_loops_find(words, monkeypatch):
    monkeypatch.setattr(dedupe, "_ROWS", 7)
    random = np.random.default_rng(1)
    made = random.integers(0, 2**63, (23, words), dtype=np.uint64)
    made[11] = made[3] ^ np.uint64(5)
    made[20] = made[3]
    distance = [[sum((int(x) ^ int(y)).bit_count() for x, y in zip(a, b, strict=True)) for b in made] for a in made]
    for tolerance in (0, 1, 2, 8, 64 * words):
        expected = [(a, b) for a in range(23) for b in range(a + 1, 23) if distance[a][b] <= tolerance]
        assert sorted(close_pairs(made, tolerance)) == expected
    assert close_pairs(made, 0) == [(3, 20)]
