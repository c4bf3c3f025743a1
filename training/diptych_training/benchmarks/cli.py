"""`diptych bench`."""

from __future__ import annotations

import argparse
from pathlib import Path

from diptych.console import Subparsers, add_common, emit, group, progress, remark


def register(subparsers: Subparsers) -> None:
    """Add `bench operators` and `bench resnets`."""
    _, subjects = group(subparsers, "bench", "measure what things cost on this machine")

    operators = add_common(subjects.add_parser("operators", help="time, memory and FLOPs of MSAC and its rivals"))
    operators.set_defaults(run=bench_operators)
    operators.add_argument("--width", type=int, default=96, metavar="D", help="channels (default: %(default)s)")
    operators.add_argument(
        "--tokens",
        type=int,
        nargs="+",
        default=[32, 128, 512, 2048],
        metavar="T",
        help="positions of both panels, 2 * N * N (default: 32 128 512 2048)",
    )
    operators.add_argument(
        "--windows", type=int, nargs="+", default=[1, 3, 5, 7], metavar="N", help="filter sizes (default: 1 3 5 7)"
    )
    operators.add_argument("--mixers", metavar="A,B", help="only these; MSAC always runs with them (default: all)")
    operators.add_argument("--pairs", type=int, default=1, help="pairs at a time (default: %(default)s)")
    operators.add_argument("--repeats", type=int, default=9, help="rounds (default: %(default)s)")
    operators.add_argument("--threads", type=int, default=1, help="threads of torch (default: %(default)s)")
    operators.add_argument(
        "--plot",
        type=Path,
        default=Path("operators.png"),
        metavar="FILE",
        help="where it is drawn, as .png, .svg or .pdf (default: %(default)s)",
    )
    operators.add_argument("--no-plot", action="store_const", dest="plot", const=None, help="do not draw it")

    resnets = add_common(subjects.add_parser("resnets", help="attention ResNets counted beside their paper's table"))
    resnets.set_defaults(run=bench_resnets)


def bench_operators(args: argparse.Namespace) -> int:
    """`diptych bench operators`."""
    from diptych_training.benchmarks.operators import bench_operators as bench
    from diptych_training.benchmarks.plot import bench_plot, check_plot
    from diptych_training.benchmarks.tables import bench_text

    if args.plot:
        check_plot(args.plot)
    result = bench(
        width=args.width,
        tokens=args.tokens,
        windows=args.windows,
        mixers=args.mixers.split(",") if args.mixers else None,
        repeats=args.repeats,
        threads=args.threads,
        pairs=args.pairs,
        progress=lambda rounds: progress([], args, total=rounds, unit="round").update,
    )
    emit(args, result, bench_text(result))
    if args.plot:
        bench_plot(result, args.plot)
        remark(args, f"plot: {args.plot}")
    return 0


def bench_resnets(args: argparse.Namespace) -> int:
    """`diptych bench resnets`."""
    from diptych_training.benchmarks.resnets import compare_with_paper, resnets_text

    rows = compare_with_paper()
    emit(args, [row.to_dict() for row in rows], resnets_text(rows))
    return 0
