"""Two processes, as torchrun starts them, learn what one learns."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from small import SMALL
from started import free_port

from diptych_model import load_checkpoint
from diptych_training.learning import run
from diptych_training.learning.distributed import Processes
from diptych_training.recipe import recipe_from

SCRIPT = """
import json, pathlib, sys
from diptych_training.learning import run
from diptych_training.recipe import recipe_from
values, directory, data = json.loads(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
run.train(recipe_from(values), directory, data=data, quiet=True)
"""


def test_shares_are_disjoint_and_together_the_whole() -> None:
    shares = []
    for rank in range(3):
        one = Processes()
        one.rank, one.count = rank, 3
        shares += one.share(8).tolist()
    assert sorted(shares) == list(range(8))


@pytest.mark.slow
def test_two_gloo_processes_give_the_losses_and_weights_of_one(archives: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    environment = os.environ | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": "2",
        "OMP_NUM_THREADS": "1",
    }
    arguments = [sys.executable, str(script), json.dumps(SMALL), str(tmp_path / "two"), str(archives)]
    started = [subprocess.Popen(arguments, env=environment | {"RANK": rank, "LOCAL_RANK": rank}) for rank in ("0", "1")]
    assert [process.wait(300) for process in started] == [0, 0]
    run.train(recipe_from(SMALL), tmp_path / "one", data=archives, quiet=True)
    one, two = (
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("one", "two")
    )
    losses = [[line["pair"] for line in lines if "pair" in line] for lines in (one, two)]
    assert len(losses[0]) == 4
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    weights = [load_checkpoint(tmp_path / name / "last")[0].state_dict() for name in ("one", "two")]
    for name, value in weights[0].items():
        torch.testing.assert_close(weights[1][name], value, rtol=1e-3, atol=1e-4)
