"""Searching a gallery: what is ranked, what is left out, and what re-ranking may move."""

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from diptych_runtime.calibration.evidence import FEATURES, Verification
from diptych_runtime.closer_look import verification as closer_look
from diptych_runtime.runtime import Runtime
from diptych_training.errors import DataError
from diptych_training.evaluation.estimates import Estimate
from diptych_training.evaluation.protocols import gallery
from diptych_training.evaluation.protocols.gallery import Found, Search, by_query, measure
from diptych_training.evaluation.scored import Side
from diptych_training.evaluation.stages import Entrants
from diptych_training.metrics import Ranking

NONE = np.empty(0, np.int64)


def search(photos: Path, candidates: int = 5, left_out: bool = False) -> Search:
    """All photos as queries among themselves; each matches itself, or where it is left out the next."""
    side = Side([photos / f"{i:02d}.jpg" for i in range(14)], photos)
    own = [np.array([i]) for i in range(14)]
    following = [np.array([(i + 1) % 14]) for i in range(14)]
    return Search(side, side, following if left_out else own, own if left_out else [NONE] * 14, candidates)


def nothing(found: Found, ranking: Ranking) -> dict[str, Estimate]:
    return {}


def kept(entrants: Entrants, given: Search) -> list[Found]:
    """The rankings that `measure` asks figures of, in its order."""
    seen: list[Found] = []

    def figures(found: Found, ranking: Ranking) -> dict[str, Estimate]:
        seen.append(found)
        return {}

    measure(entrants, given, figures)
    return seen


def test_re_ranking_permutes_the_candidates_by_the_pair_score_and_leaves_the_rest_untouched(
    entrants: Entrants, photos: Path
) -> None:
    first, after = kept(entrants, search(photos))
    assert (np.diff(first.scores) <= 0).all()
    assert (np.diff(after.scores) <= 0).all()
    assert np.array_equal(np.sort(first.order), np.sort(after.order))
    assert not np.array_equal(first.order, after.order)
    assert first.order[:, 0].tolist() == list(range(14))


def test_places_follow_the_candidates_and_stay_behind_them() -> None:
    found = Found(np.array([[7, 3, 5]]), np.array([[0.9, 0.8, 0.7]]), np.array([[0, 2, 1]]), (np.array([0, 2, 3, 9]),))
    after = found.permuted(np.array([[1.0, 2.0, 3.0]]))
    assert after.order.tolist() == [[5, 3, 7]]
    assert after.places[0].tolist() == [0, 2, 3, 9]


def test_a_tie_is_not_won(entrants: Entrants, photos: Path) -> None:
    # Four files in a gallery of 29, each of which is the query's very picture; only one of them is said to be right.
    files = [photos / f"{i:02d}.jpg" for i in range(14)]
    for twin in (0, 7, 14, 28):
        gallery = Side([*files[:7], files[0], *files[8:], files[0], *files[1:], files[0]], photos)
        given = Search(Side(files[:1], photos), gallery, [np.array([twin])], [NONE], 6)
        for found in kept(entrants, given):
            assert sorted(found.order[0, :4]) == [0, 7, 14, 28]
            assert len(set(found.scores[0, :4])) == 1
            assert found.order[0, 3] == twin
            assert found.places[0].tolist() == [3]


def test_places_are_those_of_the_whole_ranking(entrants: Entrants, photos: Path) -> None:
    (first, _), (whole, _) = (kept(entrants, search(photos, k, left_out=True)) for k in (2, 14))
    for query in range(14):
        assert first.places[query] == np.flatnonzero(whole.order[query] == (query + 1) % 14)
    assert max(int(places[0]) for places in first.places) >= 2


def test_what_is_left_out_is_no_candidate(entrants: Entrants, photos: Path) -> None:
    given = search(photos, 100, left_out=True)
    assert given.depth == 13
    for found in kept(entrants, given):
        assert all(query not in found.order[query] for query in range(14))


def test_a_control_ranks_the_whole_gallery_and_one_that_verifies_only_our_candidates(
    entrants: Entrants, photos: Path, colour
) -> None:
    ranks, verifies = colour("ranks"), colour("verifies", verifies=True)
    ours, _, alone, verified = kept(Entrants(entrants.model, {}, [ranks, verifies]), search(photos))
    assert ranks.asked == [14] * 14
    assert verifies.asked == [5] * 14
    assert alone.order[:, 0].tolist() == list(range(14))
    assert np.array_equal(np.sort(verified.order), np.sort(ours.order))
    assert not np.array_equal(np.sort(alone.order), np.sort(ours.order))


def test_the_scored_pairs_are_every_query_with_its_candidates(entrants: Entrants, photos: Path) -> None:
    given = search(photos)
    measured = measure(entrants, given, nothing)
    comparison, scored = measured.comparison, measured.scored
    assert scored.pairs.shape == (70, 2)
    assert np.array_equal(scored.labels, scored.pairs[:, 0] == scored.pairs[:, 1])
    best = scored.logits.reshape(14, 5).max(1)
    assert np.array_equal(best, comparison.ours.reranked.ranking.scores[:, 0])
    assert by_query(given).count == 14


@pytest.fixture
def looking(runtime: Runtime) -> Runtime:
    """The runtime, whose model takes a closer look at every pair."""
    weights = dict.fromkeys(FEATURES, 0.0) | {"bias": -4.0, "registered": 3.0, "agreement_60": 12.0}
    look = Verification(1e-9, weights, {"0.01": 0.5, "0.001": 0.9})
    view = copy.copy(runtime)
    questions = {name: replace(one, verification=look) for name, one in runtime.manifest.questions.items()}
    view.manifest = replace(runtime.manifest, questions=questions)
    view._answer(next(iter(questions)))
    return view


def test_what_is_re_ranked_is_what_a_search_answers_after_its_closer_looks(looking: Runtime, photos: Path) -> None:
    measured = measure(Entrants(looking), search(photos), nothing)
    order = measured.comparison.ours.reranked
    assert measured.scored.shown is not None
    assert measured.alone is not None
    # A photo agrees with itself and with no other: by the network alone it need not come first.
    assert order.ranking.relevant[:, 0].all()
    shown, labels = measured.scored.shown, measured.scored.labels
    assert shown[labels].min() > 0.9 > 0.5 > shown[~labels].max()
    assert sorted(shown.tolist()) == sorted(order.ranking.scores.ravel().tolist())
    assert list(measured.closer_look()["closer_look"]) == ["without", "interval", "gain"]


def test_no_query_gets_more_closer_looks_than_a_search_takes(
    looking: Runtime, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gallery, "CLOSER_LOOKS", 2)
    seen: list[int] = []
    whole = closer_look.verify
    monkeypatch.setattr(closer_look, "verify", lambda a, b: (seen.append(1), whole(a, b))[1])
    measure(Entrants(looking), search(photos), nothing)
    assert len(seen) == 2 * 14


def test_a_model_that_takes_no_closer_look_is_measured_by_its_network_alone(entrants: Entrants, photos: Path) -> None:
    measured = measure(entrants, search(photos), nothing)
    assert measured.alone is measured.scored.shown is None
    assert measured.closer_look() == {}


def test_at_least_one_candidate_is_needed(photos: Path) -> None:
    with pytest.raises(DataError, match="at least one candidate must be looked at, got --candidates 0"):
        _ = search(photos, 0).depth
    alone = Side([photos / "00.jpg"], photos)
    with pytest.raises(DataError, match="no picture but the query itself"):
        _ = Search(alone, alone, [NONE], [np.array([0])], 5).depth
