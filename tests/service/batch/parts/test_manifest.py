import json

import pytest

from diptych.batch.parts.manifest import MANIFEST, Manifest, Step, part_sizes, write_part
from diptych.errors import BatchError

ONE = Manifest("t", "00", 1000, ("a", "b", "c"), ("a", "b"), "f", "m", "thing", True, (8, 8, 64), 17, 512, 256, "id")


def test_it_reads_back_as_it_was_written(tmp_path):
    ONE.save(tmp_path)
    assert Manifest.load(tmp_path) == ONE
    with pytest.raises(FileNotFoundError):
        Manifest.load(tmp_path / "none")


@pytest.mark.parametrize("content", ["{", "[]", "{}", json.dumps({"format": 2})])
def test_what_is_none_of_this_version_is_refused(tmp_path, content):
    (tmp_path / MANIFEST).write_text(content)
    with pytest.raises(BatchError, match=r"job.json .*; begin anew with --force"):
        Manifest.load(tmp_path)


@pytest.mark.parametrize("count", [0, 1, 6, 7, 8, 700])
def test_the_parts_of_a_step_are_its_items_each_once(count, tmp_path):
    step = Step("pairs", count, 7)
    items = [item for number in range(step.parts) for item in range(*step.bounds(number))]
    assert items == list(range(count))
    for number in range(0, step.parts, 2):
        write_part(tmp_path / step.file(number), b"")
    assert step.done(tmp_path) == set(range(0, step.parts, 2))
    assert step.items(set(range(step.parts))) == count


@pytest.mark.parametrize("pairs", [0, 1, 1000, 20_000, 10**6, 10**9])
def test_a_part_is_seconds_of_work_and_there_are_never_too_many(pairs):
    of_pictures, of_pairs = part_sizes(pairs // 200, pairs)
    assert of_pictures >= 512
    assert of_pairs >= 256
    assert -(-pairs // of_pairs) <= 4096
    if pairs <= 10**6:
        assert of_pairs <= 4096
