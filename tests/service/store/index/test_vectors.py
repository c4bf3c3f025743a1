import io
import struct
import tracemalloc
import zlib

import faiss
import numpy as np
import pytest

from diptych.store.index.vectors import DEPTHS, RECALL, Vectors, find_centroids

SIZE = 32


def clustered(count: int, seed: int = 0, groups: int = 150) -> np.ndarray:
    """Unit vectors float32 (count, SIZE) in groups of their own width, as embeddings of photos lie."""
    random = np.random.default_rng(seed)
    middles, widths = random.normal(size=(groups, SIZE)), random.uniform(0.3, 0.9, groups)
    group = random.integers(groups, size=count)
    found = middles[group] + widths[group, None] * random.normal(size=(count, SIZE))
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


def filled(vectors: np.ndarray, lists: int, labels=None) -> Vectors:
    made = Vectors(SIZE, find_centroids(vectors, lists) if lists > 1 else None)
    made.add(range(1, len(vectors) + 1) if labels is None else labels, vectors)
    made.tune()
    return made


@pytest.fixture(scope="module")
def many() -> tuple[np.ndarray, Vectors]:
    vectors = clustered(20_000)
    return vectors, filled(vectors, 128)


def test_one_list_answers_like_a_flat_index_to_the_bit():
    vectors = clustered(3000)
    flat = faiss.IndexFlatIP(SIZE)
    flat.add(vectors)
    made = filled(vectors, 1)
    for query in clustered(20, seed=1):
        cosines, places = flat.search(query[None], 100)
        labels, found = made.search(query, 100)
        assert (labels - 1).tolist() == places[0].tolist()
        assert found.tobytes() == cosines[0].tobytes()


def test_lists_give_the_recall_they_were_made_for_on_queries_they_have_not_seen(many):
    vectors, made = many
    queries = vectors[::200] + 0.5 * clustered(100, seed=2)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    for depth in DEPTHS:
        kept = [np.isin(made.search(q, depth, exact=True)[0], made.search(q, depth)[0]).mean() for q in queries]
        assert RECALL - 0.02 <= np.mean(kept) < 1
        assert made.probes[depth] < made.lists, "it would be exact"
    assert made.probes[100] < made.probes[1000]


def test_measuring_the_recall_takes_no_memory_for_each_of_the_vectors_found(many):
    tracemalloc.start()
    many[1].tune()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6, "each of 128 queries finds 1,000 vectors, which are 16 MB and would be 30 more one by one"


def test_every_cosine_of_an_approximate_search_is_the_exact_one_and_its_own_vector_comes_first(many):
    vectors, made = many
    for place in range(0, len(vectors), 997):
        labels, cosines = made.search(vectors[place], 100)
        assert labels[0] == place + 1
        np.testing.assert_allclose(cosines, vectors[labels - 1] @ vectors[place], atol=1e-6)
        assert (np.diff(cosines) <= 0).all()


def test_more_than_was_measured_for_and_a_selection_are_searched_exactly(many):
    vectors, made = many
    query = clustered(1, seed=3)[0]
    exact = np.argsort(-(vectors @ query)) + 1
    assert set(made.search(query, 1500)[0]) == set(exact[:1500].tolist())
    for share in (10, 2000, 15_000):
        among = np.random.default_rng(share).permutation(np.arange(1, len(vectors) + 1))[:share]
        wanted = exact[np.isin(exact, among)][:100]
        assert made.search(query, 100, among)[0].tolist() == wanted.tolist()


@pytest.mark.parametrize("lists", [1, 16])
def test_of_equals_at_the_cut_the_lower_labels_are_given_whatever_was_removed_before(lists):
    vectors = clustered(600)
    vectors[100:400] = vectors[100]
    made = filled(vectors, lists)
    made.remove(range(105, 140))
    made.add([120, 110], vectors[:2] * 0 + vectors[100])
    assert made.search(vectors[100], 6)[0].tolist() == [101, 102, 103, 104, 110, 120]


@pytest.mark.parametrize("lists", [1, 16])
def test_what_was_removed_is_gone_what_is_unknown_is_no_error_and_the_rest_is_found(lists):
    vectors = clustered(500)
    made = filled(vectors, lists)
    made.remove([*range(1, 500, 2), 9999])
    assert made.labels().tolist() == list(range(2, 501, 2))
    assert made.search(vectors[0], 500)[0].tolist() != []
    assert set(made.search(vectors[0], 500)[0].tolist()) == set(range(2, 501, 2))
    with pytest.raises(RuntimeError):
        made.vector(1)
    np.testing.assert_array_equal(made.vector(2), vectors[1])
    made.remove(range(501))
    assert len(made) == len(made.search(vectors[0], 5)[0]) == 0


@pytest.mark.parametrize("lists", [1, 16])
def test_as_many_as_asked_for_are_given_where_the_lists_that_are_looked_into_have_fewer(lists):
    made = filled(clustered(60), lists)
    made.probes = dict.fromkeys(made.probes, 1)
    assert len(made.search(clustered(1, seed=4)[0], 59)[0]) == 59


@pytest.mark.parametrize("lists", [1, 16])
def test_what_is_written_and_read_again_answers_the_same_and_can_be_changed(lists):
    vectors = clustered(700)
    made, stream = filled(vectors, lists), io.BytesIO()
    made.write(stream)
    stream.seek(0)
    again = Vectors.read(stream, made.probes)
    assert (again.lists, again.dimension, len(again)) == (lists, SIZE, 700)
    for query in clustered(10, seed=5):
        for one, other in zip(made.search(query, 50), again.search(query, 50), strict=True):
            np.testing.assert_array_equal(one, other)
    again.remove([7])
    assert 7 not in again.labels()


def head(magic: bytes = b"diptych", *numbers: int) -> bytes:
    return struct.pack("<8s3q", magic, *numbers)


def whole_file(labels: list[int], sizes: list[int]) -> bytes:
    """A file of vectors of two numbers as whoever knows the format may write it."""
    parts = (np.zeros((len(sizes), 2), np.float32), np.array(sizes), np.array(labels), np.ones((len(labels), 2), "f4"))
    return head(b"diptych", 2, len(sizes), len(labels)) + b"".join(part.tobytes() for part in parts)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "head is wrong"),
        (b"IwFl" + bytes(200), "head is wrong"),
        (head(b"diptych", 2, 0, 0), "head is wrong"),
        (head(b"diptych", 2, 1, -1), "head is wrong"),
        (head(b"diptych", 2, 1, 2**40), "not what its head says"),
        (whole_file([1, 2], [3]), "lists have not as many"),
        (whole_file([1, 2], [-1, 3]), "lists have not as many"),
        (whole_file([1, -2], [2]), "labels below 0"),
        (whole_file([1, 2], [2])[:-1], "not what its head says"),
        (whole_file([1, 2], [2]) + b"0", "not what its head says"),
    ],
)
def test_what_somebody_else_wrote_is_an_error_and_ends_no_process(data, fault):
    with pytest.raises(ValueError, match=fault):
        Vectors.read(io.BytesIO(data), {})
    assert Vectors.read(io.BytesIO(whole_file([1, 2], [1, 1])), {100: -5}).probes == {100: 1}


def test_the_same_vectors_give_the_same_lists_and_probes():
    vectors = clustered(2000)
    np.testing.assert_array_equal(find_centroids(vectors, 32), find_centroids(vectors, 32))
    assert len(find_centroids(clustered(5), 16)) == 5, "no more lists than vectors"
    assert filled(vectors, 32).probes == filled(vectors, 32).probes


def test_threads_of_others_are_left_alone():
    before = faiss.omp_get_max_threads()
    filled(clustered(100), 4).search(clustered(1)[0], 3)
    assert faiss.omp_get_max_threads() == before


@pytest.mark.parametrize("lists", [1, 3])
def test_checksums_are_those_of_the_vectors_under_their_labels(lists):
    drawn = np.random.default_rng(5).normal(size=(11, 7)).astype(np.float32)
    vectors = Vectors(7, drawn[:lists] if lists > 1 else None)
    vectors.add(range(20, 31), drawn)
    vectors.remove([22, 29])
    assert vectors.checksums() == {
        20 + place: zlib.crc32(vector.tobytes()) for place, vector in enumerate(drawn) if place not in (2, 9)
    }
