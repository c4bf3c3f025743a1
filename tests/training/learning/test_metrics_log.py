import io
import json
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from diptych_training.learning.run import MetricsLog


def test_numbers_go_to_the_metrics_file_and_to_tensorboard(tmp_path: Path) -> None:
    journal = MetricsLog(tmp_path, step=0, steps=2, quiet=True)
    journal.note(1, {"pair": 0.5})
    journal.note(1, {"score": 0.25}, beneath="validation")
    journal.close()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == [{"step": 1, "pair": 0.5}, {"step": 1, "validation": {"score": 0.25}}]
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert events.Scalars("training/pair")[0].value == 0.5
    assert events.Scalars("validation/score")[0].step == 1


def test_resuming_drops_what_is_made_again_and_a_line_that_was_cut_short(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text('{"step": 1, "pair": 1}\n{"step": 2, "pair": 2}\n{"step": 3, "pa')
    MetricsLog(tmp_path, step=1, steps=3, quiet=True).close()
    assert metrics.read_text() == '{"step": 1, "pair": 1}\n'


def test_a_silent_journal_writes_nothing(tmp_path: Path) -> None:
    journal = MetricsLog(tmp_path, step=0, steps=1, quiet=False, silent=True)
    journal.note(1, {"pair": 1})
    journal.say("nothing")
    journal.close()
    assert not list(tmp_path.iterdir())


def test_a_step_is_a_bar_on_a_terminal_and_a_line_is_a_remark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for terminal in (True, False):
        stderr = io.StringIO()
        monkeypatch.setattr(stderr, "isatty", lambda terminal=terminal: terminal, raising=False)
        monkeypatch.setattr(sys, "stderr", stderr)
        journal = MetricsLog(tmp_path / str(terminal), step=1, steps=2, quiet=False)
        journal.advance({"pair": "0.250", "pairs/s": "9"})
        journal.say("step 2: measured")
        journal.close()
        said = stderr.getvalue()
        assert "step 2: measured\n" in said
        assert ("pair 0.250, pairs/s 9" in said, "2/2 step" in said) == (terminal, terminal)
