import os
import subprocess
import sys

from diptych.bench.pairs import memory, text


def test_every_way_writes_the_same_bytes_and_is_measured(diptych, artifact, tmp_path):
    options = ("--pairs", 20_000, "--pictures", 7, "--workers", 2, "--folder", tmp_path, "--model", artifact)
    found = diptych("bench", "score", *options, "--json")
    assert found.code == 0
    runs = found.json["runs"]
    assert list(runs) == ["one process", "--workers 2", "killed and resumed"]
    assert found.json["same_bytes"] is True
    assert runs["one process"]["scored"] == runs["--workers 2"]["scored"] == 20_000
    assert runs["killed and resumed"]["scored"] < 20_000
    assert all(each["peak_bytes"] > 2**24 for each in runs.values())
    assert list(tmp_path.iterdir()) == []
    shown = text(found.json)
    assert "20,000 pairs" in shown
    assert "every output has the same bytes" in shown


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
