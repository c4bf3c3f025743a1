"""Duplicates over HTTP: the groups of `find_duplicates`, in as many requests as it takes."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from exported import drawn_collection
from refusals import check_refusal

from diptych import Collection, Scorer
from diptych.dedupe import pair_scores
from diptych.dedupe.find import duplicates_among
from diptych.dedupe.pair_cache import LEDGER
from diptych.errors import DeadlineError
from diptych.http import pair_jobs
from diptych.http.pair_jobs import PairCaches
from diptych.http.routes import search

COUNT = 16
PATH = "/v1/duplicates"


pytestmark = pytest.mark.usefixtures("compared")


@pytest.fixture(scope="module")
def photo(network_alone) -> Scorer:
    return network_alone


@pytest.fixture(scope="module")
def drawn(tmp_path_factory, photo):
    """The folder of a collection of drawn scenes and edited copies of some of them."""
    folder = tmp_path_factory.mktemp("drawn")
    photos = drawn_collection(folder, COUNT)
    edited = sorted((folder / "queries").glob("*-edited.jpg"))
    with Collection.open(folder / "store", photo, create=True) as collection:
        collection.add([*photos, *edited])
    return folder / "store"


@pytest.fixture
def scenes(drawn, tmp_path, photo):
    shutil.copytree(drawn, tmp_path / "scenes")
    with Collection.open(tmp_path / "scenes", photo) as collection:
        yield collection


@pytest.fixture
def client(running, scenes, photo):
    with running(scenes, photo) as client:
        yield client


@pytest.fixture
def slowly(monkeypatch):
    """Thirty pairs a request."""
    monkeypatch.setattr(pair_jobs, "SECONDS", 0.0)
    monkeypatch.setattr(pair_jobs, "time", SimpleNamespace(monotonic=lambda: 0.0))
    monkeypatch.setattr(pair_scores, "BATCH", 30)


def ask(client, **options):
    answer = client.post(PATH, json=options)
    assert answer.status_code == 200, answer.text
    return answer.json()


def to_the_end(client, **options) -> list[dict]:
    answers = [ask(client, **options)]
    while not answers[-1]["complete"]:
        assert len(answers) < 200
        answers.append(ask(client, **options))
    return answers


def expected(collection, **options):
    """The groups of the library, as the service says them."""
    copied = ("relevance_score", "verdict", "closer_look", "kept_because", "edit")

    def member(one) -> dict:
        told = {"id": one.picture.id, "replaced_by": one.replaced_by and one.replaced_by.id}
        return told | {name: getattr(one, name) for name in copied}

    groups = duplicates_among(collection, **options).groups
    return [{"keeper": group.keeper.id, "members": [member(one) for one in group.others]} for group in groups]


def test_the_groups_are_those_of_the_library(client, scenes):
    every: list[dict[str, Any]] = [{}, {"threshold": 0.5, "keep": ["newest"]}, {"threshold": 1}]
    for options in every:
        found = to_the_end(client, **options)[-1]
        assert found["groups"] == expected(scenes, **options)
        assert (len(found["groups"]) > 2) == (options.get("threshold") != 1)
        assert found["threshold"] == duplicates_among(scenes, **options).threshold
        going = [member["replaced_by"] is not None for group in found["groups"] for member in group["members"]]
        assert options.get("threshold") == 1 or (True in going and False in going)


def test_its_pairs_are_places_among_its_pictures_the_one_to_keep_first(client, scenes):
    found = to_the_end(client, threshold=0.9)[-1]
    library = duplicates_among(scenes, threshold=0.9, bound=0.5)
    ids = [picture["id"] for picture in found["pictures"]]
    assert len(set(ids)) == len(ids)
    assert ids == [library.pictures[p].id for p in library.order if library.pictures[p].id in ids]
    told = {(frozenset((ids[a], ids[b])), score) for a, b, score in found["pairs"]}
    assert told == {(frozenset((a, b)), score) for a, b, score in library.pairs}
    values = [score for *_, score in found["pairs"]]
    assert values == sorted(values, reverse=True)
    assert (found["bound"], found["left_out"]) == (0.5, 0)


def test_what_does_not_fit_into_a_request_goes_on_with_the_next_and_nothing_is_scored_twice(client, scenes, slowly):
    answers = to_the_end(client, threshold=0.9)
    *begun, done = answers
    assert len(begun) > 3
    assert [answer["scored"] for answer in begun[:3]] == [30, 60, 90]
    assert {"groups", "pairs"}.isdisjoint(begun[0])
    assert len({answer["total"] for answer in begun[:3]}) == 1
    assert done["scored"] == done["total"] >= begun[-1]["scored"]
    assert done["groups"] == expected(scenes, threshold=0.9)
    with closing(sqlite3.connect(scenes.directory / LEDGER)) as ledger:
        assert ledger.execute("SELECT count(*) FROM pairs").fetchone() == (done["total"],)
    text = client.get("/metrics").text
    (line,) = [line for line in text.splitlines() if line.startswith('diptych_done_total{what="pairs"}')]
    assert float(line.split()[1]) == done["total"]
    for stage in ("retrieve", "pair"):
        assert f'diptych_stage_seconds_count{{stage="{stage}"}} {len(answers)}.0\n' in text
    assert len(to_the_end(client, threshold=0.5, keep=["shortest"])) <= 2


def test_a_picture_that_is_removed_while_it_is_compared_asks_to_begin_again(client, scenes, monkeypatch):
    real = pair_scores.PairScores.count_missing

    def missing(self, pairs):
        assert scenes.remove(self.ids[pairs[0][0]])
        return real(self, pairs)

    monkeypatch.setattr(pair_scores.PairScores, "count_missing", missing)
    check_refusal(client.post(PATH, json={}), 409, "collection_changed", "collection", "ask again")
    monkeypatch.undo()
    assert to_the_end(client)[-1]["complete"]


def test_a_collection_opened_for_reading_keeps_its_scores_in_memory(running, drawn, photo, slowly):
    with Collection.open(drawn, photo, read_only=True) as collection, running(collection, photo) as client:
        answers = to_the_end(client, threshold=0.9)
        assert [answer["scored"] for answer in answers[:3]] == [30, 60, 90]
        assert answers[-1]["groups"] == expected(collection, threshold=0.9)
    assert not (drawn / LEDGER).exists()


def test_of_too_many_pairs_the_surest_are_answered_and_the_rest_counted(client, monkeypatch):
    whole = to_the_end(client, threshold=0.9)[-1]
    monkeypatch.setattr(search, "PAIRS", 5)
    found = ask(client, threshold=0.9)
    assert found["pairs"] != whole["pairs"]
    scored = [score for *_, score in whole["pairs"]]
    assert [score for *_, score in found["pairs"]] == scored[:5]
    assert found["left_out"] == len(scored) - 5 > 0
    assert found["bound"] == scored[4]
    assert found["groups"] == whole["groups"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        *(({"threshold": wrong}, "threshold") for wrong in (0, 1.5, "strict")),
        ({"keep": ["first-dir"]}, "keep[0]"),
        ({"keep": []}, "keep"),
    ],
)
def test_what_nobody_can_answer_is_refused_with_the_part_that_is_meant(reader, body, param):
    check_refusal(reader.post(PATH, json=body), 422, "invalid_request", param)


def test_too_many_pictures_and_a_model_without_thresholds_are_refused_with_the_next_step(reader, scorer, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(search, "PICTURES", 4)
        check_refusal(reader.post(PATH, json={}), 422, "too_many_pictures", "collection", "find_duplicates")
    monkeypatch.setattr(scorer.runtime, "thresholds", {})
    check_refusal(reader.post(PATH, json={}), 422, "no_thresholds", "threshold")
    assert ask(reader, threshold=0.5)["bound"] == 0.5


def test_who_waits_too_long_is_told_so_and_leaves_the_turn_to_others(collection):
    caches = PairCaches()

    async def impatient():
        async with caches.wait_turn(collection, 10):
            with pytest.raises(DeadlineError, match=r"for more than 0\.01 s; try again later"):
                async with caches.wait_turn(collection, 0.01):
                    pytest.fail("two had the turn")
        async with caches.wait_turn(collection, 0.01):
            return True

    assert asyncio.run(impatient())
