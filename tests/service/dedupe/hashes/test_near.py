"""Pairs of hashes, held against all pairs."""

import numpy as np
import pytest

from diptych.dedupe import hashes as near
from diptych.dedupe.hashes import close_pairs
from diptych.errors import DedupeError


def drawn(count: int, clusters: int = 12) -> np.ndarray:
    """Hashes, most of which are a few bits from one of some, with some that are equal."""
    rng = np.random.default_rng(count)
    hashes = rng.integers(0, 2**64, clusters, np.uint64)[rng.integers(0, clusters, count)]
    for _ in range(6):
        hashes ^= np.where(rng.random(count) < 0.5, np.uint64(1) << rng.integers(0, 64, count, np.uint64), np.uint64(0))
    return hashes


def all_pairs(hashes: np.ndarray, distance: int) -> list[tuple[int, int, int]]:
    apart = np.bitwise_count(hashes[:, None] ^ hashes[None])
    first, second = np.nonzero(np.triu(apart <= distance, 1))
    return list(zip(first.tolist(), second.tolist(), apart[first, second].tolist(), strict=True))


@pytest.mark.parametrize("distance", [0, 3, 4, 7, 10])
def test_all_pairs_that_are_close_are_found_each_once(distance):
    hashes = drawn(401)
    pairs, distances = close_pairs(hashes, distance)
    expected = all_pairs(hashes, distance)
    assert len(expected) > 3
    assert [(a, b, d) for (a, b), d in zip(pairs.tolist(), distances.tolist(), strict=True)] == expected


def test_the_same_pairs_however_few_are_compared_at_once(monkeypatch):
    hashes = drawn(211)
    expected = close_pairs(hashes, 6)[0].tolist()
    monkeypatch.setattr(near, "_AT_ONCE", 7)
    assert close_pairs(hashes, 6)[0].tolist() == expected


def test_two_that_do_not_ask_are_no_pair():
    hashes = drawn(97)
    asking = np.arange(97) % 3 == 0
    for few in (np.empty(0, np.uint64), hashes[:1]):
        assert [one.shape for one in close_pairs(few, 4)] == [(0, 2), (0,)]
    pairs, _ = close_pairs(hashes, 6, asking=asking)
    expected = [(a, b) for a, b, _ in all_pairs(hashes, 6) if asking[a] or asking[b]]
    assert list(map(tuple, pairs.tolist())) == expected


def test_pairs_are_counted_once_in_however_many_bands_they_meet(monkeypatch):
    hashes = drawn(211)
    monkeypatch.setattr(near, "MOST_PAIRS", len(all_pairs(hashes, 6)))
    assert len(close_pairs(hashes, 6)[0]) == near.MOST_PAIRS
    monkeypatch.setattr(near, "MOST_PAIRS", near.MOST_PAIRS - 1)
    with pytest.raises(DedupeError, match="pairs of pictures have hashes that differ in at most 6 bits; name"):
        close_pairs(hashes, 6)
