"""`diptych bench`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from typer import Option

from diptych.command_tree import Json, Quiet, number
from diptych.console import Console


def operators(
    width: Annotated[int, Option(metavar="D", help="channels")] = 96,
    tokens: Annotated[
        Sequence[int],
        Option(
            parser=number(1),
            metavar="T,T",
            help="positions of both panels, 2 * N * N",
            show_default="32,128,512,2048",
        ),
    ] = (32, 128, 512, 2048),
    windows: Annotated[
        Sequence[int],
        Option(parser=number(1), metavar="N,N", help="filter sizes", show_default="1,3,5,7"),
    ] = (1, 3, 5, 7),
    mixers: Annotated[
        Sequence[str],
        Option(metavar="A,B", help="only these; MSAC always runs with them", show_default="all"),
    ] = (),
    pairs: Annotated[int, Option(metavar="N", help="pairs at a time")] = 1,
    repeats: Annotated[int, Option(metavar="N", help="rounds")] = 9,
    threads: Annotated[int, Option(metavar="N", help="threads of torch")] = 1,
    plot: Annotated[Path, Option(metavar="FILE", help="where it is drawn, as .png, .svg or .pdf")] = Path(
        "operators.png"
    ),
    no_plot: Annotated[bool, Option("--no-plot", help="do not draw it")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Time, memory and FLOPs of MSAC and its rivals."""
    from diptych_studies.benchmarks.operators import bench_operators, bench_text
    from diptych_studies.benchmarks.plot import bench_plot
    from diptych_training.plot_files import check_plot

    console = Console(as_json, quiet)
    if not no_plot:
        check_plot(plot)
    result = bench_operators(
        width=width,
        tokens=tokens,
        windows=windows,
        mixers=list(mixers) or None,
        repeats=repeats,
        threads=threads,
        pairs=pairs,
        progress=lambda rounds: console.progress(total=rounds, unit="round").update,
    )
    console.emit(result, bench_text(result))
    if not no_plot:
        bench_plot(result, plot)
        console.remark(f"plot: {plot}")
    return 0


def resnets(as_json: Json = False, quiet: Quiet = False) -> int:
    """Attention ResNets counted beside their paper's table."""
    from diptych_studies.benchmarks.resnets import compare_with_paper, resnets_text

    rows = compare_with_paper()
    Console(as_json, quiet).emit([row.to_dict() for row in rows], resnets_text(rows))
    return 0
