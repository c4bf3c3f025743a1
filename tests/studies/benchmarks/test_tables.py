import itertools
import json
import os
import subprocess
import sys

import pytest

from diptych.cli.main import main
from diptych.errors import BenchError
from diptych_studies.benchmarks import tables
from diptych_studies.benchmarks.tables import memory, text


@pytest.fixture
def told(monkeypatch):
    """The options of every run, none of which is run; each gives a digest of `told.digests`."""

    class Told(list):
        digests = itertools.repeat("one")

        def run(self, table, output, options):
            lines = table.read_text(encoding="utf-8").splitlines()
            assert lines[0] == "image_a,image_b"
            assert all((table.parent / name).exists() for line in lines[1:] for name in line.split(","))
            self.append((len(lines) - 1, *options))
            figures = {"seconds": 2.0, "scored": 50, "encoded": 7, "steps": {"scoring": 1.0, "encoding": 0.5}}
            return figures | {"peak_bytes": 2**25, "sha256": next(self.digests)}

    told = Told()
    monkeypatch.setattr(tables, "_scored", told.run)
    monkeypatch.setattr(tables, "_killed", told.run)
    return told


def test_every_way_is_laid_beside_the_others(told, tmp_path):
    found = tables.measure(tmp_path, pairs=1000, pictures=7, workers=[2])
    assert list(found["runs"]) == ["one process", "--workers 2", "killed and resumed"]
    assert [run[:3] for run in told] == [(1000, "--model", "photo")] * 3
    assert [run[3:] for run in told] == [(), ("--workers", "2"), ()]
    assert found["same_bytes"] is True
    shown = text(found)
    assert "1,000 pairs, model photo" in shown
    assert "every output has the same bytes" in shown


def test_outputs_that_differ_are_said(told, tmp_path):
    told.digests = iter(["one", "one", "other"])
    found = tables.measure(tmp_path, pairs=10, pictures=2, workers=[2])
    assert found["same_bytes"] is False
    assert "THE OUTPUTS DIFFER" in text(found)


def test_a_run_that_fails_ends_it_with_its_words(tmp_path):
    with pytest.raises(BenchError, match=r"(?s)`diptych score --model no-such-model` ended with 1: .*no-such-model"):
        tables.measure(tmp_path, pairs=10, pictures=2, model="no-such-model")


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
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert runs["one process"]["scored"] == runs["--workers 2"]["scored"] == 20_000
    assert runs["killed and resumed"]["scored"] < 20_000
    assert all(each["peak_bytes"] > 2**24 for each in runs.values())
    assert list(tmp_path.iterdir()) == []
