"""Grids of runs: each finished once, side by side or one after another, and kept."""

import json
import os
from functools import partial
from pathlib import Path

import pytest
import torch
from working import double, fail_at_two

from diptych_studies.grid import run_grid
from diptych_training.errors import DataError

RUNS = {name: {"value": value} for name, value in (("one", 1), ("two", 2), ("three", 3))}


@pytest.mark.slow
def test_runs_side_by_side_have_a_thread_each_and_keep_their_names(tmp_path: Path) -> None:
    ended: list[str] = []
    results = run_grid(tmp_path, RUNS, partial(double, 5), processes=2, finished=ended.append)
    assert {name: result["double"] for name, result in results.items()} == {"one": 7, "two": 9, "three": 11}
    assert list(results) == list(RUNS)
    assert {result["threads"] for result in results.values()} == {1}
    assert os.getpid() not in {result["process"] for result in results.values()}
    assert sorted(ended) == sorted(RUNS)


def test_without_processes_a_run_has_one_thread_too_and_gives_the_others_back(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        result = run_grid(tmp_path, {"one": {"value": 1}}, partial(double, 0), processes=0)["one"]
        assert (result["threads"], torch.get_num_threads()) == (1, 2)
        assert result["process"] == os.getpid()
    finally:
        torch.set_num_threads(before)


def test_what_is_finished_is_not_computed_again(tmp_path: Path) -> None:
    few = {name: RUNS[name] for name in ("one", "three")}
    first = run_grid(tmp_path, few, partial(double, 5), processes=0)
    ended: list[str] = []
    second = run_grid(tmp_path, RUNS, partial(double, 100), processes=0, finished=ended.append)
    assert ended == ["two"]
    assert second["one"] == first["one"]
    assert second["two"]["double"] == 104
    assert json.loads((tmp_path / "two.json").read_text()) == {"settings": {"value": 2}, "result": second["two"]}


def test_a_run_that_fails_leaves_what_was_finished_before_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="two is too much"):
        run_grid(tmp_path, RUNS, fail_at_two, processes=1)
    assert (tmp_path / "one.json").exists()
    assert not (tmp_path / "two.json").exists()


def test_a_run_of_other_settings_or_other_data_and_one_that_is_damaged_are_refused_not_mixed_in(tmp_path: Path) -> None:
    run_grid(tmp_path, {"one": {"value": 1}}, partial(double, 0), given={"digest": "a"}, processes=0)
    for value, digest, other in ((4, "a", "value"), (1, "b", "digest")):
        with pytest.raises(DataError, match=rf"one\.json was made with other settings \({other} differ\)"):
            run_grid(tmp_path, {"one": {"value": value}}, partial(double, 0), given={"digest": digest}, processes=0)
    for written in ('{"settings": {', '{"settings": [1], "result": {"doubled": 2}}', '{"settings": {}, "result": {}}'):
        (tmp_path / "one.json").write_text(written)
        with pytest.raises(DataError, match=r"one\.json is damaged .*: remove it to make that run again"):
            run_grid(tmp_path, RUNS, partial(double, 0), processes=0)
