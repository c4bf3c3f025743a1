import json

import numpy as np
import pytest
from exported import drawn_collection

from diptych import Collection, Scorer
from diptych.dedupe.find import duplicates_among, of_record
from diptych.dedupe.groups import group_items, matches_of
from diptych.dedupe.pair_cache import PairCache
from diptych.dedupe.threshold import by_rates
from diptych_runtime.closer_look.comparison import NOTHING, Comparison


@pytest.fixture(scope="module")
def drawn(tmp_path_factory, network_alone):
    """A collection of drawn scenes and edited copies of some of them."""
    folder = tmp_path_factory.mktemp("drawn")
    photos = drawn_collection(folder, 24)
    with Collection.open(folder / "store", network_alone, create=True) as collection:
        collection.add([*photos[:16], *sorted((folder / "queries").glob("*-edited.jpg"))])
        yield collection


@pytest.fixture
def same_pixels(monkeypatch):
    """All pictures look alike in full size, so that rules alone decide."""
    same = Comparison(NOTHING, NOTHING, equal=True)
    monkeypatch.setattr("diptych.dedupe.find.PixelComparisons.compare", lambda *_: same)


def plain(found):
    return [
        (group.keeper.path, [(m.picture.path, m.relevance_score, m.exact) for m in group.others]) for group in found
    ]


@pytest.mark.usefixtures("same_pixels")
def test_groups_are_copies_with_their_original_whatever_the_order_and_whatever_the_cache_knows(drawn):
    pictures, copy = [of_record(record) for record in drawn.list(1000)], drawn.scorer.asking("copy")
    found = duplicates_among(drawn, threshold=0.5)
    assert (len(found.pictures), len(found.groups) >= 2) == (len(drawn), True)
    for group in found.groups:
        near = dict.fromkeys([group.keeper.path], 1.0) | dict(found.scores[group.keeper.path])
        for member in group.others:
            assert member.relevance_score >= 0.5
            if member.picture.path not in near:  # it matches another of the group, which the one to keep can replace
                assert member.relevance_score == found.scores[member.picture.path][0][1]
                continue
            logits = copy.logits(*(drawn.panel(picture.id)[0][None] for picture in (group.keeper, member.picture)))
            assert member.relevance_score == pytest.approx(float(copy.relevance(logits)[0]), abs=1e-6)
    expected = plain(duplicates_among(drawn, pictures, threshold=0.5).groups)
    random = np.random.default_rng(0)
    with PairCache(None, drawn.scorer.runtime.revision) as pair_cache:
        duplicates_among(drawn, pictures, threshold=0.2, keep=["shortest"], pair_cache=pair_cache)
        shuffled = [pictures[place] for place in random.permutation(len(pictures))]
        again = duplicates_among(drawn, shuffled, threshold=0.5, pair_cache=pair_cache)
    assert plain(again.groups) == expected


@pytest.mark.usefixtures("same_pixels")
def test_its_pairs_give_its_groups_without_asking(drawn):
    """What the report's page relies on."""
    found = duplicates_among(drawn, threshold=0.5)
    place = {picture.id: rank for rank, picture in reversed(list(enumerate(found.pictures[p] for p in found.order)))}
    pairs = [(place[a], place[b]) for a, b, _ in found.pairs]
    scores = [score for *_, score in found.pairs]
    assert min(scores) >= found.bound
    groups = group_items(range(len(found.pictures)), matches_of(pairs, scores, 0.5), 0.5)
    by_rank = [found.pictures[p].path for p in found.order]
    expected = sorted(sorted([group.keeper.path, *(m.picture.path for m in group.others)]) for group in found.groups)
    assert sorted(sorted(by_rank[place] for place in group) for group in groups) == expected


@pytest.mark.usefixtures("same_pixels")
def test_the_rules_choose_the_keeper(collection, picture):
    a, b = (record.id for record in collection.list(2))
    files = [picture(id=a, path="/a", width=900, taken=9.0), picture(id=b, path="/b", taken=1.0)]
    for keep, path in ((["resolution"], "/a"), (["oldest"], "/b"), (["newest", "oldest"], "/a")):
        assert duplicates_among(collection, files, threshold=1e-6, keep=keep).groups[0].keeper.path == path
    assert duplicates_among(collection, files, threshold=1e-6, keep="oldest").keep == ("oldest",)


def test_auto_follows_from_the_calibration_and_the_bound_is_never_above(collection):
    found = duplicates_among(collection)
    assert found.threshold == found.bound == pytest.approx(collection.scorer.runtime.thresholds["0.01"])
    assert duplicates_among(collection, threshold=0.3).bound == 0.3


def test_an_empty_collection_has_no_groups(tmp_path, scorer):
    with Collection.open(tmp_path / "empty", scorer, create=True) as empty:
        found = duplicates_among(empty)
    assert json.dumps([found.groups, found.pairs, found.scored]) == "[[], [], 0]"


@pytest.fixture
def collection_of_two(artifact_of_two, gallery, tmp_path):
    scorer = Scorer.load(str(artifact_of_two), provider="cpu", threads=1)
    with Collection.open(tmp_path / "two", scorer, create=True) as collection:
        collection.add(sorted(gallery.rglob("*.jpg")))
        yield collection


def test_copies_are_asked_for_and_the_ledger_serves_no_question_the_scores_of_another(collection_of_two):
    copy, thing = (collection_of_two.scorer.asking(name) for name in ("copy", "thing"))
    with PairCache(None, copy.runtime.revision) as pair_cache:
        for asked in (copy, thing, copy):
            question = asked.runtime.question
            found = duplicates_among(collection_of_two, pair_cache=pair_cache, bound=1e-6, question=question)
            for a, b, score in found.pairs:
                tokens = [collection_of_two.panel(id)[0][None] for id in (a, b)]
                alone = {one.runtime.question: float(one.relevance(one.logits(*tokens))[0]) for one in (copy, thing)}
                expected = alone["copy"] if question == "copy" else max(alone.values())
                assert score == pytest.approx(expected, abs=1e-6)
            assert found.pairs
        assert found.computed == 0, "the scores of copies are still known"
        unasked = duplicates_among(collection_of_two, pair_cache=pair_cache, bound=1e-6)
        assert (unasked.pairs, unasked.computed) == (found.pairs, 0)
    assert unasked.threshold == by_rates(copy.runtime.thresholds, 12)


@pytest.fixture
def alike(monkeypatch):
    """`alike({(place, place): score})` are the scores of pairs of contents from then on; of others it is 0.1."""
    asked = set()

    def make(scores):
        def score_pairs(self, pairs):
            asked.update((min(pair), max(pair)) for pair in pairs.tolist())
            return np.array([scores.get((min(pair), max(pair)), 0.1) for pair in pairs.tolist()])

        monkeypatch.setattr("diptych.dedupe.find.PairScores.score_pairs", score_pairs)
        return asked

    return make


@pytest.mark.usefixtures("same_pixels")
def test_references_are_kept_and_not_compared_and_what_matches_the_second_alone_stays_its_copy(
    collection, picture, alike, monkeypatch
):
    """Of both references one could be a copy of the other, and then what matches the second would belong to none."""
    ids = sorted(record.id for record in collection.list(4))
    asked = alike({(0, 1): 0.99, (0, 2): 0.97, (1, 2): 0.96, (1, 3): 0.98})
    near = np.array([(0, 2), (1, 2), (1, 3)])
    monkeypatch.setattr("diptych.dedupe.find.candidate_pairs", lambda *_, **__: near)
    files = [picture(id=id, path=f"/{place}", width=900 - place, reference=place < 2) for place, id in enumerate(ids)]
    found = duplicates_among(collection, files, threshold=0.95, bound=0.95)
    assert plain(found.groups) == [("/0", [("/2", 0.97, False)]), ("/1", [("/3", 0.98, False)])]
    assert {member.kept_because for group in found.groups for member in group.others} == {"its reference folder"}
    assert (0, 1) not in asked
    assert found.to_remove == ["/2", "/3"]
    assert (ids[0], ids[1]) not in {(a, b) for a, b, _ in found.pairs}


def test_pictures_that_cannot_be_compared_stay_and_exact_copies_of_each_go(collection, picture):
    a, b = (record.id for record in collection.list(2))
    files = [picture(id=id, path=f"/{name}") for name, id in (("a", a), ("b", b), ("c", b), ("d", a))]
    found = duplicates_among(collection, files, threshold=1e-6)
    (group,) = found.groups
    told = [(one.picture.path, one.replaced_by and one.replaced_by.path, one.kept_because) for one in group.others]
    assert (group.keeper.path, told) == (
        "/a",
        [
            ("/d", "/a", "its path, the first in the alphabet"),
            ("/b", None, "it cannot be told which of the two is the original"),
            ("/c", "/b", "its path, the first in the alphabet"),
        ],
    )
    assert (found.to_remove, found.undecided) == (["/d", "/c"], 1)


def test_exact_copies_of_a_reference_go_and_those_in_references_stay(collection, picture):
    a, b, c = (record.id for record in collection.list(3))
    files = [
        picture(id=a, path="/new/1", taken=1.0),
        picture(id=a, path="/ref/1", reference=True, taken=5.0),
        picture(id=a, path="/ref/2", reference=True, taken=6.0),
        picture(id=b, path="/ref/3", reference=True),
        picture(id=b, path="/ref/4", reference=True),
        picture(id=c, path="/new/2"),
    ]
    found = duplicates_among(collection, files, threshold=1.0)
    assert plain(found.groups) == [("/ref/1", [("/new/1", 1.0, True)])]
    everything = duplicates_among(collection, [one for one in files if one.id != c], threshold=1.0)
    assert (plain(everything.groups), everything.scored) == (plain(found.groups), 0), "all is in references"
