import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("contract.py")


@pytest.mark.slow
@pytest.mark.parametrize("keys", [[], ["--keys"]], ids=["open", "closed"])
def test_the_document_tells_the_truth_about_every_route(keys, artifact, environment):
    command = [sys.executable, PROGRAM, "--model", artifact, "--minutes", "1", "--seed", "1", *keys]
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "25 selected / 25 total" in done.stdout
    (generated,) = [line.split()[0] for line in done.stdout.splitlines() if line.strip().endswith("generated")]
    assert int(generated.replace(",", "")) > 1000
