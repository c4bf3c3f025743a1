import io
import struct
import zlib

import faiss
import numpy as np
import pytest

from diptych.store.sqlite.vectors import Vectors

SIZE = 32


def units(count: int, seed: int = 0) -> np.ndarray:
    """Unit vectors float32 (count, SIZE)."""
    drawn = np.random.default_rng(seed).normal(size=(count, SIZE))
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


def fill_vectors(vectors: np.ndarray) -> Vectors:
    """The vectors under labels from 1 on."""
    made = Vectors(vectors.shape[1])
    made.add(range(1, len(vectors) + 1), vectors)
    return made


def test_it_answers_like_a_flat_index_to_the_bit_and_leaves_the_threads_of_others_alone():
    vectors, before = units(3000), faiss.omp_get_max_threads()
    flat = faiss.IndexFlatIP(SIZE)
    flat.add(vectors)
    made = fill_vectors(vectors)
    for query in units(20, seed=1):
        cosines, places = flat.search(query[None], 100)
        labels, found = made.search(query, 100)
        assert (labels - 1).tolist() == places[0].tolist()
        assert found.tobytes() == cosines[0].tobytes()
    assert faiss.omp_get_max_threads() == before


@pytest.mark.parametrize("share", [10, 200, 1500])
def test_a_selection_leaves_nothing_but_its_labels(share):
    vectors, query = units(2000), units(1, seed=3)[0]
    exact = np.argsort(-(vectors @ query)) + 1
    among = np.random.default_rng(share).permutation(np.arange(1, 2001))[:share]
    wanted = exact[np.isin(exact, among)][:100]
    assert fill_vectors(vectors).search(query, 100, among)[0].tolist() == wanted.tolist()


def test_of_equals_at_the_cut_the_lower_labels_are_given_whatever_was_removed_before():
    vectors = units(600)
    vectors[100:400] = vectors[100]
    made = fill_vectors(vectors)
    made.remove(range(105, 140))
    made.add([120, 110], vectors[:2] * 0 + vectors[100])
    assert made.search(vectors[100], 6)[0].tolist() == [101, 102, 103, 104, 110, 120]


def test_what_was_removed_is_gone_what_is_unknown_is_no_error_and_the_rest_is_found():
    vectors = units(500)
    made = fill_vectors(vectors)
    made.remove([*range(1, 500, 2), 9999])
    assert made.labels().tolist() == list(range(2, 501, 2))
    assert set(made.search(vectors[0], 500)[0].tolist()) == set(range(2, 501, 2))
    assert made.checksums() == {label: zlib.crc32(vectors[label - 1].tobytes()) for label in range(2, 501, 2)}
    made.remove(range(501))
    assert len(made) == len(made.search(vectors[0], 5)[0]) == 0


def test_what_is_written_and_read_again_answers_the_same_and_can_be_changed():
    made, stream = fill_vectors(units(700)), io.BytesIO()
    made.write(stream)
    stream.seek(0)
    again = Vectors.read(stream)
    assert (again.dimension, len(again)) == (SIZE, 700)
    for query in units(10, seed=5):
        for one, other in zip(made.search(query, 50), again.search(query, 50), strict=True):
            np.testing.assert_array_equal(one, other)
    again.remove([7])
    assert 7 not in again.labels()


def head(magic: bytes = b"diptych", *numbers: int) -> bytes:
    return struct.pack("<8s3q", magic, *numbers)


def whole_file(labels: list[int]) -> bytes:
    """A file of vectors of two numbers as whoever knows the format may write it."""
    parts = (np.zeros((1, 2), np.float32), np.array([len(labels)]), np.array(labels), np.ones((len(labels), 2), "f4"))
    return head(b"diptych", 2, 1, len(labels)) + b"".join(part.tobytes() for part in parts)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "head is wrong"),
        (b"IwFl" + bytes(200), "head is wrong"),
        (head(b"diptych", 2, 0, 0), "head is wrong"),
        (head(b"diptych", 2, 1, -1), "head is wrong"),
        (head(b"diptych", 2, 1, 2**40), "not what its head says"),
        (head(b"diptych", 2, 2, 0) + bytes(32), "several lists"),
        (whole_file([1, -2]), "labels below 0"),
        (whole_file([1, 2])[:-1], "not what its head says"),
        (whole_file([1, 2]) + b"0", "not what its head says"),
    ],
)
def test_what_somebody_else_wrote_is_an_error_and_ends_no_process(data, fault):
    with pytest.raises(ValueError, match=fault):
        Vectors.read(io.BytesIO(data))
