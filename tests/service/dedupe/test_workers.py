import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from part_works import Ending

from diptych import Collection, Scorer
from diptych.batch.workers.executor import Serial
from diptych.batch.workers.shared_folder import WorkerPool
from diptych.batch.workers.tasks import WorkerConfig
from diptych.dedupe import pair_scores
from diptych.dedupe.find import duplicates_among
from diptych.dedupe.pair_cache import PairCache
from diptych.dedupe.pair_scores import PairScores
from diptych.dedupe.workers import recover_scores, score_by_workers
from diptych.errors import BatchError


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr("diptych.dedupe.workers.part_sizes", lambda pictures, pairs: (5, 8))
    monkeypatch.setattr(pair_scores, "_WORTH", 2)


@pytest.fixture
def workers(artifact):
    with Serial() as engine:
        yield WorkerPool(engine, WorkerConfig(str(artifact), "cpu", 1))


def leave_parts(collection, ids, config, question="match"):
    """The folder of a job that was killed after workers had scored two of its parts."""
    with pytest.raises(KeyboardInterrupt):
        list(score_by_workers(collection, ids, PAIRS, WorkerPool(Ending(), config), question))
    (job,) = (collection.directory / "pairs.parts").iterdir()
    return job


@pytest.fixture
def ids(collection):
    return [record.id for record in collection.list(100)]


@pytest.fixture
def pair_cache(scorer):
    with PairCache(None, scorer.runtime.revision) as pair_cache:
        yield pair_cache


PAIRS = np.array(list(itertools.combinations(range(1, 11), 2)))


def test_workers_give_the_scores_that_one_process_gives(collection, ids, pair_cache, workers):
    expected = PairScores(collection, ids, pair_cache).score_pairs(PAIRS)
    with PairCache(None, collection.scorer.runtime.revision) as other:
        found = PairScores(collection, ids, other, workers=workers)
        assert found.score_pairs(PAIRS).tolist() == expected.tolist()
        assert found.computed == found.requested_count == len(PAIRS) == 45
        assert len(other.get_scores(ids, "match")[0]) == 45
    assert not (collection.directory / "pairs.parts").exists()


def test_what_workers_had_scored_is_in_the_cache_of_the_next_run(collection, ids, pair_cache, workers):
    with pytest.raises(KeyboardInterrupt):
        PairScores(collection, ids, pair_cache, workers=WorkerPool(Ending(), workers.config)).score_pairs(PAIRS)
    assert len(pair_cache.get_scores(ids, "match")[0]) == 8
    recover_scores(collection, pair_cache)
    assert len(pair_cache.get_scores(ids, "match")[0]) == 24
    assert not (collection.directory / "pairs.parts").exists()
    again = PairScores(collection, ids, pair_cache, workers=workers)
    assert again.count_missing(PAIRS) == 21
    with PairCache(None, collection.scorer.runtime.revision) as other:
        expected = PairScores(collection, ids, other).score_pairs(PAIRS)
    assert again.score_pairs(PAIRS).tolist() == expected.tolist()


def test_what_is_damaged_or_of_another_model_is_scored_again(
    collection, ids, pair_cache, workers, other_artifact, tmp_path
):
    next(leave_parts(collection, ids, workers.config).glob("pairs-*.part")).write_bytes(b"half")
    recover_scores(collection, pair_cache)
    assert len(pair_cache.get_scores(ids, "match")[0]) == 8, "the other part is whole"
    other = Scorer.load(str(other_artifact), provider="cpu", threads=1)
    with Collection.open(tmp_path / "other store", other, create=True) as elsewhere:
        for name, data in (("pairs.u4", b""), ("pairs.u4", b"abc"), ("job.json", b"{}"), ("", b"")):
            job, place = leave_parts(collection, ids, workers.config), collection
            if name:
                (job / name).write_bytes(data)
            else:
                job.parent.rename(elsewhere.directory / "pairs.parts")
                place = elsewhere
            with PairCache(None, place.scorer.runtime.revision) as found:
                recover_scores(place, found)
                assert len(found.get_scores(ids, "match")[0]) == 0
            assert not (place.directory / "pairs.parts").exists()


def test_workers_answer_the_question_that_is_asked_and_what_they_leave_is_kept_under_it(
    artifact_of_two, gallery, tmp_path
):
    scorer = Scorer.load(str(artifact_of_two), provider="cpu", threads=1)
    config = WorkerConfig(str(artifact_of_two), "cpu", 1)
    with (
        Collection.open(tmp_path / "two", scorer, create=True) as collection,
        PairCache(None, scorer.runtime.revision) as pair_cache,
        PairCache(None, scorer.runtime.revision) as own,
        Serial() as engine,
    ):
        collection.add(sorted(gallery.rglob("*.jpg")))
        ids, workers = [record.id for record in collection.list(100)], WorkerPool(engine, config)
        for question in ("copy", "thing"):
            expected = PairScores(collection, ids, own, question=question).score_pairs(PAIRS)
            found = PairScores(collection, ids, pair_cache, workers=workers, question=question)
            assert found.score_pairs(PAIRS).tolist() == expected.tolist()
        with PairCache(None, scorer.runtime.revision) as late:
            leave_parts(collection, ids, config, "copy")
            recover_scores(collection, late)
            assert len(late.get_scores(ids, "copy")[0]) > 0
            assert len(late.get_scores(ids, "thing")[0]) == 0


def test_groups_are_the_same_whoever_computes(collection, workers):
    alone = duplicates_among(collection, threshold=0.01, candidates=4)
    together = duplicates_among(collection, threshold=0.01, candidates=4, workers=workers)
    assert alone.groups
    assert together == alone


def test_too_little_disk_is_said_before_any_of_it_is_filled(collection, ids, workers, monkeypatch):
    monkeypatch.setattr("diptych.batch.parts.disk.shutil.disk_usage", lambda path: SimpleNamespace(free=100))
    with pytest.raises(BatchError, match=r"needs about .* kB of disk for the tokens .* are free; make room"):
        list(score_by_workers(collection, ids, PAIRS, workers, "match"))
    assert not (collection.directory / "pairs.parts").exists()
