import subprocess
import sys
from pathlib import Path

import pytest
import soak

DEPENDS_ON = (
    "service/diptych/collection",
    "service/diptych/http",
    "service/diptych/pictures",
    "service/diptych/scoring",
    "service/diptych/store",
    "export/diptych_runtime",
)

PROGRAM = Path(__file__).with_name("soak.py")


def run(artifact, environment, *arguments):
    command = [sys.executable, "-W", "error", PROGRAM, "--model", artifact, *arguments]
    return subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=600)


def figures(out: str) -> dict[str, list[int]]:
    """Answers by what was asked, of every status that means it went well."""
    rows = [line.split() for line in out.splitlines()]
    found: dict[str, list[int]] = {}
    for what, status, count in (row for row in rows if len(row) == 3):
        if status in ("200", "201", "422"):
            found.setdefault(what, []).append(int(count.replace(",", "")))
    return found


def test_mixed_traffic_is_answered_rightly(artifact, environment):
    done = run(artifact, environment, "--requests", 150, "--clients", 3)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(figures(done.stdout)) == {"rerank", "search", "score", "add", "read", "remove", "bad", "look"}


@pytest.mark.parametrize(("kill", "minutes"), [("decoders", 0.5), ("service", 1.5)])
def test_mixed_traffic_is_answered_rightly_while_processes_are_killed(kill, minutes, artifact, environment):
    done = run(artifact, environment, "--minutes", minutes, "--clients", 4, "--kill", kill)
    assert done.returncode == 0, done.stdout + done.stderr
    (killed,) = (line.split()[1] for line in done.stdout.splitlines() if line.startswith("killed"))
    assert int(killed) >= 3
    assert set(figures(done.stdout)) == {"rerank", "search", "score", "add", "read", "remove", "bad", "look"}


def test_a_service_that_answers_other_scores_is_found_out(artifact, monkeypatch):
    found = soak.Truth.found

    def other(*arguments):
        truth = found(*arguments)
        truth.logits[:, ::2] += 1e-6
        return truth

    monkeypatch.setattr(soak.Truth, "found", other)
    account = soak.soak(str(artifact), minutes=0.5, clients=2, kill=None, seed=0)
    assert any("rerank" in wrong or "scores" in wrong or "score gives" in wrong for wrong in account.wrong)
    assert sum(account.answers.values()) < 200


def test_its_footprint_is_that_of_the_process_and_all_below_it():
    sleeps = "import time; print('begun', flush=True); time.sleep(60)"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {sleeps!r}])"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            memory, files, threads = soak.footprint(process.pid)
            assert memory > 5_000_000
            assert files >= 6
            assert threads == 2
        finally:
            for child in soak.children(process.pid):
                subprocess.run(["kill", str(child)], check=True)
