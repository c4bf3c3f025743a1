"""The folder of a job: who may go on with it, whose files it may hold, and what its files keep."""

import dataclasses
import json
from contextlib import closing, nullcontext

import numpy as np
import pytest

from diptych.batch.parts.folder import folder_of, open_job, remove_folder, specify_job
from diptych.batch.parts.manifest import Manifest, Step
from diptych.batch.parts.picture_names import PictureNames, describe_part, read_names
from diptych.batch.parts.tokens import Tokens
from diptych.errors import BatchError, StoreError

SHAPE = (2, 3, 5)
STEP = Step("pictures", 17, 7)


@pytest.fixture
def begin(artifact):
    """`with begin(table, output) as manifest` opens the folder of a job."""

    def make(table, output, *, model=artifact, resume=False, force=False, **asked):
        bar = lambda unit, count, done: nullcontext(lambda count: None)  # noqa: E731
        spec = specify_job(table, str(model), **asked)
        return open_job(spec, folder_of(output), resume=resume, force=force, bar=bar)

    return make


def test_two_processes_do_not_work_on_one_job(begin, pairs, tmp_path):
    output = tmp_path / "out.csv"
    for force in (False, True):
        with (
            begin(pairs, output, force=True) as manifest,
            pytest.raises(StoreError, match="is being written by process"),
            begin(pairs, output, resume=not force, force=force),
        ):
            pass
        with begin(pairs, output, resume=True) as again:
            assert again == manifest, "the second one has touched nothing"


def test_another_job_is_not_resumed(begin, other_artifact, artifact_of_two, pairs, tmp_path):
    output, elsewhere = tmp_path / "out.csv", tmp_path / "pairs.csv"
    elsewhere.write_bytes(pairs.read_bytes())
    with begin(pairs, output):
        pass
    with begin(pairs, output, resume=True, question="copy"):
        pass  # the model answers one question alone
    with begin(pairs, tmp_path / "two.csv", model=artifact_of_two, question="copy"):
        pass
    refused = [
        (output, pairs, {"model": other_artifact}, "the model"),
        (output, pairs, {"sides": ("image_b", "image_a")}, "the pair of columns"),
        (output, pairs, {"closer_look": False}, r"the closer look .*\(then taken, now left out\)"),
        (output, elsewhere, {}, "the table's folder"),
        (tmp_path / "two.csv", pairs, {"model": artifact_of_two}, r"the question .*\(then copy, now thing\)"),
        (output, pairs, {}, "the table"),
    ]
    for place, table, changed, what in refused:
        if what == "the table":
            with pairs.open("a") as file:
                file.write("x,01.jpg,02.jpg\n")
        what = what if ".*" in what else f"{what} is not the one this run began with"
        with pytest.raises(BatchError, match=what), begin(table, place, resume=True, **changed):
            pass


def test_what_a_kill_left_of_the_reading_is_read_anew_and_half_parts_are_cleared_away(begin, pairs, tmp_path):
    folder, table = folder_of(tmp_path / "out.csv"), pairs.read_bytes()
    pairs.write_bytes(table + b"one field\n")
    with pytest.raises(BatchError, match="1 fields, the header has 3"), begin(pairs, tmp_path / "out.csv"):
        pass
    assert not folder.exists(), "a table that cannot be read leaves no folder behind"
    pairs.write_bytes(table)
    folder.mkdir()
    (folder / "names.sqlite").write_bytes(b"half of one")
    with begin(pairs, tmp_path / "out.csv") as manifest:
        assert (manifest.pictures, manifest.rows) == (15, 1000)
    assert len(read_names(folder / "names.sqlite", range(15))) == 15
    (folder / ".pairs-000000.part.123.tmp").write_bytes(b"half of one")
    with begin(pairs, tmp_path / "out.csv", resume=True):
        assert sorted(path.name for path in folder.iterdir()) == ["job.json", "lock", "names.sqlite", "pairs.u4"]


@pytest.mark.parametrize("name", ["notes.txt", "lock", "names.sqlite", "pairs.u4", ".job.json.tmp", ""])
def test_a_folder_with_files_of_the_users_own_or_links_is_refused_and_keeps_them(begin, pairs, tmp_path, name):
    folder, own = tmp_path / "out.csv.parts", tmp_path / "own"
    own.mkdir()
    (own / "job.json").write_text("precious")
    if not name:
        folder.symlink_to(own)
    else:
        folder.mkdir()
        if name == "notes.txt":
            (folder / name).write_text("mine")
        else:
            (folder / name).symlink_to(own / "job.json")
    reason = "not of an unfinished run" if name else "is a link"
    before = sorted(path.name for path in folder.iterdir())
    for force in (False, True):
        with pytest.raises(BatchError, match=reason), begin(pairs, tmp_path / "out.csv", force=force):
            pass
    assert sorted(path.name for path in folder.iterdir()) == before, "not even a lock was made"
    assert (own / "job.json").read_text() == "precious"


def test_a_manifest_of_another_version_is_refused_and_what_came_into_its_folder_stays(begin, pairs, tmp_path):
    folder = folder_of(tmp_path / "out.csv")
    with begin(pairs, tmp_path / "out.csv") as manifest:
        (folder / "notes.txt").write_text("mine")
    kept = json.loads((folder / "job.json").read_text())
    assert kept == json.loads(json.dumps(dataclasses.asdict(manifest)))
    for content in ("{", "[]", "{}", json.dumps(kept | {"format": 2})):
        (folder / "job.json").write_text(content)
        with pytest.raises(BatchError, match=r"job.json .*; begin anew with --force"):
            Manifest.load(folder)
    remove_folder(folder)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"], "what came into it meanwhile stays"


def test_names_have_places_in_the_order_in_which_they_came_and_each_only_one(tmp_path):
    path = tmp_path / "a name?.sqlite"
    given = ["b", "a", "", "b", "ä\n", "\ud800", "a", "x" * 5000, "b"]
    with closing(PictureNames(path)) as names:
        assert [names.place(name) for name in given] == [0, 1, 2, 0, 3, 4, 1, 5, 0]
        names.commit()
    assert read_names(path, (3, *range(6), 3)) == ["ä\n", *dict.fromkeys(given), "ä\n"]
    assert describe_part(Step("pictures", 3, 2), 0, path) == "the pictures 1 to 2 (b to a)"
    (tmp_path / "names").mkdir()
    (tmp_path / "other").write_bytes(b"no database " * 100)
    for name in ("names", "other"):
        with pytest.raises(BatchError, match=f"{name} cannot be written: .*; make room"):
            PictureNames(tmp_path / name)


def test_tokens_come_in_the_order_in_which_they_are_asked_for_and_one_cut_off_is_refused(tmp_path):
    """The tokens of 17 pictures in three parts, of which the 8th could not be read."""
    whole = np.random.default_rng(0).normal(size=(17, *SHAPE)).astype(np.float16)
    tokens = Tokens(tmp_path, STEP, SHAPE)
    for number in range(3):
        part = whole[slice(*STEP.part_bounds(number))]
        tokens.write(number, part, {1: "gone"} if number == 1 else {}, [None] * len(part))
    places = np.random.default_rng(1).integers(0, 17, 101)
    np.testing.assert_array_equal(tokens.read_tokens(places), whole[places])
    assert tokens.read_tokens(places[:0]).shape == (0, *SHAPE)
    assert tokens.find_facts([0, 8])[0] == {8: "gone"}
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    tokens.write(1, whole[7:14], {1: "gone"}, [None] * 7)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert len(before) == 6
    (tmp_path / "tokens-000002.f16").write_bytes(b"short")
    with pytest.raises(BatchError, match=r"5 bytes, expected 180; remove it and pictures-000002.part and go on"):
        Tokens(tmp_path, STEP, SHAPE).read_tokens(np.array([16]))
