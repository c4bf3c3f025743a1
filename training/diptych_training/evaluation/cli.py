"""`diptych evaluate`: one subcommand a protocol."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diptych.console import Subparsers, command, emit, progress, remark
from diptych_runtime.calibration.questions import ASKED, COPY, THING

if TYPE_CHECKING:
    from diptych_training.evaluation.series import Evidence
    from diptych_training.evaluation.stages import Entrants


def register(subparsers: Subparsers) -> None:
    """Add `evaluate` and its protocols."""
    parser = subparsers.add_parser("evaluate", help="measure a model", description="Measure a model.")
    protocols = parser.add_subparsers(dest="protocol", required=True, metavar="PROTOCOL")

    oneshot = _protocol(protocols, "oneshot", "one-shot runs of characters, in Lake's layout", run_oneshot)
    oneshot.add_argument("runs", type=Path, metavar="RUNS", help="a folder or zip archive with run01, run02, ...")

    episodes = _protocol(protocols, "episodes", "random one-shot episodes within an alphabet", run_episodes)
    episodes.add_argument("drawings", type=Path, metavar="DIR", help="ALPHABET/CHARACTER/ID_DRAWER.png; or a zip")
    episodes.add_argument("--split", metavar="NAME", help="the folder above the alphabets, where there are several")
    episodes.add_argument("--episodes", type=int, default=500, metavar="N", help="how many (default: %(default)s)")
    episodes.add_argument("--ways", type=int, default=20, metavar="W", help="characters in each (default: %(default)s)")
    episodes.add_argument("--seed", type=int, default=0, help="another seed, other episodes (default: %(default)s)")

    retrieval = _protocol(protocols, "retrieval", "pictures of a class, searched in a gallery", run_retrieval)
    retrieval.add_argument("--queries", type=Path, required=True, metavar="Q.csv", help="columns path, class")
    retrieval.add_argument("--gallery", type=Path, required=True, metavar="G.csv", help="columns path, class")
    retrieval.add_argument("--root", type=Path, required=True, metavar="DIR", help="the folder paths start from")

    copies = _protocol(protocols, "copies", "edited copies among the photos they were made from", run_copies, COPY)
    copies.add_argument("--references", type=Path, required=True, metavar="DIR", help="the photos to search in")
    copies.add_argument("--queries", type=Path, required=True, metavar="DIR", help="the pictures to search for")
    copies.add_argument("--truth", type=Path, required=True, metavar="T.csv", help="columns query, reference")
    copies.add_argument("--no-baselines", action="store_true", help="leave out the control phash")

    for searched in (retrieval, copies):
        searched.add_argument(
            "--candidates", type=int, default=100, metavar="K", help="candidates re-ranked (default: %(default)s)"
        )

    pairs = _protocol(protocols, "pairs", "labelled pairs of pictures", run_pairs)
    pairs.add_argument("pairs", type=Path, metavar="PAIRS.csv", help="columns image_a, image_b, label (1 or 0)")
    pairs.add_argument("--root", type=Path, metavar="DIR", help="the folder paths start from (default: the CSV's)")

    what = "what probabilities are worth on kinds of pictures that they were not fitted to"
    calibration = add_kinds(protocols, "calibration", what, run_calibration)
    calibration.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw reliability diagrams, as .png, .svg or .pdf"
    )


def run_oneshot(args: argparse.Namespace) -> int:
    """`diptych evaluate oneshot RUNS`."""
    from diptych_training.evaluation.protocols.oneshot import evaluate_oneshot, open_runs

    with open_runs(args.runs) as folder:
        return _finish(args, lambda entrants: evaluate_oneshot(entrants, folder))


def run_episodes(args: argparse.Namespace) -> int:
    """`diptych evaluate episodes DIR`."""
    from diptych_training.evaluation.protocols.episodes import evaluate_episodes, open_drawings

    chosen = {"split": args.split, "episodes": args.episodes, "ways": args.ways, "seed": args.seed}
    with open_drawings(args.drawings, args.split) as folder:
        return _finish(args, lambda entrants: evaluate_episodes(entrants, folder, **chosen))


def run_retrieval(args: argparse.Namespace) -> int:
    """`diptych evaluate retrieval --queries Q.csv --gallery G.csv --root DIR`."""
    from diptych_training.evaluation.protocols.retrieval import evaluate_retrieval, read_labelled

    queries, gallery = (read_labelled(path, args.root) for path in (args.queries, args.gallery))
    return _finish(
        args, lambda entrants: evaluate_retrieval(entrants, queries, gallery, args.root, candidates=args.candidates)
    )


def run_copies(args: argparse.Namespace) -> int:
    """`diptych evaluate copies --references DIR --queries DIR --truth T.csv`."""
    from diptych_training.evaluation.protocols.copies import evaluate_copies, read_truth

    if not args.no_baselines and "phash" not in args.control:
        args.control = ["phash", *args.control]
    truth = read_truth(args.truth)
    return _finish(
        args,
        lambda entrants: evaluate_copies(entrants, args.references, args.queries, truth, candidates=args.candidates),
    )


def run_pairs(args: argparse.Namespace) -> int:
    """`diptych evaluate pairs PAIRS.csv`."""
    from diptych_training.evaluation.protocols.pairs import evaluate_pairs, read_pairs

    root = args.root or args.pairs.parent
    given = read_pairs(args.pairs, root)
    return _finish(args, lambda entrants: evaluate_pairs(entrants, given, root))


def run_calibration(args: argparse.Namespace) -> int:
    """`diptych evaluate calibration`."""
    from diptych_training.benchmarks.plot import check_plot
    from diptych_training.evaluation.calibration import calibration_text, draw_calibration, measure_calibration

    if args.plot:
        check_plot(args.plot)
    result = measure_kinds(args, measure_calibration)
    if args.plot:
        draw_calibration(result, args.plot)
        remark(args, f"plot: {args.plot}")
    emit(args, result, calibration_text(result))
    return 0


def add_kinds(
    subparsers: Subparsers, name: str, help: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """Add a command that measures a model on the collections of `planted`."""
    parser = command(subparsers, name, help, run)
    parser.add_argument(
        "--model", default="photo", help="a released model, an artifact or a checkpoint (default: photo)"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="KIND", help="only these kinds of pictures")
    where = {"type": Path, "default": Path("runs/verification"), "metavar": "DIR"}
    parser.add_argument("--out", "-o", **where, help="where the pictures are kept (%(default)s)")
    return parser


def measure_kinds(args: argparse.Namespace, measure: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """Run such a command: `measure(runtime, directory, folder, kinds=..., begin=...)`, with a bar for each kind."""
    from diptych_training.data.archives import data_folder
    from diptych_training.data.planted import KINDS
    from diptych_training.evaluation.open_model import open_model

    with ExitStack() as stack:

        def begin(kind: str) -> Callable[[int], object]:
            return stack.enter_context(progress((), args, unit="pair", desc=kind)).update

        runtime = stack.enter_context(open_model(args.model))
        return measure(runtime, args.out, data_folder(), kinds=args.only or KINDS, begin=begin)


def _protocol(
    protocols: Subparsers, name: str, help: str, run: Callable[[argparse.Namespace], int], question: str = THING
) -> argparse.ArgumentParser:
    parser = command(protocols, name, help, run)
    parser.add_argument(
        "--model", default="photo", help="a released model, an artifact or a checkpoint (default: photo)"
    )
    parser.add_argument(
        "--question",
        choices=ASKED,
        default=question,
        help="what models with several questions are asked (default: %(default)s)",
    )
    parser.add_argument(
        "--against", action="append", default=[], metavar="MODEL", help="lay this model beside it; may come again"
    )
    parser.add_argument(
        "--control",
        action="append",
        default=[],
        metavar="NAME",
        help="lay a classical method beside it: phash, histogram, pixels, sift, orb, mhd; may come again",
    )
    parser.add_argument("--report", type=Path, metavar="OUT.html", help="write a report with curves and pictures")
    return parser


def _finish(args: argparse.Namespace, measure: Callable[[Entrants], Evidence]) -> int:
    """Open all who are measured, measure them, print the result and write the report."""
    from diptych_training.evaluation.open_model import open_model
    from diptych_training.evaluation.stages import Entrants
    from diptych_training.evaluation.text_table import text

    controls = _controls(args)
    with ExitStack() as models:
        entrants = Entrants(
            models.enter_context(open_model(args.model, args.question)),
            {model: models.enter_context(open_model(model, args.question)) for model in args.against},
            controls,
            lambda items, total, name: progress(items, args, total=total, desc=name),
        )
        evidence = measure(entrants)
        if args.report:
            from diptych_training.evaluation.report import write_report

            write_report(evidence, entrants.model, args.report)
            remark(args, f"report: {args.report}")
    title = f"{evidence.title}; model {evidence.model} {evidence.revision}"
    emit(args, evidence.result, f"{title}\n{text(args.protocol, evidence.result)}")
    return 0


def _controls(args: argparse.Namespace) -> list:
    names = list(dict.fromkeys(args.control))
    if not names:
        return []
    from diptych_training.evaluation.baselines import control

    return [control(name) for name in names]
