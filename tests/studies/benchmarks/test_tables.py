import json
import os
import subprocess
import sys

import pytest

from diptych.cli.main import main
from diptych_studies.benchmarks import tables
from diptych_studies.benchmarks.tables import memory


def test_memory_is_that_of_a_process_and_of_all_below_it():
    held = "x = b'x' * 2**26; print(flush=True); input()"
    below = f"import subprocess, sys; x = b'x' * 2**26; subprocess.run([sys.executable, '-c', {held!r}])"
    with subprocess.Popen([sys.executable, "-c", below], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        assert 2**27 < memory(process.pid) < 2**27 + 2**26
        process.communicate(b"\n")
    assert memory(2**30) == 0
    assert memory(os.getpid()) > 2**24


@pytest.mark.slow
def test_every_way_writes_the_same_bytes_and_leaves_nothing_behind(artifact, tmp_path, capsys):
    options = ("--pairs", "20000", "--pictures", "7", "--folder", str(tmp_path), "--model", str(artifact))
    assert main(["bench", "score", *options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["same_bytes"] is True
    assert "THE OUTPUTS DIFFER" in tables.text(found | {"same_bytes": False})
    runs = found["runs"]
    assert runs["one process"]["scored"] == runs["--workers 2"]["scored"] == 20_000
    assert runs["killed and resumed"]["scored"] < 20_000
    assert all(each["peak_bytes"] > 2**24 for each in runs.values())
    assert list(tmp_path.iterdir()) == []
