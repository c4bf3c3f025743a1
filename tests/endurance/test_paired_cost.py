"""The comparison of two checkouts' processor time, of this one with itself."""

import subprocess
import sys
from pathlib import Path

import paired_cost

DEPENDS_ON = ("service/diptych/bench/load.py", "service/diptych/cli/serve.py", "service/diptych/http/server.py")

PROGRAM, CHECKOUT = Path(__file__).with_name("paired_cost.py"), Path(__file__).parents[2]


def test_a_checkout_has_its_own_packages_and_commands(tmp_path):
    environment = paired_cost.environment(CHECKOUT, tmp_path / "installed")
    program = (
        "import diptych, importlib.metadata as m; print(diptych.__file__, *m.entry_points(group='diptych.commands'))"
    )
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(CHECKOUT / "service"))
    assert done.stdout.count("EntryPoint(") == 3
    assert environment["PYTHONPATH"].startswith(str(tmp_path))


def test_a_checkout_costs_what_it_costs(artifact, environment):
    options = ["--model", artifact, "--pairs", 1, "--clients", 2, "--requests", 2]
    command = [sys.executable, PROGRAM, CHECKOUT, CHECKOUT, *options]
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, check=True)
    rows = [[cell.strip() for cell in line.split("|")] for line in done.stdout.splitlines() if "`" in line]
    assert [row[1] for row in rows] == ["`/v1/rerank`", "`/v1/search`"]
    assert all(0.3 < float(row[4]) < 3 for row in rows)
