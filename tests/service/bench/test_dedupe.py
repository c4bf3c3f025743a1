import io
import json
from contextlib import redirect_stdout

import pytest
from exported import drawn_collection

from diptych.bench import dedupe
from diptych.bench.command import run_command
from diptych.bench.dedupe import EACH, THRESHOLDS, measure, text
from diptych.bench.hashes import HASHES
from diptych.cli.main import main
from diptych.errors import BenchError

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
def test_every_way_is_measured_on_the_same_pictures(measured):
    assert (measured["count"], measured["photos"]) == (COUNT, COUNT // EACH)
    ways = len(THRESHOLDS) + sum(len(tolerances) for *_, tolerances in HASHES.values())
    assert len(measured["rows"]) == ways
    assert all(row["seconds"] > 0 and 0 <= row["pair_recall"] <= 1 for row in measured["rows"])
    assert measured["seconds"].keys() == {"all new", "nothing new", "some new"}
    assert measured["pairs"] > COUNT * 5


@pytest.mark.slow
def test_a_stricter_threshold_lets_fewer_go_and_a_looser_tolerance_more(measured):
    by_setting = {row["setting"]: row["could_go"] for row in measured["rows"] if row["method"] == "diptych"}
    assert by_setting["0.7"] >= by_setting["0.9"] >= by_setting["0.95"] > 0
    hashed = [row["could_go"] for row in measured["rows"] if row["method"] == "czkawka's gradient 16x16"]
    assert hashed == sorted(hashed)
    assert hashed[-1] > hashed[0]


@pytest.mark.slow
def test_the_table_names_every_method_and_the_time_of_every_run(measured):
    shown = text(measured)
    for words in ("24 pictures of 4 photos", "all of them new", "nothing new", "1 new", "auto, 0.8", *HASHES):
        assert words in shown


def test_a_command_that_fails_ends_it_with_its_words(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(dedupe, "run_command", lambda *words: (here if words[0] == "edit" else run_command)(*words))
    with pytest.raises(BenchError, match=r"(?s)`diptych dedupe` ended with 2: .*no-such-model"):
        measure(tmp_path / "a", photos, 12, "no-such-model")


def test_the_command_hands_on_what_it_is_told_prints_json_and_leaves_nothing_behind(
    diptych, photos, artifact, tmp_path, monkeypatch
):
    told = []

    def stub(folder, photos, count, model, say):
        (folder / "pictures").mkdir()
        told.append((photos, count, model))
        return {"count": count}

    monkeypatch.setattr(dedupe, "measure", stub)
    monkeypatch.setattr(dedupe, "text", str)
    found = diptych("bench", "dedupe", photos, "--count", 12, "--folder", tmp_path, "--model", artifact, "--json")
    assert found.code == 0
    assert told == [(photos, 12, str(artifact))]
    assert found.json == {"count": 12}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_command_measures_prints_json_and_leaves_nothing_behind(diptych, photos, artifact, tmp_path):
    found = diptych("bench", "dedupe", photos, "--count", 12, "--folder", tmp_path, "--model", artifact, "--json")
    assert found.code == 0
    assert json.loads(found.out)["count"] == 12
    assert list(tmp_path.iterdir()) == []
