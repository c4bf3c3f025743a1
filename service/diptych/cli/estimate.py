"""`diptych estimate`: the tables for people, and the same as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from diptych.cli.options import Model, Provider, Threads, open_scorer
from diptych.command_tree import Json, Quiet, amount, number
from diptych.console import Console, byte_size, format_table
from diptych.errors import EstimateError

if TYPE_CHECKING:
    from diptych.bench.estimate.figures import Figures
    from diptych.bench.estimate.plan import Load, Machine, Plan

_MACHINE = "a machine, with cores like those here; the prices are assumed, name your own"


def estimate(
    pictures: Annotated[
        list[int], Argument(parser=number(1, 10**12), metavar="N", help="numbers of pictures, a column each")
    ],
    queries: Annotated[float, Option(parser=amount, metavar="Q", help="queries a second")] = 10.0,
    candidates: Annotated[int, Option(parser=number(0, 10_000), metavar="N", help="candidates of a query")] = 100,
    seconds: Annotated[
        float, Option(parser=amount, metavar="S", help="time within which 99 of 100 answers come")
    ] = 1.0,
    cores: Annotated[int, Option(parser=number(1), metavar="N", help="processor cores", rich_help_panel=_MACHINE)] = 16,
    memory: Annotated[float, Option(parser=amount, metavar="GIB", help="memory", rich_help_panel=_MACHINE)] = 64.0,
    price: Annotated[
        float, Option(parser=amount, metavar="USD", help="price a month", rich_help_panel=_MACHINE)
    ] = 590.0,
    disk_price: Annotated[
        float, Option(parser=amount, metavar="USD", help="price of a GiB of disk", rich_help_panel=_MACHINE)
    ] = 0.08,
    free_reads: Annotated[
        int, Option(parser=number(0), metavar="N", help="free disk reads a second", rich_help_panel=_MACHINE)
    ] = 3000,
    read_price: Annotated[
        float, Option(parser=amount, metavar="USD", help="price of one more read a second", rich_help_panel=_MACHINE)
    ] = 0.005,
    model: Model = "photo",
    provider: Provider = "auto",
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Estimate the cost of many pictures from the cost of one here."""
    from diptych.bench.estimate.figures import measure_figures
    from diptych.bench.estimate.plan import Load, Machine, plan_machines

    console = Console(as_json, quiet)
    console.remark("measuring what one picture, one pair and one vector cost here ...")
    figures = measure_figures(open_scorer(model, provider, threads))
    machine = Machine(cores, memory, price, disk_price, free_reads, read_price)
    loads = [Load(count, queries, candidates, seconds) for count in pictures]
    try:
        plans = [plan_machines(figures, one, machine) for one in loads]
    except ValueError as error:
        raise EstimateError(str(error)) from None
    cases = [{**asdict(one), **asdict(plan)} for one, plan in zip(loads, plans, strict=True)]
    data = {"figures": asdict(figures), "machine": asdict(machine), "estimates": cases}
    console.emit(data, format_estimate(figures, machine, loads, plans))
    return 0


def format_estimate(figures: Figures, machine: Machine, loads: list[Load], plans: list[Plan]) -> str:
    """Format the figures, the assumptions, and a column for each number of pictures."""
    measured = [
        ("a picture, decoded and encoded", f"{figures.picture_seconds * 1e3:.2f} ms of a core"),
        ("a pair scored", f"{figures.pair_seconds * 1e3:.3f} ms of a core"),
        ("a candidate's tokens read", f"{figures.fetch_seconds * 1e6:.1f} us of a core"),
        ("a million vectors compared with", f"{figures.vector_seconds * 1e9:.1f} ms of a core"),
        ("a picture in the database, beside its features", f"{figures.record_bytes:.0f} bytes"),
        ("a picture's tokens", f"{figures.token_bytes:,} bytes"),
    ]
    first = loads[0]
    rows: list[tuple[str, list[str]]] = [
        ("vectors, in memory", [byte_size(plan.vector_bytes) for plan in plans]),
        ("tokens", [byte_size(plan.token_bytes) for plan in plans]),
        ("records", [byte_size(plan.record_bytes) for plan in plans]),
        ("lists a shard", [f"{plan.lists:,}" for plan in plans]),
        *(
            (f"a query: {stage}", [f"{plan.core_seconds[stage] * 1e3:.1f} core-ms" for plan in plans])
            for stage in plans[0].core_seconds
        ),
        ("shards x groups", [f"{plan.shards:,} x {plan.groups:,}" for plan in plans]),
        ("machines", [f"{plan.machines:,}" for plan in plans]),
        ("cores busy", [f"{plan.busy:.0%}" for plan in plans]),
        ("an answer, p50", [f"{plan.p50 * 1e3:.0f} ms" for plan in plans]),
        ("an answer, p99", [f"{plan.p99 * 1e3:.0f} ms" for plan in plans]),
        ("reads a second, a machine", [f"{plan.reads:,.0f}" for plan in plans]),
        ("filling it, on these machines", [f"{plan.filling_hours:,.1f} h" for plan in plans]),
        *((f"a month: {item}", [f"${plan.dollars[item]:,.0f}" for plan in plans]) for item in plans[0].dollars),
        ("a month", [f"${sum(plan.dollars.values()):,.0f}" for plan in plans]),
        ("first bottleneck", [plan.bottleneck for plan in plans]),
    ]
    return "\n".join(
        [
            f"{figures.processor}, one core; model {figures.model}",
            format_table(("measured", ""), measured),
            "",
            f"{first.queries:g} queries a second, {first.candidates} candidates each, p99 within {first.seconds:g} s;",
            f"machines of {machine.cores} such cores and {machine.memory:g} GiB at ${machine.price:g} a month, disk "
            f"${machine.disk_price:g} a GiB, ${machine.read_price:g} a read/s beyond {machine.free_reads:,}",
            format_table(
                ("pictures", *(f"{one.pictures:,}" for one in loads)), [(name, *values) for name, values in rows]
            ),
        ]
    )
