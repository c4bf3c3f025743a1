import json
import math
from dataclasses import asdict, replace

import pytest

from diptych.cli.main import main
from diptych.errors import BenchError
from diptych_runtime.manifest import Manifest
from diptych_studies.benchmarks import estimate as module
from diptych_studies.benchmarks.estimate import (
    INDEX_OVERHEAD,
    Figures,
    Load,
    Machine,
    format_estimate,
    plan_machines,
    simulate_queue,
)

FIGURES = Figures(
    processor="a processor",
    model="photo",
    embedding_dim=128,
    token_bytes=8192,
    picture_seconds=4e-3,
    vector_seconds=2e-8,
    fetch_seconds=5e-6,
    pair_seconds=5e-4,
    record_bytes=800.0,
)
MACHINE = Machine(cores=16, memory=64.0, price=590.0, disk_price=0.08, free_reads=3000, read_price=0.005)
LOAD = Load(pictures=1_000_000, queries=10.0, candidates=100, seconds=1.0)


@pytest.fixture
def briefly(monkeypatch):
    """Fewer queries are simulated: enough where the 99th of a hundred is not compared with a formula."""
    monkeypatch.setattr(module, "_SIMULATED", 1000)


def test_bytes_and_dollars_are_those_of_the_figures():
    plan = plan_machines(FIGURES, LOAD, MACHINE)
    assert plan.vector_bytes == 1_000_000 * (4 * 128 + INDEX_OVERHEAD)
    assert plan.token_bytes == 1_000_000 * 8192
    assert plan.record_bytes == 800e6
    assert (plan.shards, plan.groups, plan.machines) == (1, 1, 1)
    disk = (1_000_000 * (8192 + 512) + 800e6) / 2**30
    assert plan.dollars == pytest.approx({"machines": 590.0, "disks": disk * 0.08, "reads": 0.0})
    assert plan.filling_hours == pytest.approx(1_000_000 * 4e-3 / 16 / 3600)
    compact = replace(FIGURES, token_bytes=4096)
    assert plan_machines(compact, LOAD, MACHINE).dollars["disks"] < 0.6 * plan.dollars["disks"]


def test_a_query_costs_what_its_stages_cost():
    plan = plan_machines(FIGURES, LOAD, MACHINE)
    assert plan.compared == 1_000_000
    assert plan.core_seconds == pytest.approx(
        {
            "decoding and encoding": 4e-3,
            "finding candidates": plan.compared * 2e-8,
            "reading tokens": 100 * 5e-6,
            "scoring pairs": 100 * 5e-4,
        }
    )
    assert plan.busy == pytest.approx(10 * sum(plan.core_seconds.values()) / 16)
    assert plan.bottleneck == "scoring pairs"


def test_memory_makes_shards_and_queries_make_groups():
    many = plan_machines(replace(FIGURES, vector_seconds=1e-9), replace(LOAD, pictures=100_000_000), MACHINE)
    assert many.shards == math.ceil(many.vector_bytes / (0.7 * 64 * 2**30)) == 2
    assert (many.groups, many.bottleneck) == (1, "memory")
    busy = plan_machines(FIGURES, replace(LOAD, queries=2000.0), MACHINE)
    assert busy.shards == 1
    assert busy.groups >= 2000 * sum(busy.core_seconds.values()) / 16
    assert busy.busy < 0.95
    assert busy.p99 <= 1.0
    assert busy.dollars["machines"] == 590 * busy.machines
    assert busy.dollars["disks"] == pytest.approx(busy.groups * plan_machines(FIGURES, LOAD, MACHINE).dollars["disks"])


def test_reads_beyond_the_free_ones_are_paid_and_no_more_are_made_than_there_are_pictures():
    plan = plan_machines(FIGURES, replace(LOAD, queries=60.0), replace(MACHINE, free_reads=1000))
    assert plan.reads == 60 * 100 / plan.machines
    assert plan.dollars["reads"] == pytest.approx(plan.machines * (plan.reads - 1000) * 0.005)
    plan = plan_machines(FIGURES, replace(LOAD, pictures=10), MACHINE)
    assert plan.core_seconds["scoring pairs"] == pytest.approx(10 * FIGURES.pair_seconds)
    assert plan.reads == 10 * 10


def test_very_many_pictures_and_queries_only_take_more_machines():
    plan = plan_machines(replace(FIGURES, vector_seconds=1e-9), replace(LOAD, pictures=5_000_000_000), MACHINE)
    assert plan.shards == math.ceil(plan.vector_bytes / (0.7 * 64 * 2**30)) > 80
    assert plan_machines(FIGURES, replace(LOAD, queries=20_000.0), MACHINE).groups > 60
    with pytest.raises(BenchError, match=r"shards would be needed.*larger machines"):
        plan_machines(FIGURES, replace(LOAD, pictures=1_000_000_000_000), replace(MACHINE, memory=1.0))


def test_one_query_too_slow_for_a_machine_is_spread_over_more(briefly):
    slow = replace(FIGURES, pair_seconds=0.3)
    plan = plan_machines(slow, replace(LOAD, pictures=1000, queries=0.01), MACHINE)
    assert plan.shards > 1
    assert plan.p99 <= 1.0
    with pytest.raises(BenchError, match=r"within 0.003 s; allow more time"):
        plan_machines(FIGURES, replace(LOAD, seconds=0.003), MACHINE)


def test_the_queue_is_the_known_one_where_there_is_a_formula():
    """One shard and queries all alike are M/D/1: P(wait > t) goes to C exp(-x t / s), with rho (exp(x) - 1) = x and
    C = (1 - rho) / (rho exp(x) - 1), where s is the time that one takes.
    """
    figures = replace(FIGURES, picture_seconds=1e-9, vector_seconds=1e-15, fetch_seconds=0.0)
    served = 100 * figures.pair_seconds / MACHINE.cores
    for rho, x in ((0.5, 1.2564), (0.9, 0.2070)):
        _, p99 = simulate_queue(figures, replace(LOAD, queries=rho / served), MACHINE, 1, 1)
        wait = math.log(100 * (1 - rho) / (rho * math.exp(x) - 1)) / x
        assert p99 / served == pytest.approx(1 + wait, rel=0.15)
    alone = simulate_queue(figures, replace(LOAD, queries=1e-9), MACHINE, 1, 1)
    assert alone == pytest.approx((served, served), rel=1e-5)


@pytest.mark.slow
def test_the_command_measures_here_and_answers_for_each_number(artifact, capsys):
    words = ["estimate", "1000", "100000000", "--model", str(artifact), "--memory", "8", "--threads", "1", "--json"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    figures = told["figures"]
    assert min(figures[name] for name in figures if name.endswith("_seconds")) > 0
    assert 0 < figures["record_bytes"] < 5000
    assert figures["token_bytes"] == Manifest.load(artifact).codec.nbytes
    assert [one["pictures"] for one in told["estimates"]] == [1000, 100_000_000]
    assert told["estimates"][0]["machines"] == 1 < told["estimates"][1]["machines"]


def test_people_get_a_column_for_each_number():
    loads = [LOAD, replace(LOAD, pictures=100_000_000)]
    shown = format_estimate(FIGURES, MACHINE, loads, [plan_machines(FIGURES, load, MACHINE) for load in loads])
    lines = {line[:30].strip(): line[30:].split() for line in shown.splitlines()}
    assert lines["pictures"] == ["1,000,000", "100,000,000"]
    assert lines["machines"] == ["1", "3"]
    assert shown.splitlines()[-1].startswith("first bottleneck")


def test_the_command_answers_for_each_number_and_says_what_cannot_be(briefly, artifact, capsys, monkeypatch):
    monkeypatch.setattr("diptych_studies.benchmarks.estimate.measure_figures", lambda scorer: FIGURES)
    assert main(["estimate", "10", "1000", "--model", str(artifact), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["figures"] == asdict(FIGURES)
    assert [(one["pictures"], one["machines"]) for one in told["estimates"]] == [(10, 1), (1000, 1)]
    assert main(["estimate", "1000", "--model", str(artifact), "--seconds", "1e-9", "--quiet"]) == 1
    assert "allow more time" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        main(["estimate", "0"])
    assert stop.value.code == 2
