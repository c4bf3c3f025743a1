"""`diptych study`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from diptych.console import Subparsers, command, emit, progress, remark
from diptych_training.evaluation.cli import add_kinds, measure_kinds

if TYPE_CHECKING:
    from diptych_training.evaluation.stages import Entrants


def register(subparsers: Subparsers) -> None:
    """Add a subcommand for every subject."""
    parser = subparsers.add_parser(
        "study", help="what an operator or a setting buys", description="Train variants alike in all but one part."
    )
    subjects = parser.add_subparsers(dest="subject", required=True, metavar="SUBJECT")
    for name, what in (
        ("mixers", "every operator in MSAC's place, on Omniglot"),
        ("ablation", "MSAC's scales, H_R, segments, bias and seam, on Omniglot"),
    ):
        pairs = _add(subjects, name, what, study_pairs)
        pairs.add_argument("--steps", type=int, default=450, help="training steps of each run (default: %(default)s)")
        pairs.add_argument(
            "--episodes", type=int, default=100, help="one-shot episodes of 20 trials (default: %(default)s)"
        )
        pairs.add_argument(
            "--rates",
            type=float,
            nargs="+",
            default=[2e-3],
            metavar="R",
            help="learning rates; a variant stands with the one that cost it least in training (default: 0.002)",
        )
        pairs.add_argument("--only", metavar="A,B", help="only these variants, and those they differ from")
    shapes = _add(subjects, "shapes", "the pair part's shape, accuracy beside cost, on photos", study_shapes)
    shapes.set_defaults(seeds=1)
    shapes.add_argument("--steps", type=int, default=500, help="training steps of each run (default: %(default)s)")
    shapes.add_argument("--only", metavar="A,B", help="only these shapes")
    shapes.add_argument("--plot", type=Path, metavar="FILE", help="draw accuracy against cost, as .png, .svg or .pdf")
    language = _add(subjects, "language", "MSAC's scales in a language model", study_language)
    language.add_argument("--text", type=Path, metavar="FILE", help="a text or a folder (default: Python's docstrings)")
    language.add_argument("--steps", type=int, default=1200, help="training steps of each run (default: %(default)s)")
    language.add_argument("--objective", choices=("causal", "masked"), default="causal", help="(default: %(default)s)")
    name, what = "marks", "a model on the project's own validation sets, copies and things, in one table"
    marks = command(subjects, name, what, study_marks)
    marks.add_argument(
        "--model", default="photo", help="a released model, an artifact or a checkpoint (default: %(default)s)"
    )
    marks.add_argument(
        "--against", action="append", default=[], metavar="MODEL", help="lay this model beside it; may come again"
    )
    marks.add_argument(
        "--out",
        "-o",
        type=Path,
        default=Path("runs/marks"),
        metavar="DIR",
        help="where the sets are kept (%(default)s)",
    )
    marks.add_argument("--only", nargs="+", default=[], metavar="SET", help="only these sets")
    marks.add_argument(
        "--candidates", type=int, default=100, metavar="K", help="candidates re-ranked (default: %(default)s)"
    )
    name, what = "limits", "drawn pairs that a model errs on, and what it says of them"
    limits = command(subjects, name, what, study_limits)
    limits.add_argument("--model", default="photo", help="a released model or an artifact (default: %(default)s)")
    limits.add_argument("--plot", type=Path, metavar="FILE", help="draw the pairs with that beside them, as .png")
    what = "what a closer look makes of the pairs that a model takes for copies"
    verification = add_kinds(subjects, "verification", what, study_verification)
    verification.add_argument(
        "--save", type=Path, metavar="CHECKPOINT", help="write what was fitted into this checkpoint"
    )


def study_pairs(args: argparse.Namespace) -> int:
    """`diptych study mixers` and `diptych study ablation`."""
    from diptych_training.data.archives import data_folder
    from diptych_training.studies.pairs import study, study_text

    result = study(
        args.subject,
        args.out,
        data_folder(),
        steps=args.steps,
        rates=args.rates,
        seeds=args.seeds,
        episodes=args.episodes,
        only=args.only.split(",") if args.only else (),
        processes=args.processes,
        finished=lambda name: remark(args, f"finished {name}"),
    )
    emit(args, result, study_text(result))
    return 0


def study_shapes(args: argparse.Namespace) -> int:
    """`diptych study shapes`."""
    from diptych_training.benchmarks.plot import check_plot
    from diptych_training.data.archives import data_folder
    from diptych_training.studies.shapes import plot_shapes, shapes_text
    from diptych_training.studies.shapes import study_shapes as study

    if args.plot:
        check_plot(args.plot)
    result = study(
        args.out,
        data_folder(),
        steps=args.steps,
        seeds=args.seeds,
        only=tuple(args.only.split(",")) if args.only else (),
        processes=args.processes,
        finished=lambda name: remark(args, f"finished {name}"),
    )
    emit(args, result, shapes_text(result))
    if args.plot:
        plot_shapes(result, args.plot)
        remark(args, f"plot: {args.plot}")
    return 0


def study_language(args: argparse.Namespace) -> int:
    """`diptych study language`."""
    from diptych_training.studies.scales import language_text, study_language

    result = study_language(
        args.out,
        args.text,
        steps=args.steps,
        seeds=args.seeds,
        objective=args.objective,
        processes=args.processes,
        finished=lambda name: remark(args, f"finished {name}"),
    )
    emit(args, result, language_text(result))
    return 0


def study_marks(args: argparse.Namespace) -> int:
    """`diptych study marks`."""
    from diptych_training.data.archives import data_folder
    from diptych_training.evaluation.open_model import open_model
    from diptych_training.evaluation.stages import Entrants
    from diptych_training.studies.marks import marks_text, measure_marks

    @contextmanager
    def enter(question: str) -> Iterator[Entrants]:
        with ExitStack() as models:
            yield Entrants(
                models.enter_context(open_model(args.model, question)),
                {model: models.enter_context(open_model(model, question)) for model in args.against},
                progress=lambda items, total, name: progress(items, args, total=total, desc=name),
            )

    result = measure_marks(
        args.out,
        data_folder(),
        args.model,
        enter,
        only=args.only,
        candidates=args.candidates,
        finished=lambda name: remark(args, f"finished {name}"),
    )
    emit(args, result, marks_text(result))
    return 0


def study_limits(args: argparse.Namespace) -> int:
    """`diptych study limits`."""
    from diptych_runtime.runtime import Runtime
    from diptych_training.benchmarks.plot import check_plot_path
    from diptych_training.studies.limits import draw_limits, examples, limits_text
    from diptych_training.studies.limits import study_limits as study

    if args.plot:
        check_plot_path(args.plot, [".png"])
    shown = examples()
    result = study(Runtime.open(args.model), shown)
    emit(args, result, limits_text(result))
    if args.plot:
        draw_limits(result, shown, args.plot)
        remark(args, f"plot: {args.plot}")
    return 0


def study_verification(args: argparse.Namespace) -> int:
    """`diptych study verification`."""
    from diptych_training.studies.verification import save_verification, verification_text
    from diptych_training.studies.verification import study_verification as study

    result = measure_kinds(args, study)
    if args.save:
        save_verification(result, args.save)
    emit(args, result, verification_text(result))
    return 0


def _add(
    subjects: Subparsers, name: str, what: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    parser = command(subjects, name, what, run)
    parser.add_argument(
        "--out", "-o", type=Path, default=Path("runs/study"), metavar="DIR", help="where runs are kept (%(default)s)"
    )
    parser.add_argument("--seeds", type=int, default=3, help="runs of each variant (default: %(default)s)")
    parser.add_argument(
        "--processes", type=int, metavar="N", help="at a time, one thread each (default: one a core; 0: in this one)"
    )
    return parser
