"""`diptych study`, and what `diptych evaluate` measures on kinds of pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from diptych.command_tree import Json, Quiet, amount
from diptych.console import Console
from diptych_studies.options import RUNS, Out, Processes, Seeds, Steps
from diptych_training.evaluation.cli import Against, AnyModel, Candidates

if TYPE_CHECKING:
    from diptych_training.evaluation.stages import Entrants

_PairSteps = Annotated[
    int | None,
    Option("--steps", metavar="N", help="training steps of each run", show_default="450; on photos 200"),
]
_Episodes = Annotated[int, Option("--episodes", metavar="N", help="one-shot episodes of 20 trials")]
_Rates = Annotated[
    Sequence[float],
    Option(
        "--rates",
        parser=amount,
        metavar="R,R",
        help="learning rates; a variant stands with the one that cost it least in training",
        show_default="0.002; on photos 0.0005, 0.0015 and 0.0045",
    ),
]
_Variants = Annotated[
    Sequence[str],
    Option(
        "--only",
        metavar="A,B",
        help="only these variants, and those they differ from",
        show_default="all",
    ),
]
_On = Annotated[
    Literal["omniglot", "photos"],
    Option("--on", help="drawings, from pixels, or photos, over the tokens of the released panel part"),
]
_Runs = Annotated[
    Path | None,
    Option(
        "--runs",
        metavar="FILE.csv",
        help="on photos: finished runs, read and added to",
        show_default="in DIR",
    ),
]
_Plot = Annotated[
    Path | None,
    Option("--plot", metavar="FILE", help="on photos: draw every variant, as .png, .svg or .pdf"),
]
_Kinds = Annotated[
    Sequence[str],
    Option("--only", metavar="KIND,KIND", help="only these kinds of pictures", show_default="all"),
]
_KindsFolder = Annotated[Path, Option("--out", "-o", metavar="DIR", help="where the pictures are kept")]
_KINDS_FOLDER = Path("runs/verification")
_Finished = Annotated[bool, Option("--finished", help="on photos: train nothing, lay out what is finished")]


def mixers(
    on: _On = "omniglot",
    steps: _PairSteps = None,
    episodes: _Episodes = 100,
    rates: _Rates = (),
    only: _Variants = (),
    runs: _Runs = None,
    finished: _Finished = False,
    plot: _Plot = None,
    out: Out = RUNS,
    seeds: Seeds = 3,
    processes: Processes = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Every operator in MSAC's place, on Omniglot or on photos."""
    return _study_pairs(
        "mixers",
        Console(as_json, quiet),
        on,
        steps,
        episodes,
        rates,
        only,
        runs,
        finished,
        plot,
        out,
        seeds,
        processes,
    )


def ablation(
    on: _On = "omniglot",
    steps: _PairSteps = None,
    episodes: _Episodes = 100,
    rates: _Rates = (),
    only: _Variants = (),
    runs: _Runs = None,
    finished: _Finished = False,
    plot: _Plot = None,
    out: Out = RUNS,
    seeds: Seeds = 3,
    processes: Processes = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """MSAC's scales, heads, H_R, segments, bias and seam, on Omniglot or on photos."""
    return _study_pairs(
        "ablation",
        Console(as_json, quiet),
        on,
        steps,
        episodes,
        rates,
        only,
        runs,
        finished,
        plot,
        out,
        seeds,
        processes,
    )


def _study_pairs(
    subject: Literal["mixers", "ablation"],
    console: Console,
    on: Literal["omniglot", "photos"],
    steps: int | None,
    episodes: int,
    rates: Sequence[float],
    only: Sequence[str],
    runs: Path | None,
    finished: bool,
    plot: Path | None,
    out: Path,
    seeds: int,
    processes: int | None,
) -> int:
    from diptych_studies.pairs import study_pairs, study_text
    from diptych_studies.photo_pairs.study import plot_on_photos, study_on_photos, study_on_photos_text
    from diptych_studies.plot_files import check_plot
    from diptych_training.data.archives import data_folder
    from diptych_training.errors import DataError

    shared = {"steps": steps, "rates": rates, "seeds": seeds, "only": only, "processes": processes}
    note = lambda name: console.remark(f"finished {name}")  # noqa: E731
    if on == "omniglot":
        if runs or finished or plot:
            raise DataError("--runs, --finished and --plot are for --on photos; add that, or leave them out")
        result = study_pairs(subject, out, data_folder(), episodes=episodes, finished=note, **shared)
        console.emit(result, study_text(result))
        return 0
    if plot:
        check_plot(plot)
    result = study_on_photos(
        subject,
        out,
        None if finished else data_folder(),
        runs=runs,
        finished=note,
        **shared,
    )
    console.emit(result, study_on_photos_text(result))
    if plot:
        plot_on_photos(result, plot)
        console.remark(f"plot: {plot}")
    return 0


def shapes(
    steps: Steps = 500,
    only: Annotated[
        Sequence[str],
        Option(metavar="A,B", help="only these shapes", show_default="all"),
    ] = (),
    plot: Annotated[
        Path | None,
        Option(metavar="FILE", help="draw accuracy against cost, as .png, .svg or .pdf"),
    ] = None,
    out: Out = RUNS,
    seeds: Seeds = 1,
    processes: Processes = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """The pair part's shape, accuracy beside cost, on photos."""
    from diptych_studies.plot_files import check_plot
    from diptych_studies.shapes import plot_shapes, shapes_text, study_shapes
    from diptych_training.data.archives import data_folder

    console = Console(as_json, quiet)
    if plot:
        check_plot(plot)
    result = study_shapes(
        out,
        data_folder(),
        steps=steps,
        seeds=seeds,
        only=tuple(only),
        processes=processes,
        finished=lambda name: console.remark(f"finished {name}"),
    )
    console.emit(result, shapes_text(result))
    if plot:
        plot_shapes(result, plot)
        console.remark(f"plot: {plot}")
    return 0


def marks(
    model: AnyModel = "photo",
    against: Against = None,
    only: Annotated[
        Sequence[str],
        Option(metavar="SET,SET", help="only these sets", show_default="all"),
    ] = (),
    candidates: Candidates = 100,
    out: Annotated[Path, Option("--out", "-o", metavar="DIR", help="where the sets are kept")] = Path("runs/marks"),
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """A model on the project's own validation sets, copies and things, in one table."""
    from diptych_studies.controls import open_part
    from diptych_studies.marks import marks_text, measure_marks
    from diptych_training.data.archives import data_folder
    from diptych_training.evaluation.stages import Entrants

    console = Console(as_json, quiet)

    @contextmanager
    def enter(question: str) -> Iterator[Entrants]:
        with ExitStack() as models:
            yield Entrants(
                models.enter_context(open_part(model, question)),
                {other: models.enter_context(open_part(other, question)) for other in against or ()},
                progress=lambda items, total, name: console.progress(items, total=total, desc=name),
            )

    result = measure_marks(
        out,
        data_folder(),
        model,
        enter,
        only=only,
        candidates=candidates,
        finished=lambda name: console.remark(f"finished {name}"),
    )
    console.emit(result, marks_text(result))
    return 0


def limits(
    model: AnyModel = "photo",
    plot: Annotated[Path | None, Option(metavar="FILE", help="draw the pairs with that beside them, as .png")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Drawn pairs that a model errs on, and its answers to them."""
    from diptych_runtime.runtime import Runtime
    from diptych_studies.limits import draw_examples, draw_limits, limits_text, study_limits
    from diptych_studies.plot_files import check_plot_path

    console = Console(as_json, quiet)
    if plot:
        check_plot_path(plot, [".png"])
    shown = draw_examples()
    result = study_limits(Runtime.open(model), shown)
    console.emit(result, limits_text(result))
    if plot:
        draw_limits(result, shown, plot)
        console.remark(f"plot: {plot}")
    return 0


def verification(
    save: Annotated[
        Path | None,
        Option(metavar="DIR", help="write what was fitted into this checkpoint or artifact"),
    ] = None,
    only: _Kinds = (),
    out: _KindsFolder = _KINDS_FOLDER,
    model: AnyModel = "photo",
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """The worth of a closer look at the pairs that a model takes for copies."""
    from diptych_studies.verification import (
        read_descriptions,
        save_verification,
        study_verification,
        verification_text,
    )

    console = Console(as_json, quiet)
    if save:
        read_descriptions(save)  # before an hour's work, not after it
    result = _measure_kinds(console, model, out, only, study_verification)
    if save:
        save_verification(result, save)
    console.emit(result, verification_text(result))
    return 0


def numbers(
    only: _Kinds = (),
    out: Annotated[Path, Option("--out", "-o", metavar="DIR", help="where the collections are kept")] = Path(
        "runs/numbers"
    ),
    model: AnyModel = "photo",
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """The numbers of a closer look that pay where they were not fitted."""
    from diptych_studies.kinds.numbers import numbers_text, study_numbers

    return _report_kinds(Console(as_json, quiet), model, out, only, study_numbers, numbers_text)


def calibration(
    plot: Annotated[
        Path | None, Option(metavar="FILE", help="draw reliability diagrams, as .png, .svg or .pdf")
    ] = None,
    only: _Kinds = (),
    out: _KindsFolder = _KINDS_FOLDER,
    model: AnyModel = "photo",
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """The calibration of probabilities on kinds of pictures that they were not fitted to."""
    from diptych_studies.kinds.calibration import calibration_text, draw_calibration, measure_calibration
    from diptych_studies.plot_files import check_plot

    console = Console(as_json, quiet)
    if plot:
        check_plot(plot)
    result = _measure_kinds(console, model, out, only, measure_calibration)
    if plot:
        draw_calibration(result, plot)
        console.remark(f"plot: {plot}")
    console.emit(result, calibration_text(result))
    return 0


def parts(
    only: _Kinds = (),
    out: _KindsFolder = _KINDS_FOLDER,
    model: AnyModel = "photo",
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """What each part of a model carries, switched off as it runs."""
    from diptych_runtime.models import find_checkpoint
    from diptych_studies.kinds.parts import measure_parts, parts_text

    return _report_kinds(
        Console(as_json, quiet), model, out, only, partial(measure_parts, find_checkpoint(model)), parts_text
    )


def duplicates(
    only: _Kinds = (),
    out: _KindsFolder = _KINDS_FOLDER,
    model: AnyModel = "photo",
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Duplicates proposed where nothing was planted, and where copies were."""
    from diptych_studies.kinds.duplicates import duplicates_text, measure_duplicates

    return _report_kinds(Console(as_json, quiet), model, out, only, measure_duplicates, duplicates_text)


def _report_kinds(
    console: Console,
    model: str,
    out: Path,
    only: Sequence[str],
    measure: Callable[..., dict[str, Any]],
    describe: Callable[[dict[str, Any]], str],
) -> int:
    """Measure a model on the collections of `planted`, and say what was found."""
    result = _measure_kinds(console, model, out, only, measure)
    console.emit(result, describe(result))
    return 0


def _measure_kinds(
    console: Console, model: str, out: Path, only: Sequence[str], measure: Callable[..., dict[str, Any]]
) -> dict[str, Any]:
    """Measure a model on the collections of `planted`, with a bar for each kind:
    `measure(runtime, directory, folder, kinds=..., begin=...)`.
    """
    from diptych_studies.kinds.planted import KINDS
    from diptych_training.data.archives import data_folder
    from diptych_training.evaluation.open_model import open_model

    with ExitStack() as stack:

        def begin(kind: str) -> Callable[[int], object]:
            return stack.enter_context(console.progress(unit="pair", desc=kind)).update

        runtime = stack.enter_context(open_model(model))
        return measure(runtime, out, data_folder(), kinds=only or KINDS, begin=begin)
