import numpy as np
import pytest

from diptych.dedupe.candidates import candidate_pairs


def unit(count, size=7, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(count, size)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def reference(vectors, count):
    pairs = set()
    for i, row in enumerate(vectors.astype(np.float64)):
        others = sorted((float(-(row @ other)), j) for j, other in enumerate(vectors.astype(np.float64)) if j != i)
        pairs |= {(min(i, j), max(i, j)) for _, j in others[:count]}
    return sorted(pairs)


@pytest.mark.parametrize(("total", "count"), [(53, 5), (11, 10), (5, 40), (2, 1), (1, 5), (0, 5)])
def test_each_picture_is_paired_with_its_nearest_as_plain_loops_find_them(total, count):
    vectors = unit(total)
    assert [tuple(pair) for pair in candidate_pairs(vectors, count).tolist()] == reference(vectors, count)


def test_many_equal_vectors_have_as_many_candidates_as_any():
    pairs = candidate_pairs(np.repeat(unit(1), 9, 0), 3)
    assert (pairs[:, 0] < pairs[:, 1]).all()
    assert len(np.unique(pairs, axis=0)) == len(pairs)
    assert {*pairs.ravel().tolist()} == set(range(9)), "each has a candidate"
    with pytest.raises(ValueError, match="at least 1 candidate, got 0"):
        candidate_pairs(unit(3), 0)


def test_pairs_are_those_that_the_question_brings_near():
    vectors, weights = unit(23, 8), np.repeat(np.array([2, 0], np.float32), 4)
    seen = vectors * np.repeat(np.array([1, 0], np.float32), 4)
    assert candidate_pairs(vectors, 3, queries=vectors * weights).tolist() == candidate_pairs(seen, 3).tolist()
    assert candidate_pairs(vectors, 3, queries=vectors).tolist() == candidate_pairs(vectors, 3).tolist()


def test_only_those_that_ask_look_for_neighbours_and_two_others_are_no_pair():
    vectors = unit(31)
    asking = np.arange(31) % 4 == 0
    every = candidate_pairs(vectors, 5, asking=asking)
    assert asking[every].any(1).all()
    near = {(i, j) for i, j in reference(vectors, 5) if asking[i] or asking[j]}
    found = set(map(tuple, every.tolist()))
    assert found <= near
    assert all(sum(one in pair for pair in found) >= 5 for one in np.flatnonzero(asking).tolist())
    assert candidate_pairs(vectors, 5, asking=np.zeros(31, bool)).shape == (0, 2)
    assert np.array_equal(candidate_pairs(vectors, 5, asking=np.ones(31, bool)), candidate_pairs(vectors, 5))
