from contextlib import nullcontext

import pytest

from diptych.batch.parts.folder import JobSpec, folder_of, opened, remove
from diptych.batch.parts.picture_names import names_between
from diptych.errors import BatchError, StoreError


@pytest.fixture
def open_job(artifact):
    def make(
        table, output, *, model=artifact, resume=False, force=False, sides=("image_a", "image_b"), question="thing"
    ):
        bar = lambda unit, count, done: nullcontext(lambda count: None)  # noqa: E731
        return opened(JobSpec.of(table, str(model), sides, question), output, resume=resume, force=force, bar=bar)

    return make


def test_two_processes_do_not_work_on_one_job(open_job, pairs, tmp_path):
    output = tmp_path / "out.csv"
    for force in (False, True):
        with (
            open_job(pairs, output, force=True) as manifest,
            pytest.raises(StoreError, match="is being written by process"),
            open_job(pairs, output, resume=not force, force=force),
        ):
            pass
        with open_job(pairs, output, resume=True) as again:
            assert again == manifest, "the second one has touched nothing"


def test_resuming_with_another_table_model_or_pair_of_columns_is_refused(open_job, other_artifact, pairs, tmp_path):
    output = tmp_path / "out.csv"
    with open_job(pairs, output):
        pass
    with (
        pytest.raises(BatchError, match="the model is not the one this run began with"),
        open_job(pairs, output, resume=True, model=other_artifact),
    ):
        pass
    with (
        pytest.raises(BatchError, match="the pair of columns is not the one this run began with"),
        open_job(pairs, output, resume=True, sides=("image_b", "image_a")),
    ):
        pass
    elsewhere = tmp_path / "pairs.csv"
    elsewhere.write_bytes(pairs.read_bytes())
    with (
        pytest.raises(BatchError, match="the table's folder is not the one this run began with"),
        open_job(elsewhere, output, resume=True),
    ):
        pass
    with pairs.open("a") as file:
        file.write("x,01.jpg,02.jpg\n")
    with (
        pytest.raises(BatchError, match="the table is not the one this run began with"),
        open_job(pairs, output, resume=True),
    ):
        pass


def test_resuming_with_another_question_is_refused_where_the_model_answers_several(
    open_job, artifact, artifact_of_two, pairs, tmp_path
):
    for model, name in ((artifact_of_two, "copy"), (artifact, "match")):
        output = tmp_path / f"{name}.csv"
        with open_job(pairs, output, model=model, question="copy") as manifest:
            assert manifest.question == name
    with open_job(pairs, output, resume=True, question="thing"):
        pass
    with (
        pytest.raises(BatchError, match=r"the question is not the one this run began with \(then copy, now thing\)"),
        open_job(pairs, tmp_path / "copy.csv", model=artifact_of_two, resume=True),
    ):
        pass


def test_a_table_that_cannot_be_read_leaves_no_folder_behind(open_job, pairs, tmp_path):
    with pairs.open("a") as file:
        file.write("one field\n")
    with pytest.raises(BatchError, match="1 fields, the header has 3"), open_job(pairs, tmp_path / "out.csv"):
        pass
    assert not folder_of(tmp_path / "out.csv").exists()


def test_what_a_kill_left_of_the_reading_is_read_anew_and_half_parts_are_cleared_away(open_job, pairs, tmp_path):
    folder = folder_of(tmp_path / "out.csv")
    folder.mkdir()
    (folder / "names.sqlite").write_bytes(b"half of one")
    with open_job(pairs, tmp_path / "out.csv") as manifest:
        assert (manifest.pictures, manifest.rows) == (15, 1000)
    assert len(names_between(folder / "names.sqlite", 0, 99)) == 15
    (folder / ".pairs-000000.part.123.tmp").write_bytes(b"half of one")
    with open_job(pairs, tmp_path / "out.csv", resume=True):
        assert sorted(path.name for path in folder.iterdir()) == ["job.json", "lock", "names.sqlite", "pairs.u4"]


def test_a_folder_of_the_users_own_or_a_link_is_refused_and_keeps_its_files(open_job, pairs, tmp_path):
    own = tmp_path / "out.csv.parts"
    own.mkdir()
    (own / "notes.txt").write_text("mine")
    linked, elsewhere = tmp_path / "linked.csv.parts", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "job.json").write_text("mine")
    linked.symlink_to(elsewhere)
    for output, reason in (("out.csv", "not of an unfinished run: notes.txt"), ("linked.csv", "is a link")):
        for force in (False, True):
            with (
                pytest.raises(BatchError, match=reason),
                open_job(pairs, tmp_path / output, force=force),
            ):
                pass
    assert (own / "notes.txt").read_text() == "mine"
    assert (elsewhere / "job.json").read_text() == "mine"
    assert [len(list(folder.iterdir())) for folder in (own, elsewhere)] == [1, 1], "not even a lock was made"


@pytest.mark.parametrize("name", ["lock", "names.sqlite", "pairs.u4", ".job.json.tmp"])
def test_what_a_link_in_the_folder_leads_to_stays(open_job, pairs, tmp_path, name):
    victim, folder = tmp_path / "victim", tmp_path / "out.csv.parts"
    victim.write_text("precious")
    folder.mkdir()
    (folder / name).symlink_to(victim)
    with pytest.raises(BatchError, match="not of an unfinished run"), open_job(pairs, tmp_path / "out.csv"):
        pass
    assert victim.read_text() == "precious"


def test_taking_the_folder_away_leaves_what_came_into_it_meanwhile(open_job, pairs, tmp_path):
    output = tmp_path / "out.csv"
    with open_job(pairs, output):
        (folder_of(output) / "notes.txt").write_text("mine")
    remove(folder_of(output))
    assert [path.name for path in folder_of(output).iterdir()] == ["notes.txt"]
