"""`diptych search`, `rerank` and `explain`."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from diptych import Collection, Scorer
from diptych.bench.demo.collection import draw_scenes
from diptych.collection import search as stages
from diptych_runtime import judgement
from diptych_runtime.calibration.verdicts import VERDICTS

SCORES = {"relevance_score", "raw_score", "verdict", "closer_look"}


@pytest.fixture
def search(diptych, store, model, photo_bytes, tmp_path):
    """`search("--top", 3)` looks for a picture that is in nobody's collection."""
    (tmp_path / "query.jpg").write_bytes(photo_bytes(20))
    return lambda *options: diptych("search", tmp_path / "query.jpg", "--store", store, *options, *model)


def cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()[1:]]


def test_the_table_and_the_json_of_a_search_say_the_same(search):
    found, shown = search("--top", 12, "--candidates", 11, "--json").json, search("--top", 12, "--candidates", 11)
    keys = {"query", "model", "question", "matches", "candidates", "reranked", "closer_looks", "timings", "verdicts"}
    assert set(found) == keys | {"alarm_rate"}
    assert len(found["candidates"]) == 12
    shape = {"id", "path", "metadata", "similarity", "rank", "first_rank", "file_state"}
    assert all(set(match) == SCORES | shape for match in found["matches"])
    assert shown.out.splitlines()[0].split() == ["rank", "moved", "score", "verdict", "cosine", "path"]
    *looked_at, last = zip(cells(shown.out), found["matches"], strict=True)
    for row, match in looked_at:
        moved = match["first_rank"] - match["rank"]
        numbers = (f"{match['relevance_score']:.4f}", match["verdict"], f"{match['similarity']:.4f}")
        assert row == [str(match["rank"]), f"{moved:+d}" if moved else "0", *numbers, match["path"]]
    assert last[0][1:4] == ["0", "-", "-"], "the network did not look at it, and it did not move"
    assert last[1]["relevance_score"] is last[1]["verdict"] is None
    moves = [int(row[1]) for row, _ in looked_at]
    assert (sum(moves), any(moves)) == (0, True), "the networks of the two stages have different weights"
    assert shown.err.startswith("12 pictures searched, 11 re-ranked; decode ")
    assert "\nmoved: places gained (+) or lost (-) by re-ranking\n" in shown.err
    assert search("--quiet").err == ""


def test_search_finds_what_meets_the_filter_and_says_where_nothing_does(search):
    assert search("--filter", '{"a": 1}').out == "no picture meets the filter\n"
    assert len(search("--filter", '{"a": {"$exists": false}}', "--json").json["matches"]) == 10
    wrong = search("--filter", '{"a": {"$near": 1}}')
    assert (wrong.code, "expected one of $eq" in wrong.err) == (2, True)


def test_search_and_stats_work_while_another_process_writes(diptych, store, gallery, model, scorer):
    with Collection.open(store, scorer):
        assert diptych("search", gallery / "01.jpg", "--store", store, *model).code == 0
        assert diptych("index", "stats", "--store", store).code == 0
        refused = diptych("index", "add", gallery, "--store", store, *model)
        assert (refused.code, "is being written by process" in refused.err) == (1, True)


def test_a_bad_picture_is_one_line_of_error_before_a_model_is_loaded_if_its_file_tells(
    diptych, store, model, gallery, bad_pictures, tmp_path
):
    good = gallery / "01.jpg"
    for path in (bad_pictures["text"], bad_pictures["missing"]):
        for words in (("search", path, "--store", store), ("score", good, path), ("rerank", path, good)):
            refused = diptych(*words, "--model", tmp_path / "no model")
            assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)
            assert refused.err.startswith(f"diptych: error: {path} "), words
    refused = diptych("search", good, "--store", tmp_path / "typo", "--model", tmp_path / "no model")
    assert (refused.code, f"{tmp_path / 'typo'} holds no collection" in refused.err) == (1, True)
    path = bad_pictures["truncated"]  # of which a look at the file alone does not tell
    for words in (("search", path, "--store", store), ("score", path, path), ("explain", path, path)):
        refused = diptych(*words, *model)
        assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)
        assert refused.err.startswith(f"diptych: error: {path} ")


def test_a_picture_without_a_path_is_shown_by_its_id_and_an_empty_collection_says_so(
    diptych, scorer, model, photo_bytes, gallery, tmp_path
):
    words = ("search", gallery / "01.jpg", "--store", tmp_path / "one", *model)
    with Collection.open(tmp_path / "one", scorer, create=True) as collection:
        assert diptych(*words).out == "the collection is empty\n"
        id = collection.add(photo_bytes(3))[0].id
    assert cells(diptych(*words).out)[0][-1] == id


def test_rerank_lists_the_candidates_that_cannot_be_read_and_orders_the_others(diptych, gallery, model, tmp_path):
    good, broken, text = str(gallery / "02.jpg"), tmp_path / "cut short.jpg", tmp_path / "text.jpg"
    broken.write_bytes((gallery / "02.jpg").read_bytes()[:400])
    text.write_text("no picture")
    done = diptych("rerank", gallery / "01.jpg", broken, good, text, *model, "--json").json
    assert [(one["index"], one["path"]) for one in done["results"]] == [(1, good)]
    assert [one["path"] for one in done["refused"]] == [str(broken), str(text)]
    said = diptych("rerank", gallery / "01.jpg", text, *model)
    assert said.code == 1
    assert said.out.startswith(f"1 candidate could not be read:\n  {text} is not in a format that can be read")


def test_rerank_orders_like_the_scorer_and_prints_the_names_as_they_were_given(
    diptych, gallery, model, scorer, monkeypatch
):
    monkeypatch.chdir(gallery)
    names = ["02.jpg", "more/../01.jpg", "./04.jpg", "01.jpg"]
    results = diptych("rerank", "01.jpg", *names, *model, "--json").json["results"]
    assert [one["index"] for one in results] == [one["corpus_id"] for one in scorer.rank("01.jpg", names)]
    assert set(results[0]) == SCORES | {"index", "path"}
    rows = cells(diptych("rerank", "01.jpg", *names, *model).out)
    assert [row[4] for row in rows] == [names[one["index"]] for one in results]
    assert {row[2] for row in rows} <= set(VERDICTS)
    assert cells(diptych("rerank", "01.jpg", *names, "--top", 2, *model).out) == rows[:2]


def test_rerank_takes_folders_and_says_what_cannot_be_read_in_them(diptych, gallery, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    below = tmp_path / "photos" / "more"
    below.mkdir(parents=True)
    for name in ("02.jpg", "04.jpg"):
        (below / name).write_bytes((gallery / name).read_bytes())
    (below / "notes.txt").write_text("no picture")
    (tmp_path / "photos" / "gone.jpg").symlink_to("nowhere")
    query = gallery / "01.jpg"
    (tmp_path / "empty").mkdir()
    done = diptych("rerank", query, query, "photos", "empty", "photos/more", *model, "--json")
    assert done.code == 1
    expected = [str(query), "photos/more/02.jpg", "photos/more/04.jpg"]
    assert sorted(one["path"] for one in done.json["results"]) == expected
    assert [expected[one["index"]] for one in done.json["results"]] == [one["path"] for one in done.json["results"]]
    assert [one["path"] for one in done.json["refused"]] == ["photos/gone.jpg", "empty"]
    refused = diptych("rerank", query, "empty", "--model", tmp_path / "no model")
    assert (refused.code, refused.err) == (1, "diptych: error: empty is a folder without pictures\n")


def test_explain_lists_links_and_draws_them(diptych, gallery, model, tmp_path):
    out, pair = tmp_path / "out.PNG", (gallery / "01.jpg", gallery / "02.jpg")
    assert diptych("explain", *pair, "-o", out, *model).out.endswith(f"drawn: {out}\n")
    with Image.open(out) as picture:
        assert (picture.format, picture.width) == ("PNG", 2 * 480 + 24)
    text = diptych("explain", *pair, "-o", tmp_path / "out.jpg", *model)
    assert (text.code, (tmp_path / "out.jpg").exists()) == (2, False)
    words = diptych("explain", *pair, *model).out.splitlines()
    assert words[0].startswith("match  0.")
    assert "match those of the other picture by" in words[1]
    document = diptych("explain", *pair, *model, "--json").json
    assert [set(link) for link in document["links"]] == [{"a", "b", "share"}] * len(document["links"])
    assert document["links"]
    assert document["overlay"] is None


@pytest.fixture
def looking(artifact_that_looks, tmp_path):
    """A scene, a smaller copy of it and another scene as files, a collection of the two, and what names the model."""
    scene, other = draw_scenes(2)
    paths = [tmp_path / name for name in ("scene.png", "copy.png", "other.png")]
    for path, picture in zip(paths, (scene, scene.resize((300, 220)), other), strict=True):
        picture.save(path)
    scorer = Scorer.load(str(artifact_that_looks), provider="cpu", threads=1)
    with Collection.open(tmp_path / "looking", scorer, create=True) as collection:
        collection.add(paths[1:])
    return paths, ("--store", tmp_path / "looking"), ("--model", artifact_that_looks, "--threads", 1)


def test_every_command_says_the_same_of_a_copy_as_score_does(diptych, looking):
    (scene, copied, other), store, model = looking
    scored = {path: diptych("score", scene, path, *model, "--json").json["answers"]["copy"] for path in (copied, other)}
    assert [one["verdict"] for one in scored.values()] == ["same", "different"]
    asked = ("--question", "copy", *model, "--json")
    listed = diptych("search", scene, *store, *asked).json["matches"]
    ordered = diptych("rerank", scene, other, copied, *asked).json["results"]
    (alone,) = diptych("rerank", scene, copied, "--top", 1, *asked).json["results"]
    why = diptych("explain", scene, copied, *asked).json
    for found in (listed, ordered):
        assert [one["path"] for one in found] == [str(copied), str(other)]
        for one, expected in zip(found, scored.values(), strict=True):
            assert {key: one[key] for key in ("verdict", "closer_look")} == {
                key: expected[key] for key in ("verdict", "closer_look")
            }
            assert one["relevance_score"] == pytest.approx(expected["relevance_score"], abs=1e-6)
    for one in (alone, why, why["answers"]["copy"]):
        assert (one["verdict"], one["closer_look"]) == ("same", "taken")
    assert why["question"] == "copy"
    corners = np.array(why["placement"]["first_in_second"])
    assert corners == pytest.approx(np.array([(0, 0), (1, 0), (1, 1), (0, 1)]), abs=0.02)
    agree = f"{why['evidence']['inliers']:,} of {why['evidence']['matches']:,} matching keypoints agree"
    assert agree in diptych("explain", scene, copied, *asked[:-1]).out


def test_a_search_says_what_it_did_not_look_at_and_calls_none_of_it_the_same(diptych, looking, monkeypatch):
    (scene, copied, _), store, model = looking
    words = ("search", scene, *store, "--question", "copy", *model)
    assert diptych(*words, "--json").json["closer_looks"] == 2
    with monkeypatch.context() as patch:
        for module in (stages, judgement):
            patch.setattr(module, "CLOSER_LOOKS", 1)
        found = diptych(*words, "--json").json
        assert found["closer_looks"] == 1
        assert sorted(match["closer_look"] for match in found["matches"]) == ["not taken", "taken"]
        assert "1 not looked at more closely, as a search takes 1 closer looks at most" in diptych(*words).err
    copied.unlink()
    said = diptych(*words)
    assert "same" not in said.out
    assert "1 not looked at more closely, as a file is not at hand: a copy is likely at most" in said.err


def test_how_often_chance_alone_is_called_the_same_is_said_where_it_was_measured(
    diptych, store, artifact_with_negatives, tmp_path, search
):
    assert search("--json").json["alarm_rate"] is None
    assert "expect a false same" not in search().err
    words = ("search", tmp_path / "query.jpg", "--store", store, "--model", artifact_with_negatives)
    found = diptych(*words, "--threads", 1, "--json").json
    assert found["alarm_rate"] == pytest.approx(12 * 0.001, rel=0.01)
    assert found["verdicts"] == {"same": 0.99, "likely": 0.97, "unsure": 0.5}
    said = diptych(*words, "--threads", 1).err
    assert "expect a false same in 1.2% of the searches for a picture that has no match here" in said


def test_scores_that_are_no_probabilities_are_said_to_be_none(diptych, gallery, tmp_path, artifact):
    plain = shutil.copytree(artifact, tmp_path / "plain")
    described = json.loads((plain / "manifest.json").read_text())
    described["questions"] = {"match": {}}
    (plain / "manifest.json").write_text(json.dumps(described))
    pictures = [gallery / "01.jpg", gallery / "02.jpg"]
    store = ("--store", tmp_path / "store", "--threads", 1)
    assert diptych("index", "add", gallery, *store, "--model", plain).code == 0
    commands = (("score", *pictures), ("rerank", *pictures), ("explain", *pictures), ("search", pictures[0], *store))
    for words in commands:
        said = diptych(*words, *(() if words[0] == "search" else ("--model", plain))).err
        assert "is not calibrated: its scores order pairs but are no probabilities" in said
    for words in commands[:3]:
        assert "not calibrated" not in diptych(*words, "--model", artifact).err
    assert "not calibrated" not in diptych("score", *pictures, "--model", plain, "--quiet").err
