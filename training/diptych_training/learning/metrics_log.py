"""The log of a run: a line of JSON a step, TensorBoard's events, the terminal's progress."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from diptych.console import Console
from diptych_runtime.atomic import write_atomic

METRICS, EVENTS = "metrics.jsonl", "tensorboard"


class MetricsLog:
    """`metrics.jsonl` and TensorBoard's events in the directory of a run; nothing at all where `silent`.

    On resuming, what was noted of steps after `step` is dropped: they will be made again.
    """

    def __init__(self, directory: Path, *, step: int, steps: int, quiet: bool, silent: bool = False) -> None:
        self.path = directory / METRICS
        self._console, self._events = Console(quiet=quiet or silent), None
        self.bar = self._console.progress(total=steps, initial=step, unit="step")
        if silent:
            return
        if self.path.exists():
            lines = self.path.read_text().splitlines(keepends=True)
            # A line that a crash cut short is of a step that will be made again.
            kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= step]
            write_atomic(self.path, "".join(kept).encode())
        self._events = SummaryWriter(str(directory / EVENTS), purge_step=step + 1, flush_secs=30)

    def note(self, step: int, values: Mapping[str, Any], *, beneath: str = "") -> None:
        """Note numbers of a step, in one group of that name if there is one."""
        if self._events is None:
            return
        written = {"step": step} | ({beneath: dict(values)} if beneath else dict(values))
        with self.path.open("a") as file:
            file.write(json.dumps(written) + "\n")
        for name, value in values.items():
            self._events.add_scalar(f"{beneath or 'training'}/{name}", value, step)

    def advance(self, shown: Mapping[str, str]) -> None:
        """One step further on the terminal."""
        self.bar.describe(", ".join(f"{name} {value}" for name, value in shown.items()))
        self.bar.update()

    def say(self, line: str) -> None:
        """A line above the progress."""
        self._console.remark(line)

    def close(self) -> None:
        """Finish the writes in progress."""
        self.bar.close()
        if self._events is not None:
            self._events.close()
