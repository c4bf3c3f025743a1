"""Votes of local features: in a crowd of pictures those that share what the others have not."""

import numpy as np

from diptych_runtime.closer_look import votes
from diptych_runtime.closer_look.votes import ASKING, ELECTED, elected_pairs, find_crowded, make_signatures


def descriptors(rng: np.random.Generator, count: int) -> np.ndarray:
    """Descriptors float32 (P, 128) as RootSIFT has them: roots of shares."""
    found = rng.gamma(0.3, 1.0, (count, 128))
    return np.sqrt(found / found.sum(1, keepdims=True)).astype(np.float32)


def crowd(seed: int = 0, pictures: int = 12, shared: int = 60, own: int = 25) -> list[np.ndarray]:
    """Pictures that all have the same keypoints but for noise, and each some of its own."""
    rng = np.random.default_rng(seed)
    common = descriptors(rng, shared)
    made = []
    for _ in range(pictures):
        noisy = np.abs(common + rng.normal(0, 0.02, common.shape)).astype(np.float32)
        every = np.concatenate([noisy, descriptors(rng, own)])
        made.append(every / np.linalg.norm(every, axis=1, keepdims=True))
    return made


def copied(picture: np.ndarray, rng: np.random.Generator, kept: int) -> np.ndarray:
    """Some of a picture's keypoints, the last ones of it, with noise."""
    noisy = np.abs(picture[-kept:] + rng.normal(0, 0.01, (kept, 128))).astype(np.float32)
    return noisy / np.linalg.norm(noisy, axis=1, keepdims=True)


def test_a_copy_of_little_is_elected_in_a_crowd_of_pictures_that_are_alike_but_for_it():
    rng = np.random.default_rng(5)
    pictures = crowd()
    pictures += [copied(pictures[place], rng, 20) for place in (3, 8)]
    found = elected_pairs([make_signatures(one) for one in pictures])
    assert {(3, 12), (8, 13)} <= set(map(tuple, found.tolist()))
    assert (found[:, 0] < found[:, 1]).all()
    assert np.bincount(found.ravel()).max() <= len(pictures)
    assert len(found) <= ELECTED * len(pictures)


def test_the_same_pairs_are_elected_by_any_number_of_threads_and_in_parts(monkeypatch):
    described = [make_signatures(one) for one in crowd(pictures=9, own=2 * ASKING)]
    alone = elected_pairs(described)
    assert elected_pairs(described, threads=2).tolist() == alone.tolist()
    monkeypatch.setattr(votes, "_STEP", 64)
    assert elected_pairs(described).tolist() == alone.tolist()


def test_of_a_crowd_are_those_with_many_pairs_worth_a_look_and_those_among_them():
    """Four pictures that are all worth comparing, one whose candidates they are, and two that are by themselves."""
    pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (0, 4), (1, 4), (4, 5), (5, 6)])
    worth = np.array([max(pair) < 4 for pair in pairs.tolist()])
    assert find_crowded(pairs, worth, 8, 4).tolist() == [True] * 5 + [False] * 3
    assert not find_crowded(pairs, worth, 8, 20).any(), "none has ten"
    assert not find_crowded(pairs, np.zeros(len(pairs), bool), 8, 4).any()
