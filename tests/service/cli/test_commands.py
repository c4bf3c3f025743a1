import io
import json
import re
import sqlite3
import sys

import pytest
from PIL import Image

from diptych import Collection, Scorer

SCORES = {"relevance_score", "raw_score"}


@pytest.fixture
def model(artifact):
    return ("--model", artifact, "--threads", 1)


@pytest.fixture
def store(diptych, gallery, model, tmp_path):
    assert diptych("index", "add", gallery, "--store", tmp_path / "store", *model).code == 0
    return tmp_path / "store"


@pytest.fixture
def stdin(monkeypatch):
    def put(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), "utf-8", newline=""))

    return put


def test_add_takes_folders_and_files_and_says_what_became_of_each(diptych, gallery, model, tmp_path, bad_pictures):
    (gallery / "notes.txt").write_text("no picture")
    arguments = ("index", "add", gallery, *bad_pictures.values(), "--store", tmp_path / "store", *model)
    first = diptych(*arguments)
    assert first.code == 1
    assert "12 added, 0 already there, 6 refused" in first.out
    assert all(path.name in first.out for path in bad_pictures.values())
    assert f"1 file skipped because of its ending:\n  1 .txt, {gallery / 'notes.txt'}\n" in first.out
    second = diptych(*arguments, "--json")
    assert second.code == 1
    assert (second.json["added"], second.json["already"], second.json["total"]) == (0, 12, 12)
    assert [entry["path"] for entry in second.json["refused"]] == [str(path) for path in bad_pictures.values()]
    assert all(set(entry) == {"path", "reason"} for entry in second.json["refused"])


def test_each_bad_picture_alone_is_one_error_and_changes_nothing(diptych, store, model, bad_pictures):
    for path in bad_pictures.values():
        result = diptych("index", "add", path, "--store", store, *model, "--json")
        assert result.code == 1
        if path.exists():
            assert [entry["path"] for entry in result.json["refused"]] == [str(path)]
            assert result.json["total"] == 12
        else:
            assert result.json["error"]["message"] == f"{path} does not exist"
    path = bad_pictures["truncated"]  # of which a look at the file alone does not tell
    for command in (("search", path, "--store", store), ("score", path, path), ("rerank", path, path)):
        refused = diptych(*command, *model)
        assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)
        assert refused.err.startswith(f"diptych: error: {path} ")


def test_a_picture_from_standard_input_is_added_with_its_bytes(diptych, store, model, stdin, photo_bytes):
    stdin(photo_bytes(77))
    assert diptych("index", "add", "-", "--store", store, *model, "--json").json["added"] == 1
    assert diptych("index", "stats", "--store", store, "--json").json["kept"] == 1


def test_search_stops_where_it_is_told_that_it_is_enough(diptych, store, gallery, model):
    arguments = ("search", gallery / "01.jpg", "--store", store, "--top", 1, *model)
    assert diptych(*arguments, "--early-stop", "1e-9", "--json").json["reranked"] == 1
    assert diptych(*arguments, "--early-stop", "0").code == 2


def test_search_finds_what_meets_the_filter_and_says_where_nothing_does(diptych, store, gallery, model):
    arguments = ("search", gallery / "01.jpg", "--store", store, *model)
    assert diptych(*arguments, "--filter", '{"a": 1}').out.strip() == "no picture meets the filter"
    assert len(diptych(*arguments, "--filter", '{"a": {"$exists": false}}', "--json").json["matches"]) == 10
    wrong = diptych(*arguments, "--filter", '{"a": {"$near": 1}}')
    assert wrong.code == 2
    assert "expected one of $eq" in wrong.err


def test_search_as_json_has_both_orders(diptych, store, gallery, model):
    arguments = ("search", gallery / "01.jpg", "--store", store, "--top", 4, "--candidates", 3, *model, "--json")
    found = diptych(*arguments).json
    expected = {"query", "model", "question", "matches", "candidates", "reranked", "closer_looks", "timings"}
    assert set(found) == expected | {"verdicts", "alarm_rate"}
    assert len(found["matches"]) == len(found["candidates"]) == 4
    assert {
        *SCORES,
        "verdict",
        "closer_look",
        "id",
        "path",
        "metadata",
        "similarity",
        "rank",
        "first_rank",
        "file_state",
    } == set(found["matches"][0])
    assert found["matches"][3]["relevance_score"] is found["matches"][3]["verdict"] is None


def test_search_and_stats_work_while_another_process_writes(diptych, store, gallery, model, scorer):
    with Collection.open(store, scorer):
        assert diptych("search", gallery / "01.jpg", "--store", store, *model).code == 0
        assert diptych("index", "stats", "--store", store).code == 0
        refused = diptych("index", "add", gallery, "--store", store, *model)
        assert refused.code == 1
        assert "is being written by process" in refused.err


def test_remove_takes_files_folders_and_ids(diptych, store, gallery, model):
    matches = diptych("search", gallery / "01.jpg", "--store", store, *model, "--json").json["matches"]
    id = next(match["id"] for match in matches if match["path"].endswith("02.jpg"))
    gone = diptych("index", "remove", id, gallery / "01.jpg", gallery / "more", "--store", store, "--json")
    assert gone.code == 0
    assert gone.json == {"removed": 6, "unknown": [], "total": 6}
    again = diptych("search", gallery / "01.jpg", "--store", store, *model, "--json").json["matches"]
    assert len(again) == 6
    assert not any(match["path"].endswith("01.jpg") or "more" in match["path"] for match in again)
    unknown = diptych("index", "remove", gallery / "01.jpg", "--store", store)
    assert unknown.code == 1
    assert "has nothing under" in unknown.err


def test_verify_and_rebuild(diptych, store, model, other_artifact, gallery):
    assert diptych("index", "verify", "--store", store).out.startswith("12 pictures checked, no problem found")
    other = ("--model", other_artifact)
    refused = diptych("search", gallery / "01.jpg", "--store", store, *other)
    assert refused.code == 1
    assert f"diptych index rebuild --store {store}" in refused.err
    (gallery / "01.jpg").unlink()
    partly = diptych("index", "rebuild", "--store", store, *other, "--json")
    assert partly.code == 1
    assert (partly.json["embedded"], partly.json["failed"]) == (11, 1)
    assert "01.jpg does not exist" in partly.json["failures"][0]["reason"]
    assert diptych("index", "rebuild", "--store", store, *other, "--drop-missing").code == 0
    assert diptych("search", gallery / "02.jpg", "--store", store, *other).code == 0


def test_rebuild_drops_nothing_of_a_disk_that_may_be_away_unless_told_to(diptych, store, model, gallery):
    gallery.rename(gallery.with_name("disk"))
    words = ("index", "rebuild", "--store", store, *model, "--all", "--drop-missing")
    refused = diptych(*words)
    assert refused.code == 1
    assert "12 could not be read (0 removed, 12 kept, whose disk may be away):" in refused.out
    assert f"{gallery} does not exist: 8 pictures" in refused.out
    assert "mount the disk and run this again, or say that they are to go with --allow-removal" in refused.out
    assert diptych(*words, "--json").json["spared"] == {
        f"{gallery} does not exist": 8,
        f"{gallery / 'more'} does not exist": 4,
    }
    gone = diptych(*words, "--allow-removal", "--json")
    assert (gone.code, gone.json["removed"], gone.json["pictures"], gone.json["spared"]) == (0, 12, 0, {})


def test_verify_exits_with_1_on_damage(diptych, store):
    with sqlite3.connect(store / "collection.sqlite") as connection:
        connection.execute("UPDATE pictures SET embedding=zeroblob(length(embedding)) WHERE row=2")
    connection.close()
    result = diptych("index", "verify", "--store", store, "--json")
    assert result.code == 1
    assert not result.json["healthy"]
    assert len(result.json["problems"]) == 1


def test_the_score_of_a_pair_does_not_depend_on_its_order(diptych, gallery, model):
    a, b = gallery / "01.jpg", gallery / "02.jpg"
    forward, turned = (diptych("score", *pair, *model, "--json").json for pair in ((a, b), (b, a)))
    assert SCORES | {"verdict", "closer_look", "image_a", "image_b", "model", "revision", "question", "answers"} == set(
        forward
    )
    assert {key: forward[key] for key in SCORES} == {key: turned[key] for key in SCORES}
    assert diptych("score", a, b, *model).out == diptych("score", b, a, *model).out


def test_of_two_pictures_both_questions_are_answered_and_the_one_that_is_named_alone(diptych, gallery, artifact_of_two):
    pair = ("score", gallery / "01.jpg", gallery / "02.jpg", "--model", artifact_of_two)
    both = diptych(*pair, "--json").json
    assert list(both["answers"]) == ["copy", "thing"]
    for question, answer in both["answers"].items():
        one = diptych(*pair, "--question", question, "--json").json
        assert one["answers"] == {question: answer}
        assert {key: one[key] for key in answer} == answer
    assert {key: both[key] for key in SCORES} == {key: both["answers"]["thing"][key] for key in SCORES}
    assert [line.split()[0] for line in diptych(*pair).out.splitlines()] == ["copy", "thing"]


def test_a_pair_and_a_table_give_the_same_score(diptych, gallery, model, tmp_path):
    (gallery / "pairs.csv").write_text("image_a,image_b\n01.jpg,02.jpg\n02.jpg,01.jpg\n")
    table = diptych("score", gallery / "pairs.csv", "-o", tmp_path / "out.jsonl", *model, "--json")
    assert table.code == 0
    sizes = {"output", "pairs", "errors", "closer_looks", "pictures", "scored", "encoded"}
    assert sizes | {"steps", "seconds", "pairs_per_second"} == set(table.json)
    assert set(table.json["steps"]) == {"reading", "encoding", "scoring", "writing"}
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    pair = diptych("score", gallery / "01.jpg", gallery / "02.jpg", *model, "--json").json
    assert [row["raw_score"] for row in rows] == [pair["raw_score"]] * 2


def test_tables_flow_through_standard_input_and_output(diptych, gallery, model, stdin, monkeypatch):
    monkeypatch.chdir(gallery)
    stdin(b"image_a,image_b,n\n01.jpg,02.jpg,1\n01.jpg,gone.jpg,2\n")
    result = diptych("score", "-", "-o", "-", *model)
    assert result.code == 1
    header, first, second = result.out.splitlines()
    assert header == "image_a,image_b,n,relevance_score,raw_score,verdict,closer_look,error"
    assert first.startswith("01.jpg,02.jpg,1,0.")
    assert second == "01.jpg,gone.jpg,2,,,,,image_b: gone.jpg does not exist"
    assert "1 could not be scored" in result.err
    stdin(b"image_a,image_b\n01.jpg,02.jpg\n")
    lines = diptych("score", "-", "-o", "-", "--format", "jsonl", "--quiet", *model)
    assert lines.code == 0
    assert set(json.loads(lines.out)) > SCORES


def test_an_unreadable_picture_in_a_table_is_counted_and_exits_with_1(diptych, gallery, model, tmp_path):
    (gallery / "pairs.csv").write_text("image_a,image_b\n01.jpg,02.jpg\nnone.jpg,01.jpg\n")
    result = diptych("score", gallery / "pairs.csv", "-o", tmp_path / "out.csv", *model)
    assert result.code == 1
    assert "2 pairs in" in result.out
    assert "pairs/s; 1 could not be scored, the column error says why" in result.out


def test_rerank_orders_like_the_scorer(diptych, gallery, model, scorer):
    query, documents = str(gallery / "01.jpg"), sorted(str(path) for path in gallery.rglob("*.jpg"))
    result = diptych("rerank", query, *documents, "--top", 4, *model, "--json").json
    assert [entry["index"] for entry in result["results"]] == [
        entry["corpus_id"] for entry in scorer.rank(query, documents, 4)
    ]
    assert SCORES | {"verdict", "closer_look", "index", "path"} == set(result["results"][0])
    assert diptych("rerank", query, *documents, *model).out.splitlines()[0].split()[:2] == ["rank", "score"]


def test_the_question_is_asked_that_is_named_and_else_that_of_the_command(
    diptych, gallery, artifact_of_two, model, stdin, tmp_path, monkeypatch
):
    monkeypatch.chdir(gallery)
    two = ("--model", artifact_of_two, "--threads", 1)
    thing = Scorer.load(str(artifact_of_two), threads=1)
    (gallery / "pairs.csv").write_text("image_a,image_b\n01.jpg,02.jpg\n")
    assert diptych("index", "add", gallery, "--store", tmp_path / "two", *two).code == 0
    for options, name in (((), "thing"), (("--question", "thing"), "thing"), (("--question", "copy"), "copy")):
        (expected,) = thing.predict([("01.jpg", "02.jpg")], activation_fn=list, question=name).tolist()
        pair = diptych("score", "01.jpg", "02.jpg", *two, *options, "--json").json
        assert (pair["question"], pair["raw_score"]) == (name, pytest.approx(expected))
        reranked = diptych("rerank", "01.jpg", "02.jpg", *two, *options, "--json").json
        assert (reranked["question"], reranked["results"][0]["raw_score"]) == (name, expected)
        table = ("score", "pairs.csv", "-o", "out.jsonl", "--force", *two, *options)
        assert diptych(*table).code == 0
        (row,) = map(json.loads, (gallery / "out.jsonl").read_text().splitlines())
        stdin(b"image_a,image_b\n01.jpg,02.jpg\n")
        streamed = diptych("score", "-", "-o", "-", "--format", "jsonl", "--quiet", *two, *options)
        assert row["raw_score"] == json.loads(streamed.out)["raw_score"] == pair["raw_score"]
        found = diptych("search", "01.jpg", "--store", tmp_path / "two", *two, *options, "--json").json
        scores = {match["path"]: match["raw_score"] for match in found["matches"]}
        assert (found["question"], scores[str(gallery / "02.jpg")]) == (name, expected)
        said = diptych("search", "01.jpg", "--store", tmp_path / "two", *two, *options).err
        assert f"question: {name}; verdicts: " in said
    assert diptych("score", "01.jpg", "02.jpg", *model, "--question", "copy", "--json").json["question"] == "match"
    refused = diptych("score", "01.jpg", "02.jpg", *two, "--question", "match")
    assert (refused.code, "expected copy or thing, got 'match'" in refused.err) == (2, True)


def test_the_query_may_come_from_standard_input(diptych, store, gallery, model, stdin):
    data = (gallery / "01.jpg").read_bytes()
    stdin(data)
    piped = diptych("search", "-", "--store", store, *model, "--json").json
    assert piped["matches"] == diptych("search", gallery / "01.jpg", "--store", store, *model, "--json").json["matches"]


def test_quiet_says_nothing_beside_the_result(diptych, store, gallery, model):
    assert diptych("search", gallery / "01.jpg", "--store", store, "--quiet", *model).err == ""


def test_the_command_prints_links_and_draws_them(diptych, gallery, model, tmp_path):
    out = tmp_path / "out.png"
    pair = (gallery / "01.jpg", gallery / "02.jpg")
    said = diptych("explain", *pair, "-o", out, "--links", 3, *model)
    assert said.code == 0
    assert len([line for line in said.out.splitlines() if re.match(r"\d+,\d", line)]) == 3
    with Image.open(out) as picture:
        assert picture.width == 2 * 480 + 24
    assert diptych("explain", *pair, "-o", tmp_path / "out.JPG", *model).code == 0
    with Image.open(tmp_path / "out.JPG") as picture:
        assert (picture.format, picture.width) == ("JPEG", 2 * 480 + 24)
    text = diptych("explain", *pair, "-o", tmp_path / "out.txt", *model)
    assert (text.code, (tmp_path / "out.txt").exists()) == (2, False)
    assert "-o must end in .png, .jpg, .jpeg, as it is a picture" in text.err
    words = diptych("explain", *pair, *model).out.splitlines()
    assert words[0].startswith("match  0.")
    assert "of the network's attention goes to the other picture" in words[1]
    parts = [re.fullmatch(r"  ([a-z ]+) of A with ([a-z ]+) of B \((\d+) links?\)", line) for line in words[2:-1]]
    assert 0 < len(parts) <= 4
    assert all(parts)
    assert "--links N lists" in words[-1]
    document = diptych("explain", *pair, "--links", 3, *model, "--json").json
    assert [set(link) for link in document["links"]] == [{"a", "b", "share"}] * 3
    assert document["overlay"] is None
    missing = diptych("explain", gallery / "01.jpg", gallery / "nowhere.jpg", *model)
    assert (missing.code, missing.out) == (1, "")
    assert "does not exist" in missing.err
