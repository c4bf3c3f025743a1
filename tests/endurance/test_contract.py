import re
import subprocess
import sys
from pathlib import Path

import pytest

from diptych.http.app import create_app

DEPENDS_ON = ("service/diptych/http",)

PROGRAM = Path(__file__).with_name("contract.py")


@pytest.mark.parametrize("keys", [[], ["--keys"]], ids=["open", "closed"])
def test_every_route_answers_as_the_document_says(keys, artifact, environment, scorer):
    described = sum(map(len, create_app(None, scorer).openapi()["paths"].values()))
    command = [sys.executable, PROGRAM, "--model", artifact, "--minutes", "0.6", "--seed", "1", *keys]
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{described} selected / {described} total" in done.stdout
    generated = re.search(r"(\d+) generated", done.stdout)
    assert generated is not None
    assert int(generated[1]) > 500
