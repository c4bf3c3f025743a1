import dataclasses
from contextlib import nullcontext

import numpy as np
import pytest

from diptych.batch.parts.folder import JobSpec, folder_of, opened
from diptych.batch.parts.manifest import SCORED_BY, Manifest, new_id
from diptych.batch.tables.scores import Scores
from diptych.batch.workers.tasks import clear_caches, encode, score
from diptych.errors import BatchError


@pytest.fixture
def begun(means, pairs, tmp_path):
    """A job that has begun and of which nothing is done."""
    order = JobSpec.of(pairs, means.model)
    bar = lambda unit, count, done: nullcontext(lambda count: None)  # noqa: E731
    with opened(order, tmp_path / "out.csv", resume=False, force=False, bar=bar) as manifest:
        yield manifest, folder_of(tmp_path / "out.csv")
    clear_caches()


def test_a_part_done_again_by_others_has_the_same_bytes(begun, means):
    manifest, folder = begun

    def everything(**changed):
        options = {"folder": str(folder), "means": dataclasses.replace(means, **changed)}
        for number in range(manifest.encoding.parts):
            encode(number, **options)
        for number in range(manifest.scoring.parts):
            score(number, **options)
        return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}

    first = everything()
    assert len(first) == 3 + 1 + 2 + manifest.scoring.parts
    assert everything(threads=2) == first


def test_a_part_holds_the_scores_of_its_own_pairs(begun, means, scorer, pairs):
    manifest, folder = begun
    for number in range(manifest.encoding.parts):
        encode(number, folder=str(folder), means=means)
    score(2, folder=str(folder), means=means)
    found = Scores.load(folder / manifest.scoring.file(2))
    names = np.fromfile(folder / "pairs.u4", np.uint32).reshape(-1, 2)[slice(*manifest.scoring.bounds(2))]
    assert len(found) == len(names) == 256
    assert set(found.errors) == {place for place in range(256) if np.isnan(found.raw[place])}
    assert found.errors


def test_a_machine_that_does_not_see_the_folder_or_has_another_model_says_so(begun, means, other_artifact, tmp_path):
    _, folder = begun
    with pytest.raises(BatchError, match=r"job.json is not to be seen on .*; every worker has to see the folder"):
        encode(0, folder=str(tmp_path / "elsewhere"), means=means)
    other = dataclasses.replace(means, model=str(other_artifact))
    with pytest.raises(BatchError, match=r"is 0123456789ab on .*, and the job began with .*; every worker needs that"):
        encode(0, folder=str(folder), means=other)


def test_a_machine_that_scores_in_another_precision_has_no_part_in_a_job(begun, means):
    manifest, folder = begun
    options = {"folder": str(folder), "means": means}
    encode(0, **options)
    own = (folder / SCORED_BY).read_text()
    assert own == f"{manifest.model}-tokens8"
    set_it = "set DIPTYCH_PAIR_PRECISION=int8 to go on, or begin"
    for other, way in ((f"{own}-int8", set_it), (manifest.model, "begin")):
        (folder / SCORED_BY).write_text(other)
        clear_caches()
        said = rf"the scores of this job are those of {other}, and on .* \(float32: .*\); {way} anew with --force"
        with pytest.raises(BatchError, match=said):
            score(0, **options)


def test_parts_of_a_version_that_knew_no_other_precision_are_those_of_float32(begun, means):
    manifest, folder = begun
    for number in range(manifest.encoding.parts):
        encode(number, folder=str(folder), means=means)
    score(0, folder=str(folder), means=means)
    (folder / SCORED_BY).unlink()
    assert manifest.scored_by(folder, "another") == manifest.model
    (folder / SCORED_BY).unlink()
    (folder / manifest.scoring.file(0)).unlink()
    assert manifest.scored_by(folder, "another") == "another"
    assert manifest.scored_by(folder, "a third") == "another"


def test_where_there_are_no_hard_links_the_precision_is_written_all_the_same(begun, monkeypatch):
    def refuse(*_):
        raise PermissionError("no hard links here")

    manifest, folder = begun
    monkeypatch.setattr("os.link", refuse)
    assert manifest.scored_by(folder, "another") == "another"
    assert manifest.scored_by(folder, "a third") == "another"
    assert not list(folder.glob(f".{SCORED_BY}.*"))


def test_a_worker_that_outlives_its_job_puts_nothing_into_the_next_one_of_that_name(begun, means, monkeypatch):
    manifest, folder = begun
    options = {"folder": str(folder), "means": means}
    for number in range(manifest.encoding.parts):
        encode(number, **options)
    following = dataclasses.replace(manifest, id=new_id())
    following.save(folder)  # as `--force` begins anew, while a worker is at a part of the job before
    monkeypatch.setattr(Manifest, "load", lambda folder: manifest)
    score(0, **options)
    assert manifest.scoring.done(folder) == {0}
    assert following.scoring.done(folder) == following.encoding.done(folder) == set()
