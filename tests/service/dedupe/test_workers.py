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
from diptych.dedupe.workers import recover, shared
from diptych.errors import BatchError, UnknownPictureError


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr("diptych.dedupe.workers.part_sizes", lambda pictures, pairs: (5, 8))
    monkeypatch.setattr(pair_scores, "_WORTH", 2)


@pytest.fixture
def crew(artifact):
    with Serial() as engine:
        yield WorkerPool(engine, WorkerConfig(str(artifact), "cpu", 1))


@pytest.fixture
def ids(collection):
    return [record.id for record in collection.list(100)]


@pytest.fixture
def ledger(scorer):
    with PairCache(None, scorer.runtime.revision) as ledger:
        yield ledger


PAIRS = np.array(list(itertools.combinations(range(1, 11), 2)))


def test_workers_give_the_scores_that_one_process_gives(collection, ids, ledger, crew):
    expected = pair_scores.PairScores(collection, ids, ledger).of(PAIRS)
    with PairCache(None, collection.scorer.runtime.revision) as other:
        found = pair_scores.PairScores(collection, ids, other, crew=crew)
        assert found.of(PAIRS).tolist() == expected.tolist()
        assert found.computed == found.scored == len(PAIRS) == 45
        assert len(other.scores(ids, "match")[0]) == 45
    assert not (collection.directory / "pairs.parts").exists()


def test_a_few_pairs_are_not_worth_handing_out(collection, ids, ledger, artifact, monkeypatch):
    monkeypatch.setattr(pair_scores, "_WORTH", 46)

    class Idle:
        def run(self, work, attempts):
            pytest.fail("it was asked to work")

    crew = WorkerPool(Idle(), WorkerConfig(str(artifact)))
    assert len(pair_scores.PairScores(collection, ids, ledger, crew=crew).of(PAIRS)) == 45


def test_what_workers_had_scored_is_in_the_ledger_of_the_next_run(collection, ids, ledger, crew):
    with pytest.raises(KeyboardInterrupt):
        pair_scores.PairScores(collection, ids, ledger, crew=WorkerPool(Ending(), crew.config)).of(PAIRS)
    assert len(ledger.scores(ids, "match")[0]) == 8
    recover(collection, ledger)
    assert len(ledger.scores(ids, "match")[0]) == 24
    assert not (collection.directory / "pairs.parts").exists()
    again = pair_scores.PairScores(collection, ids, ledger, crew=crew)
    assert again.missing(PAIRS) == 21
    with PairCache(None, collection.scorer.runtime.revision) as other:
        assert again.of(PAIRS).tolist() == pair_scores.PairScores(collection, ids, other).of(PAIRS).tolist()


def test_scores_of_another_model_are_not_recovered(collection, ids, ledger, crew, other_artifact, tmp_path):
    from diptych import Scorer

    with pytest.raises(KeyboardInterrupt):
        list(shared(collection, ids, PAIRS, WorkerPool(Ending(), crew.config), "match"))
    other = Scorer.load(str(other_artifact), provider="cpu", threads=1)
    with Collection.open(tmp_path / "other store", other, create=True) as elsewhere:
        (collection.directory / "pairs.parts").rename(elsewhere.directory / "pairs.parts")
        recover(elsewhere, ledger)
        assert len(ledger.scores(ids, "match")[0]) == 0
        assert not (elsewhere.directory / "pairs.parts").exists()


def test_groups_are_the_same_whoever_computes(collection, crew):
    alone = duplicates_among(collection, threshold=0.01, candidates=4)
    together = duplicates_among(collection, threshold=0.01, candidates=4, crew=crew)
    assert alone.groups
    assert together == alone


def test_what_is_damaged_or_of_another_version_is_scored_again(collection, ids, ledger, crew):
    def stopped():
        with pytest.raises(KeyboardInterrupt):
            list(shared(collection, ids, PAIRS, WorkerPool(Ending(), crew.config), "match"))
        (job,) = (collection.directory / "pairs.parts").iterdir()
        return job

    job = stopped()
    next(job.glob("pairs-*.part")).write_bytes(b"half")
    recover(collection, ledger)
    assert len(ledger.scores(ids, "match")[0]) == 8, "the other part is whole"
    for name, data in (("pairs.u4", b""), ("pairs.u4", b"abc"), ("job.json", b"{}"), ("names.sqlite", b"no")):
        (stopped() / name).write_bytes(data)
        with PairCache(None, collection.scorer.runtime.revision) as other:
            recover(collection, other)
            assert len(other.scores(ids, "match")[0]) == 0
        assert not (collection.directory / "pairs.parts").exists()


def test_too_little_disk_is_said_before_any_of_it_is_filled(collection, ids, crew, monkeypatch):
    monkeypatch.setattr("diptych.batch.parts.disk.shutil.disk_usage", lambda path: SimpleNamespace(free=100))
    with pytest.raises(BatchError, match=r"needs about .* kB of disk for the tokens .* are free; make room"):
        list(shared(collection, ids, PAIRS, crew, "match"))
    assert not (collection.directory / "pairs.parts").exists()


def test_a_picture_that_was_removed_meanwhile_is_named(collection, ids, crew):
    collection.remove(ids[5])
    with pytest.raises(UnknownPictureError, match=f"{ids[5]} was removed from .* meanwhile; start again"):
        list(shared(collection, ids, PAIRS, crew, "match"))


def test_workers_answer_the_question_that_is_asked_and_what_they_leave_is_kept_under_it(
    artifact_of_two, gallery, tmp_path
):
    scorer = Scorer.load(str(artifact_of_two), provider="cpu", threads=1)
    means = WorkerConfig(str(artifact_of_two), "cpu", 1)
    with (
        Collection.open(tmp_path / "two", scorer, create=True) as collection,
        PairCache(None, scorer.runtime.revision) as ledger,
        PairCache(None, scorer.runtime.revision) as own,
        Serial() as engine,
    ):
        collection.add(sorted(gallery.rglob("*.jpg")))
        ids = [record.id for record in collection.list(100)]
        for question in ("copy", "thing"):
            expected = pair_scores.PairScores(collection, ids, own, question=question).of(PAIRS)
            found = pair_scores.PairScores(collection, ids, ledger, crew=WorkerPool(engine, means), question=question)
            assert found.of(PAIRS).tolist() == expected.tolist()
        with PairCache(None, scorer.runtime.revision) as late:
            with pytest.raises(KeyboardInterrupt):
                list(shared(collection, ids, PAIRS, WorkerPool(Ending(), means), "copy"))
            recover(collection, late)
            assert len(late.scores(ids, "copy")[0]) > 0
            assert len(late.scores(ids, "thing")[0]) == 0
