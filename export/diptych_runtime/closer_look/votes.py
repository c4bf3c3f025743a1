"""Votes of local features: which pictures of a crowd have a detail in common that the others of it have not.

Where many pictures look alike to a network, as pages of one layout do, the original of a damaged copy is not always
among its nearest. Keypoints tell more, as in the retrieval of objects (Sivic and Zisserman 2003): each asks for the one
that is most like it in another picture, and votes for that picture by how much nearer it is there than in any third one
(the ratio of Lowe 2004, between pictures).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import faiss
import numpy as np

CELLS, DIRECTIONS = 2, 8  # of a signature, two by two; a descriptor of SIFT has four by four
LENGTH = CELLS * CELLS * DIRECTIONS
KEPT, ASKING = 400, 100  # keypoints of a picture that are voted for, and of these that vote
NEIGHBOURS = 12  # of each, of which some lie in its own picture and in the one that it votes for
ELECTED = 5  # pictures that each is compared with
CROWD = 0.5  # of the candidates of a picture in a crowd: so many deserve a closer look, or are in it themselves
_LISTS, _TO_A_LIST, _TAUGHT = 4096, 300, 80  # at most, keypoints to one, and those of each that teach where it lies
_VISITED, _OF_LISTS = 8, 256  # lists, and more where there are more than so many
_STEP = 2**15  # keypoints that vote at once


def make_signatures(descriptors: np.ndarray) -> np.ndarray:
    """Up to `KEPT` short signatures uint8 (K, 32) of a picture's RootSIFT descriptors float32 (P, 128).

    They are roots of the sums over each four cells, 0 to 1 in steps of 1/255.
    """
    descriptors = descriptors[_spread_evenly(len(descriptors), KEPT)]
    cells = np.square(descriptors.astype(np.float32)).reshape(-1, CELLS, 2, CELLS, 2, DIRECTIONS)
    return np.round(255 * np.sqrt(cells.sum((2, 4)))).astype(np.uint8).reshape(-1, LENGTH)


def _spread_evenly(count: int, most: int) -> np.ndarray:
    """Up to `most` of `count` places, evenly spread, int64."""
    return np.linspace(0, count, min(most, count), endpoint=False, dtype=np.int64)


def find_crowded(pairs: np.ndarray, worth: np.ndarray, pictures: int, count: int) -> np.ndarray:
    """Which of n `pictures` are in a crowd, bool (n,), by their candidate pairs int64 (P, 2).

    Some pairs are `worth` a closer look, bool (P,). In a crowd are pictures with half of `count` such pairs or more,
    and those half of whose candidates are such pictures.
    """
    looked = np.bincount(pairs[worth].ravel(), minlength=pictures)
    crowd = looked >= max(2, CROWD * count)
    beside = np.bincount(pairs.ravel(), minlength=pictures)
    first, second = pairs.T
    of_it = np.bincount(first, crowd[second], pictures) + np.bincount(second, crowd[first], pictures)
    return crowd | ((beside > 0) & (of_it >= CROWD * beside))


def elected_of_crowd(
    pairs: np.ndarray,
    worth: np.ndarray,
    pictures: int,
    count: int,
    described: Callable[[list[int]], Sequence[np.ndarray]],
    threads: int = 1,
) -> np.ndarray:
    """The `elected_pairs` of those pictures that are in a crowd (see `find_crowded`), as places among all; `described`
    gives the signatures of those at some places.
    """
    crowd = np.flatnonzero(find_crowded(pairs, worth, pictures, count))
    return crowd[elected_pairs(described(crowd.tolist()), threads)] if len(crowd) else pairs[:0]


def elected_pairs(pictures: Sequence[np.ndarray], threads: int = 1) -> np.ndarray:
    """Pairs int64 (V, 2), first < second, sorted, of n pictures, each given as its signatures uint8 (P, 32): every
    picture and the `ELECTED` that share most votes with it.

    The nearest signatures are looked for in an inverted file, most of whose lists are passed over. The same pictures in
    the same order give the same pairs, with however many threads.
    """
    counts = [len(one) for one in pictures]
    if sum(counts) < 2:
        return np.empty((0, 2), np.int64)
    before = faiss.omp_get_max_threads()
    try:
        faiss.omp_set_num_threads(1)  # the lists are learnt and chosen by sums, which are to be made in one order
        stored = np.concatenate(pictures)
        return _elect_pairs(*_count_votes(_build_index(stored), stored, counts, threads), len(pictures))
    finally:
        faiss.omp_set_num_threads(before)


def _build_index(stored: np.ndarray) -> faiss.IndexIVF:
    lists = int(np.clip(len(stored) // _TO_A_LIST, 1, _LISTS))
    index = faiss.IndexIVFScalarQuantizer(
        faiss.IndexFlatL2(LENGTH), LENGTH, lists, faiss.ScalarQuantizer.QT_8bit_direct, faiss.METRIC_L2, False
    )
    index.cp.min_points_per_centroid = 1  # of few keypoints too, and without a warning
    index.nprobe = min(lists, max(_VISITED, lists * _VISITED // _OF_LISTS))
    index.train(stored[:: max(1, len(stored) // (_TAUGHT * lists))].astype(np.float32))
    for start in range(0, len(stored), _STEP):
        index.add(stored[start : start + _STEP].astype(np.float32))
    return index


def _count_votes(
    index: faiss.IndexIVF, stored: np.ndarray, counts: Sequence[int], threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """The pairs that have votes, as keys int64 (V,) of the lower place times the number of pictures and the higher one,
    and their weight float64 (V,), both ways together.
    """
    own, begin = np.repeat(np.arange(len(counts)), counts), np.cumsum(counts) - counts
    asking = np.concatenate([first + _spread_evenly(count, ASKING) for first, count in zip(begin, counts, strict=True)])
    keys, weights = [], []
    for start in range(0, len(asking), _STEP):
        part = asking[start : start + _STEP]
        squares, near = _nearest_signatures(index, stored[part].astype(np.float32), threads)
        distances, voter = np.sqrt(np.maximum(squares, 0)), own[part][:, None]
        where = np.where(near >= 0, own[near], voter)  # a list may have fewer
        chosen = _first_true(where != voter)
        voted = np.take_along_axis(where, chosen, 1)
        third = (where != voter) & (where != voted)
        # Without a third one the farthest that was found stands for it.
        known = np.where(near >= 0, distances, 0).max(1, keepdims=True)
        nearest, second = (np.take_along_axis(distances, place, 1) for place in (chosen, _first_true(third)))
        second = np.where(third.any(1, keepdims=True), second, known)
        weight = np.where(voted != voter, 1 - nearest / np.maximum(second, 1), 0).clip(0)[:, 0]
        cast = np.flatnonzero(weight)
        both = np.concatenate([voter, voted], 1)[cast]
        keys.append(both.min(1) * len(counts) + both.max(1))
        weights.append(weight[cast])
    pairs, place = np.unique(np.concatenate(keys), return_inverse=True)
    return pairs, np.bincount(place, np.concatenate(weights), len(pairs))


def _nearest_signatures(index: faiss.IndexIVF, asking: np.ndarray, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """The squared distances and the places of up to `NEIGHBOURS` of each signature, -1 for one that is not there."""
    far, lists = index.quantizer.search(asking, index.nprobe)
    faiss.omp_set_num_threads(threads)
    try:
        return index.search_preassigned(asking, min(NEIGHBOURS, index.ntotal), lists, far)
    finally:
        faiss.omp_set_num_threads(1)


def _first_true(which: np.ndarray) -> np.ndarray:
    """The first place of each row that is true, (M, 1); 0 where none is."""
    return which.argmax(1)[:, None]


def _elect_pairs(keys: np.ndarray, weights: np.ndarray, pictures: int) -> np.ndarray:
    """The pairs with most votes of either picture; of equal ones, those with the lower places."""
    low, high = np.divmod(keys, pictures)
    picture, weight, pair = np.concatenate([low, high]), np.tile(weights, 2), np.tile(np.arange(len(keys)), 2)
    order = np.lexsort((pair, -weight, picture))
    ordered = picture[order]
    rank = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    kept = np.unique(pair[order[rank < ELECTED]])
    return np.stack([low[kept], high[kept]], 1)
