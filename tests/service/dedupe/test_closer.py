"""A closer look at what the network takes for copies: each pair once, and from the files as they are."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from diptych import Collection, Scorer
from diptych.bench.demo.collection import draw_scenes
from diptych.dedupe import closer as module
from diptych.dedupe.closer import CloserLook, breadth_first
from diptych.dedupe.find import duplicates_among
from diptych.dedupe.pair_cache import PairCache
from diptych.errors import UnknownPictureError
from diptych.scoring.view_cache import ViewCache
from diptych_runtime.calibration.evidence import NUMBERS, Verification
from diptych_runtime.calibration.false_discovery import discovery_threshold
from diptych_runtime.calibration.verdicts import verdict
from diptych_runtime.closer_look.registration import Keypoints
from diptych_runtime.closer_look.verification import View

VIEW = View(np.zeros((9, 9, 3), np.uint8), Keypoints.none())
# Only what can be laid over each other, and agrees, is a copy.
WEIGHTS = dict.fromkeys(NUMBERS, 0.0) | {"bias": -4.0, "registered": 4.0, "aligned_odds": 1.0}
LOOK = Verification(0.1, WEIGHTS, {"0.01": 0.5, "0.001": 0.9})


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """Three drawn scenes and a smaller copy of the first, in a collection."""
    folder = tmp_path_factory.mktemp("scenes")
    drawn = list(draw_scenes(3))
    for number, scene in enumerate(drawn):
        scene.save(folder / f"{number}.png")
    drawn[0].resize((300, 220)).save(folder / "copy.png")
    with Collection.open(folder / "store", Scorer.load("photo-small", threads=2), create=True) as collection:
        collection.add(sorted(folder.glob("*.png")))
        yield collection


def closer_look(collection, pair_cache, **changes) -> CloserLook:
    records = collection.list(10)
    ids = [record.id for record in records]
    look = CloserLook(collection, ids, {record.id: record.path for record in records}, pair_cache, **changes)
    look.verification = LOOK
    return look


def network(scores) -> Any:
    """A network that gives all pairs these scores."""
    return SimpleNamespace(score_pairs=lambda pairs: scores)


def every_pair(count: int) -> np.ndarray:
    return np.array([(a, b) for a in range(count) for b in range(a + 1, count)])


def test_copies_agree_others_do_not_and_no_pair_is_looked_at_twice_whatever_the_model(scenes, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "BATCH", 2)
    names, told = [record.path.rsplit("/", 1)[1] for record in scenes.list(10)], []
    pairs = every_pair(4)

    def tick(done: int) -> None:
        told.append(done)
        raise KeyboardInterrupt

    with PairCache(tmp_path / "pair_cache.sqlite", "one") as pair_cache:
        with pytest.raises(KeyboardInterrupt):
            closer_look(scenes, pair_cache, on_stage=lambda *_: tick).adjust_scores(pairs, np.full(6, 0.9))
        scores = closer_look(scenes, pair_cache, on_stage=lambda *_: told.append).adjust_scores(pairs, np.full(6, 0.9))
    assert told == [2, 2, 2], "what was looked at before an interruption is kept"
    copies = np.array([{names[a], names[b]} == {"0.png", "copy.png"} for a, b in pairs])
    assert scores[copies].item() > 0.9
    assert scores[~copies].max() < 0.1
    monkeypatch.setattr(Scorer, "evidence", lambda *_: pytest.fail("it was looked at"))
    with PairCache(tmp_path / "pair_cache.sqlite", "another") as pair_cache:
        assert closer_look(scenes, pair_cache).adjust_scores(pairs, np.full(6, 0.9)).tolist() == scores.tolist()


def test_what_the_network_calls_different_is_not_looked_at_and_passes_no_threshold(scenes, monkeypatch):
    monkeypatch.setattr(Scorer, "evidence", lambda *_: pytest.fail("it was looked at"))
    look, scores = closer_look(scenes, PairCache(None, "x")), np.full(6, 0.05)
    expected = LOOK.shown_relevance(scores, [None] * 6)
    assert look.adjust_scores(every_pair(4), scores).tolist() == expected.tolist()
    look.verification = replace(LOOK, above=0.95, weights=WEIGHTS | {"bias": 4.0})
    found = look.adjust_scores(every_pair(4), np.full(6, 0.94))
    assert 0.499 < found.max() < min(LOOK.thresholds.values())


def test_what_local_features_of_a_crowd_vote_for_is_looked_at_whatever_the_network_says(scenes):
    """Of the candidates all but the copy are given, and the network would not look at it either."""
    names = [record.path.rsplit("/", 1)[1] for record in scenes.list(10)]
    pairs = every_pair(4)
    copies = np.array([{names[a], names[b]} == {"0.png", "copy.png"} for a, b in pairs])
    begun, described = [], []
    pair_cache = PairCache(None, "x")

    def on_stage(stage, missing, known):
        if stage == "keypoints":
            begun.append((missing, known))
        return described.append if stage == "keypoints" else lambda done: None

    look = closer_look(scenes, pair_cache, on_stage=on_stage)
    alone = look.adjust_scores(pairs, np.where(copies, 0.05, 0.9))
    assert alone[copies].item() < 0.1
    found = look.elect_pairs(network(np.full(5, 0.9)), pairs[~copies], np.ones(4, bool), 2)
    assert pairs[copies].tolist()[0] in found.tolist()
    assert (found == np.unique(found, axis=0)).all()
    assert (begun, described) == ([(4, 0)], [4])
    scores = look.adjust_scores(pairs, np.where(copies, 0.05, 0.9))
    assert scores[copies].item() > 0.9
    assert look.looks[tuple(pairs[copies][0].tolist())] == "taken"
    assert scores[~copies].tolist() == alone[~copies].tolist()

    again = closer_look(scenes, pair_cache, on_stage=on_stage)
    elected = again.elect_pairs(network(np.full(5, 0.9)), pairs[~copies], np.ones(4, bool), 2)
    assert elected.tolist() == found.tolist()
    assert (begun[1:], described[1:]) == ([(0, 4)], []), "signatures are kept"


def test_only_pictures_of_a_crowd_are_described_for_their_votes_and_two_references_are_no_pair(scenes, monkeypatch):
    pairs, pair_cache = every_pair(4), PairCache(None, "x")
    with monkeypatch.context() as patch:
        patch.setattr(Scorer, "views", lambda self, sources: [None] * len(sources))
        look = closer_look(scenes, pair_cache)
        assert look.elect_pairs(network(np.full(5, 0.9)), pairs[:5], np.ones(4, bool), 2).tolist() == pairs[:5].tolist()
        assert pair_cache.get_signatures(look.ids) == {}, "of what is gone, another run asks again"
    look = closer_look(scenes, PairCache(None, "x"))
    assert look.elect_pairs(network(np.full(2, 0.9)), pairs[:2], np.zeros(4, bool), 2).tolist() == pairs[:2].tolist()
    monkeypatch.setattr(Scorer, "views", lambda *_: pytest.fail("it was described"))
    look = closer_look(scenes, PairCache(None, "x"))
    assert look.elect_pairs(network(np.full(6, 0.9)), pairs, np.ones(4, bool), 20).tolist() == pairs.tolist(), (
        "none has ten"
    )
    look.verification = None
    assert look.elect_pairs(network(np.full(6, 0.9)), pairs, np.ones(4, bool), 2).tolist() == pairs.tolist()


def test_the_pairs_of_one_picture_lie_close_together_in_whatever_order_they_come():
    """A belt of pictures, each alike to the next three, under random names, and a pair apart."""
    rng = np.random.default_rng(0)
    names = rng.permutation(302).tolist()
    pairs = [(names[n], names[n + k]) for n in range(297) for k in (1, 2, 3)] + [(names[300], names[301])]
    pairs = [tuple(sorted(pairs[n])) for n in rng.permutation(len(pairs))]
    order = breadth_first(pairs)
    assert sorted(order) == list(range(len(pairs)))
    held, described = ViewCache(20 * VIEW.nbytes), []
    for start in range(0, len(order), 4):
        ids = sorted({str(one) for n in order[start : start + 4] for one in pairs[n]})
        held.get_views(ids, lambda missing: described.extend(missing) or dict.fromkeys(missing, VIEW))
    assert len(described) == len(set(described)) == 302
    assert breadth_first([]) == []


def test_a_file_of_a_collection_that_has_changed_since_is_not_looked_at(looking, tmp_path):
    first, second, _ = draw_scenes(3)
    first.save(tmp_path / "a.png")
    first.resize((300, 220)).save(tmp_path / "b.png")
    with Collection.open(tmp_path / "store", looking, create=True) as collection:
        collection.add([tmp_path / "a.png", tmp_path / "b.png"])
        second.save(tmp_path / "b.png")
        pair_cache = PairCache(None, looking.runtime.revision)
        found = duplicates_among(collection, threshold=0.01, pair_cache=pair_cache)
        assert [member.closer_look for group in found.groups for member in group.others] == ["not taken"]
        ids = sorted(record.id for record in collection.list(2))
        assert pair_cache.get_evidence([(ids[0], ids[1])]) == [None], "nothing is kept of another content"


def test_a_pair_without_its_files_keeps_the_networks_score_and_is_never_the_same(scenes, monkeypatch):
    look = closer_look(scenes, PairCache(None, "x"))
    look.paths = {}

    def lost(id: str):
        raise UnknownPictureError(id)

    monkeypatch.setattr(scenes, "content", lost)
    strictest = max(LOOK.thresholds.values())
    given = [strictest - 0.01, strictest, 1.0]
    found = look.adjust_scores(every_pair(3), np.array(given))
    assert found.tolist() == pytest.approx([given[0], strictest, strictest])
    assert [verdict(score, LOOK.thresholds) for score in found] == ["likely"] * 3
    assert look.looks == dict.fromkeys([(0, 1), (0, 2), (1, 2)], "not taken")


@pytest.fixture(scope="module")
def looking():
    """A scorer whose model takes a closer look."""
    view = Scorer.load("photo-small", threads=2)
    asked = view.runtime.manifest
    name = next(iter(asked.questions))
    view.runtime.manifest = replace(
        asked, questions={name: replace(asked.questions[name], verification=replace(LOOK, above=0.01))}
    )
    view.runtime._set_question(name)
    return view


def test_groups_are_made_of_what_the_closer_look_says(scenes, looking):
    before, scenes.scorer = scenes.scorer, looking
    try:
        found = duplicates_among(scenes, threshold=0.6)
        (group,) = found.groups
        paths = {group.keeper.path, *(member.picture.path for member in group.others)}
        assert {path.rsplit("/", 1)[1] for path in paths} == {"0.png", "copy.png"}
        assert [member.closer_look for member in group.others] == ["taken"]
        assert found.question == looking.runtime.question
        unasked = duplicates_among(scenes, bound=1e-9)
        known = np.array([score for _, _, score in unasked.pairs])
        assert unasked.threshold == discovery_threshold(known, 4)
    finally:
        scenes.scorer = before


def test_a_picture_that_cannot_be_decoded_any_more_is_passed_over(scenes, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "picture_id", lambda digest: look.ids[0])
    (tmp_path / "broken.png").write_bytes(b"broken")
    look = closer_look(scenes, PairCache(None, "x"))
    look.paths = {look.ids[0]: str(tmp_path / "broken.png")}
    pairs = every_pair(4)
    scores = look.adjust_scores(pairs, np.full(6, 0.85))
    assert scores[(pairs == 0).any(1)].tolist() == [0.85] * 3
    assert [pair for pair, taken in look.looks.items() if taken == "not taken"] == [(0, 1), (0, 2), (0, 3)]
