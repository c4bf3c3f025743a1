"""What every run does, whatever it trains: its folder, its steps, going on after a stop, and its record."""

import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from diptych_runtime.manifest import digest
from diptych_training.errors import DataError
from diptych_training.optimisation import Budget, Optimisation
from diptych_training.recipe import RunRecipe
from diptych_training.run import BEST, METRICS, NOTES, RECIPE, MetricsLog, Run, open_end, open_folder


@dataclass(frozen=True, kw_only=True)
class Lines(RunRecipe):
    """A recipe of a line through noisy points."""

    learning: Budget = field(default_factory=lambda: Budget(steps=12, batch=4, rate=0.2, warmup=2, average=0.9))


class LineRun(Run):
    """Learns a line; it is interrupted in the step `stop`, or gets SIGINT in the step `signal`."""

    save_every, stop, signal = 5, 0, 0

    def begin(self) -> None:
        self.optimisation = Optimisation(torch.nn.Linear(3, 1), self.recipe.learning, steps=12)

    def differentiate(self) -> dict[str, float]:
        if self.optimisation.step + 1 == self.signal:
            signal.raise_signal(signal.SIGINT)
        if self.optimisation.step + 1 == self.stop:
            raise KeyboardInterrupt
        x = torch.from_numpy(self.rng.normal(size=(4, 3))).float()
        loss = (self.optimisation.network(x) - x.sum(1, keepdim=True) - torch.rand(4, 1) / 9).square().mean()
        loss.backward()
        return {"loss": loss.item()}

    def measure(self) -> dict[str, Any]:
        return {"sum": float(sum(p.sum() for p in self.optimisation.average.parameters()))}

    def write(self, figures: Mapping[str, Any]) -> Path:
        (self.directory / BEST).mkdir(exist_ok=True)
        (self.directory / BEST / "line").write_text(str(self.optimisation.average.state_dict()))
        return self.directory / BEST / "line"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "whole"
    LineRun(Lines(), directory, quiet=True).carry_out(resume=False)
    return directory


def figures(directory: Path) -> dict[str, Any]:
    """The record of a run, without the seconds."""
    return {name: value for name, value in json.loads((directory / METRICS).read_text()).items() if name != "seconds"}


def test_a_run_leaves_its_recipe_environment_notes_figures_and_weights(whole: Path) -> None:
    assert Lines.from_dict({"learning": {"steps": 12}}).learning.steps == 12
    assert 'name = "model"' in (whole / RECIPE).read_text()
    found = figures(whole)
    assert json.loads((whole / "environment.json").read_text()) == found["environment"]
    assert found["digest"] == digest((whole / BEST / "line").read_bytes())
    notes = [json.loads(line) for line in (whole / NOTES).read_text().splitlines()]
    assert [note["step"] for note in notes] == list(range(1, 13))
    assert [note["loss"] for note in notes] == found["curve"]
    assert sum(found["curve"][-3:]) < sum(found["curve"][:3])


@pytest.mark.parametrize(("stopped", "kept"), [({"stop": 9}, 5), ({"signal": 7}, 7)])
def test_a_run_that_is_stopped_says_what_is_kept_and_goes_on_to_the_same_record(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], stopped: dict[str, int], kept: int
) -> None:
    """Ctrl-C waits for the end of the step; what ends a step itself loses those since the last state."""
    run = LineRun(Lines(), tmp_path / "cut")
    vars(run).update(stopped)
    with pytest.raises(KeyboardInterrupt):
        run.carry_out(resume=False)
    said = capsys.readouterr().err
    assert f"the state of step {kept} is kept in {tmp_path / 'cut'}, and --resume goes on from there" in said
    LineRun(Lines(), tmp_path / "cut", quiet=True).carry_out(resume=True)
    assert figures(tmp_path / "cut") == figures(whole)


def test_the_same_command_gives_the_same_record_and_leaves_the_random_numbers_of_the_program(
    whole: Path, tmp_path: Path
) -> None:
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    threads = torch.get_num_threads()
    LineRun(Lines(), tmp_path / "again", quiet=True).carry_out(resume=False)
    assert (torch.rand(1), torch.get_num_threads()) == (expected, threads)
    assert figures(tmp_path / "again") == figures(whole)


def test_a_run_is_begun_once_and_resumed_with_its_own_recipe_but_for_its_threads(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has a run already: add --resume or name another"):
        LineRun(Lines(), whole).carry_out(resume=False)
    with pytest.raises(DataError, match="has no run to resume"):
        LineRun(Lines(), tmp_path / "none").carry_out(resume=True)
    before = figures(whole)
    with pytest.raises(DataError, match=r"begun with another recipe \(another seed\); resume with .*recipe\.toml"):
        LineRun(Lines(seed=3), whole).carry_out(resume=True)
    LineRun(Lines(threads=1), whole, quiet=True).carry_out(resume=True)
    assert figures(whole) == before


def test_only_one_process_trains_in_a_folder_and_the_other_writes_nothing(tmp_path: Path) -> None:
    with open_folder(Lines(), tmp_path):
        with pytest.raises(DataError, match=f"another process is training in {tmp_path}"):
            LineRun(Lines(), tmp_path).carry_out(resume=True)
        (tmp_path / RECIPE).unlink()
        with pytest.raises(DataError, match="another process is training"):
            LineRun(Lines(seed=3), tmp_path).carry_out(resume=False)
        assert not (tmp_path / RECIPE).exists()
    LineRun(Lines(), tmp_path, quiet=True).carry_out(resume=False)


@pytest.mark.parametrize(
    "name", ["recipe.toml", "environment.json", "metrics.jsonl", "writer.lock", "tensorboard", "best"]
)
def test_a_link_in_a_stranger_s_folder_leads_to_no_file_outside(tmp_path: Path, name: str) -> None:
    outside, directory = tmp_path / "outside", tmp_path / "run"
    directory.mkdir()
    if name in ("tensorboard", "best"):
        outside.mkdir()
    else:
        outside.write_text("of the user")
    with open_folder(Lines(), directory):
        pass
    (directory / name).unlink(missing_ok=True)
    (directory / name).symlink_to(outside)
    if name in ("recipe.toml", "environment.json"):
        with open_folder(Lines(), directory):
            pass
    elif name == "metrics.jsonl":
        with pytest.raises(DataError, match=r"metrics\.jsonl cannot be written: .*is a link; remove it"):
            open_end(directory / name)
    else:
        with pytest.raises(DataError, match=f"{name}.* is a link"), open_folder(Lines(), directory):
            pass
    assert list(outside.iterdir()) == [] if outside.is_dir() else outside.read_text() == "of the user"


def test_numbers_go_to_the_notes_and_to_tensorboard_and_nowhere_where_silent(tmp_path: Path) -> None:
    journal = MetricsLog(tmp_path, step=0, steps=2, quiet=True)
    journal.note_values(1, {"pair": 0.5})
    journal.note_values(1, {"score": 0.25}, beneath="validation")
    journal.close()
    lines = [json.loads(line) for line in (tmp_path / NOTES).read_text().splitlines()]
    assert lines == [{"step": 1, "pair": 0.5}, {"step": 1, "validation": {"score": 0.25}}]
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert events.Scalars("validation/score")[0].step == 1
    silent = MetricsLog(tmp_path / "silent", step=0, steps=1, quiet=False, silent=True)
    silent.note_values(1, {"pair": 1})
    silent.close()
    assert not (tmp_path / "silent").exists()


def test_resuming_drops_notes_of_steps_to_come_and_one_that_was_cut_short(tmp_path: Path) -> None:
    notes = tmp_path / NOTES
    notes.write_text('{"step": 1, "pair": 1}\n{"step": 2, "pair": 2}\n{"step": 3, "pa')
    MetricsLog(tmp_path, step=1, steps=3, quiet=True).close()
    assert notes.read_text() == '{"step": 1, "pair": 1}\n'
