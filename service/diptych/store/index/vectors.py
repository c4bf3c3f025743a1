"""Unit vectors under labels, and the nearest of them by inner product: FAISS's inverted file with flat lists.

With one list every search is exact, to the bits of a flat index and as fast. With many, a search looks into the lists
whose centroids are nearest: an approximation whose recall is chosen when the lists are made. Either way the vectors
are kept whole, so a cosine is always the exact one, and removing one does not depend on how many there are.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any, BinaryIO

import faiss
import numpy as np

RECALL = 0.99  # share of the exact neighbours that the lists looked into shall have
DEPTHS = (100, 1000)  # neighbours asked for, for which the number of lists is measured; for more than these, it is all
QUERIES = 128

_FAISS: Any = faiss  # whose stubs lack much of what it has
_ROUNDS = 10  # of k-means
_SPARE = 8
_MAGIC, _HEADER = b"diptych\0", struct.Struct("<8s3q")  # and dimension, lists and vectors
# How far a query lies from a stored picture: cosine 0.8, and edited copies of photos have 0.86 in the mean. Probes that
# suffice for the stored vectors themselves, whose lists they made, do not for these: 0.97 where 0.99 was measured.
_AWAY = 0.75


class Vectors:
    """Vectors float32 (e,) of length 1 under distinct labels int64. Searches may run at once; changes exclude them."""

    def __init__(self, dimension: int, centroids: np.ndarray | None = None) -> None:
        """Room for vectors of `dimension` numbers, in as many lists as `centroids` float32 (L, e), or in one."""
        coarse = faiss.IndexFlatIP(dimension)
        _add_centroids(coarse, np.zeros((1, dimension), np.float32) if centroids is None else centroids)
        self._index: Any = faiss.IndexIVFFlat(coarse, dimension, coarse.ntotal, faiss.METRIC_INNER_PRODUCT)
        self._index.set_direct_map_type(_FAISS.DirectMap.Hashtable)
        self.probes: dict[int, int] = {}

    def __len__(self) -> int:
        return self._index.ntotal

    @property
    def dimension(self) -> int:
        """The numbers of a vector."""
        return self._index.d

    @property
    def lists(self) -> int:
        """The number of lists; with one, every search is exact."""
        return self._index.nlist

    def labels(self) -> np.ndarray:
        """All labels int64 (n,), ascending."""
        return np.sort(np.concatenate(self._list_labels()))

    def _list_labels(self) -> list[np.ndarray]:
        """The labels int64 (n,) in each list, copied."""
        return [self._view_list(i)[0].astype(np.int64) for i in range(self.lists)]

    def _lists_of(self, labels: np.ndarray) -> np.ndarray:
        """The list int64 (...) that each of the labels int64 (...) is in."""
        listed = self._list_labels()
        every, lists = np.concatenate(listed), np.repeat(np.arange(len(listed)), [len(part) for part in listed])
        order = np.argsort(every)
        return lists[order[np.searchsorted(every, labels, sorter=order)]]

    def checksums(self) -> dict[int, int]:
        """The CRC-32 of every vector's little-endian bytes, by label."""
        size, found = self._index.code_size, {}
        for place in range(self.lists):
            labels, codes = self._view_list(place)
            parts = (codes.data[at : at + size] for at in range(0, len(codes), size))
            found.update(zip(labels.tolist(), map(zlib.crc32, parts), strict=True))
        return found

    def vector(self, label: int) -> np.ndarray:
        """The vector float32 (e,) under a label. Raises RuntimeError if there is none."""
        return self._index.reconstruct(int(label))

    def add(self, labels: Sequence[int], vectors: np.ndarray) -> None:
        """Add vectors float32 (n, e) under labels that are not there yet."""
        with _one_thread():
            self._index.add_with_ids(np.ascontiguousarray(vectors, np.float32), np.array(labels, np.int64))

    def remove(self, labels: Sequence[int]) -> None:
        """Remove those of the labels that are there."""
        self._index.remove_ids(faiss.IDSelectorArray(np.array(labels, np.int64)))

    def search(
        self, vector: np.ndarray, count: int, among: Sequence[int] | np.ndarray | None = None, *, exact: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Labels int64 (n,) and cosines float32 (n,) of the n <= `count` nearest, nearest first, equals by label.

        Exact with `exact`, with one list, for a count above the largest of `DEPTHS`, and with `among`, which leaves
        nothing but these labels.
        """
        count = min(count, len(self) if among is None else len(among), len(self))
        if count == 0:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        options = {} if among is None else {"sel": _select_labels(among)}
        probes = self.lists if exact or among is not None else self._count_probes(count)
        fetched = min(count + _SPARE, len(self))
        while True:
            labels, cosines = self._search_lists(vector, fetched, probes, options)
            if len(labels) < count and probes < self.lists:
                probes = self.lists  # there were too few in the lists that were looked into
            elif len(labels) == fetched < len(self) and cosines[-1] == cosines[count - 1]:
                fetched = min(2 * fetched, len(self))  # which of these equals come first is not FAISS's to say
            else:
                break
        order = np.lexsort((labels, -cosines))[:count]
        return labels[order], cosines[order]

    def tune(self) -> float:
        """Measure how many lists a search has to look into for `RECALL`; returns that recall, measured, at 100."""
        if self.lists == 1 or not len(self):
            return 1.0
        queries, deepest = self._sample_queries(), min(max(DEPTHS), len(self))
        found = np.stack([self.search(query, deepest, exact=True)[0] for query in queries])
        with _one_thread():
            order = self._index.quantizer.search(queries, self.lists)[1]
        rank = np.argsort(order, axis=1)  # rank[q, l]: how many lists are nearer to the query q than the list l
        needed = np.take_along_axis(rank, self._lists_of(found), axis=1) + 1
        for depth in DEPTHS:
            within = np.sort(needed[:, :depth], axis=None)
            self.probes[depth] = int(within[int(np.ceil(RECALL * len(within))) - 1])
        return float((needed[:, : DEPTHS[0]] <= self.probes[DEPTHS[0]]).mean())

    def write(self, file: IO[bytes]) -> None:
        """Write everything but `probes` to a stream. Raises OSError if that does not take it."""
        inverted, lists = self._index.invlists, range(self.lists)
        sizes = np.array([inverted.list_size(i) for i in lists], np.int64)
        file.write(_HEADER.pack(_MAGIC, self.dimension, self.lists, len(self)))
        file.write(self._index.quantizer.reconstruct_n(0, self.lists).data)
        file.write(sizes.data)
        for i in lists:
            for part in self._view_list(i):
                file.write(part.data)

    @classmethod
    def read(cls, file: BinaryIO, probes: Mapping[int, int]) -> Vectors:
        """Read written vectors. Raises ValueError for bytes that `write` has not written, whoever wrote them.

        FAISS has a reader of its own, which trusts its file: a crafted one ends the process, or worse.
        """
        head, size = file.read(_HEADER.size), file.seek(0, os.SEEK_END)
        magic, dimension, lists, count = _HEADER.unpack(head) if len(head) == _HEADER.size else (b"", 0, 0, 0)
        if magic != _MAGIC or min(dimension, lists) < 1 or count < 0:
            raise ValueError("its head is wrong")
        if size != _HEADER.size + 4 * dimension * lists + 8 * lists + (8 + 4 * dimension) * count:
            raise ValueError(f"{size:,} bytes are not what its head says")
        file.seek(_HEADER.size)
        found, sizes = np.empty((lists, dimension), np.float32), np.empty(lists, np.int64)
        _fill_array(file, found)
        _fill_array(file, sizes)
        if sizes.min() < 0 or sizes.max() > count or sizes.sum() != count:
            raise ValueError("its lists have not as many vectors as its head says")
        vectors = cls(dimension, found)
        index, vectors.probes = vectors._index, {depth: min(max(1, n), lists) for depth, n in probes.items()}
        index.set_direct_map_type(_FAISS.DirectMap.NoMap)
        for i, many in enumerate(sizes.tolist()):
            index.invlists.resize(i, many)
            for part in vectors._view_list(i):
                _fill_array(file, part)
        index.ntotal = count
        if count and vectors.labels()[0] < 0:
            raise ValueError("it has labels below 0")
        index.set_direct_map_type(_FAISS.DirectMap.Hashtable)
        return vectors

    def _view_list(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """The labels int64 (n,) and the bytes uint8 (n 4 e,) of a list's vectors, where FAISS keeps them."""
        inverted = self._index.invlists
        many = inverted.list_size(place)
        codes = faiss.rev_swig_ptr(inverted.get_codes(place), many * self._index.code_size)
        return faiss.rev_swig_ptr(inverted.get_ids(place), many), codes

    def _count_probes(self, count: int) -> int:
        return min((self.probes[depth] for depth in sorted(self.probes) if count <= depth), default=self.lists)

    def _sample_queries(self) -> np.ndarray:
        """Sampled vectors moved towards others, float32 (q, e), q <= QUERIES; the same ones for the same vectors."""
        labels = self.labels()
        random = np.random.default_rng(0)
        sampled, others = (random.permutation(labels)[:QUERIES].tolist() for _ in range(2))
        moved = [self.vector(one) + _AWAY * self.vector(other) for one, other in zip(sampled, others, strict=True)]
        queries = np.array(moved, np.float32).reshape(-1, self.dimension)
        return queries / np.linalg.norm(queries, axis=1, keepdims=True).clip(1e-6)

    def _search_lists(
        self, vector: np.ndarray, count: int, probes: int, options: dict[str, Any]
    ) -> tuple[np.ndarray, np.ndarray]:
        with _one_thread():
            parameters = _FAISS.SearchParametersIVF(nprobe=probes, **options)
            cosines, labels = self._index.search(vector[None].astype(np.float32), count, params=parameters)
        found = labels[0] >= 0
        return labels[0][found], cosines[0][found]


def find_centroids(sample: np.ndarray, lists: int) -> np.ndarray:
    """Centroids float32 (L, e), L <= `lists`, of a sample of vectors float32 (n, e); the same ones for the same sample.

    For a million vectors, 1024 lists and 64 vectors a list this takes about 2 s of one core.
    """
    means = _FAISS.Kmeans(
        sample.shape[1],
        min(lists, len(sample)),
        niter=_ROUNDS,
        spherical=True,
        seed=0,
        min_points_per_centroid=1,
        max_points_per_centroid=len(sample),
    )
    with _one_thread():  # also because the order in which several add up is not always the same
        means.train(np.ascontiguousarray(sample, np.float32))
    return means.centroids


def _fill_array(file: BinaryIO, array: np.ndarray) -> None:
    """Fill an array with the next bytes of a file; raises ValueError if it ends before."""
    view = array.reshape(-1).view(np.uint8).data
    done = 0
    while done < len(view):
        more = file.readinto(view[done:])  # pyright: ignore[reportAttributeAccessIssue] - of files that are read
        if not more:
            raise ValueError("it ended while it was read")
        done += more


def _add_centroids(index: Any, vectors: np.ndarray) -> None:
    index.add(np.ascontiguousarray(vectors, np.float32))


def _select_labels(labels: Sequence[int] | np.ndarray) -> Any:
    """A selector of labels: a bit for each that there may be, the fastest of FAISS's for few and for many."""
    chosen = np.array(labels, np.int64)
    bits = np.zeros(chosen.max() + 1, bool)
    bits[chosen] = True
    return _FAISS.IDSelectorBitmap(np.packbits(bits, bitorder="little"))


@contextmanager
def _one_thread() -> Iterator[None]:
    """FAISS works on one thread inside: a second one costs more than it brings beside the engine's.

    The setting holds for the calling thread only, so it is made where it is needed.
    """
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)
