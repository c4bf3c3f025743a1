"""`diptych study`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Option

from diptych.command_tree import Json, Quiet, amount
from diptych.console import Console
from diptych_training.evaluation.cli import (
    KINDS_FOLDER,
    Against,
    AnyModel,
    Candidates,
    Kinds,
    KindsFolder,
    measure_kinds,
)

if TYPE_CHECKING:
    from diptych_training.evaluation.stages import Entrants

_RUNS = Path("runs/study")
_Out = Annotated[Path, Option("--out", "-o", metavar="DIR", help="where runs are kept")]
_Seeds = Annotated[int, Option("--seeds", metavar="N", help="runs of each variant")]
_Processes = Annotated[
    int | None,
    Option(
        "--processes",
        metavar="N",
        help="at a time, one thread each; 0: in this one",
        show_default="one a core",
    ),
]
_Steps = Annotated[int, Option("--steps", metavar="N", help="training steps of each run")]
_Episodes = Annotated[int, Option("--episodes", metavar="N", help="one-shot episodes of 20 trials")]
_Rates = Annotated[
    Sequence[float],
    Option(
        "--rates",
        parser=amount,
        metavar="R,R",
        help="learning rates; a variant stands with the one that cost it least in training",
        show_default="0.002",
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


def mixers(
    steps: _Steps = 450,
    episodes: _Episodes = 100,
    rates: _Rates = (2e-3,),
    only: _Variants = (),
    out: _Out = _RUNS,
    seeds: _Seeds = 3,
    processes: _Processes = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Every operator in MSAC's place, on Omniglot."""
    return _study_pairs("mixers", Console(as_json, quiet), steps, episodes, rates, only, out, seeds, processes)


def ablation(
    steps: _Steps = 450,
    episodes: _Episodes = 100,
    rates: _Rates = (2e-3,),
    only: _Variants = (),
    out: _Out = _RUNS,
    seeds: _Seeds = 3,
    processes: _Processes = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """MSAC's scales, H_R, segments, bias and seam, on Omniglot."""
    return _study_pairs("ablation", Console(as_json, quiet), steps, episodes, rates, only, out, seeds, processes)


def _study_pairs(
    subject: Literal["mixers", "ablation"],
    console: Console,
    steps: int,
    episodes: int,
    rates: Sequence[float],
    only: Sequence[str],
    out: Path,
    seeds: int,
    processes: int | None,
) -> int:
    from diptych_training.data.archives import data_folder
    from diptych_training.studies.pairs import study, study_text

    result = study(
        subject,
        out,
        data_folder(),
        steps=steps,
        rates=rates,
        seeds=seeds,
        episodes=episodes,
        only=only,
        processes=processes,
        finished=lambda name: console.remark(f"finished {name}"),
    )
    console.emit(result, study_text(result))
    return 0


def shapes(
    steps: _Steps = 500,
    only: Annotated[
        Sequence[str],
        Option(metavar="A,B", help="only these shapes", show_default="all"),
    ] = (),
    plot: Annotated[
        Path | None,
        Option(metavar="FILE", help="draw accuracy against cost, as .png, .svg or .pdf"),
    ] = None,
    out: _Out = _RUNS,
    seeds: _Seeds = 1,
    processes: _Processes = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """The pair part's shape, accuracy beside cost, on photos."""
    from diptych_training.benchmarks.plot import check_plot
    from diptych_training.data.archives import data_folder
    from diptych_training.studies.shapes import plot_shapes, shapes_text, study_shapes

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


def language(
    text: Annotated[
        Path | None,
        Option(metavar="FILE", help="a text or a folder", show_default="Python's docstrings"),
    ] = None,
    steps: _Steps = 1200,
    objective: Annotated[Literal["causal", "masked"], Option(help="what the model learns to tell")] = "causal",
    out: _Out = _RUNS,
    seeds: _Seeds = 3,
    processes: _Processes = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """MSAC's scales in a language model."""
    from diptych_training.studies.scales import language_text, study_language

    console = Console(as_json, quiet)
    result = study_language(
        out,
        text,
        steps=steps,
        seeds=seeds,
        objective=objective,
        processes=processes,
        finished=lambda name: console.remark(f"finished {name}"),
    )
    console.emit(result, language_text(result))
    return 0


def xcit(
    steps: _Steps = 600,
    out: _Out = _RUNS,
    seeds: _Seeds = 3,
    processes: _Processes = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """XCiT beside self-attention in XCA's place, on flowers.

    Beside it stands what both attentions cost as tokens grow in number.
    """
    from diptych_training.data.archives import data_folder
    from diptych_training.studies.xcit import study_xcit, xcit_text

    console = Console(as_json, quiet)
    result = study_xcit(
        out,
        data_folder(),
        steps=steps,
        seeds=seeds,
        processes=processes,
        finished=lambda name: console.remark(f"finished {name}"),
    )
    console.emit(result, xcit_text(result))
    return 0


def translation(
    steps: _Steps = 600,
    rate: Annotated[float, Option(metavar="R", help="learning rate")] = 5e-3,
    plot: Annotated[
        Path | None,
        Option(metavar="FILE", help="draw what each network looks at, as .png, .svg or .pdf"),
    ] = None,
    out: _Out = _RUNS,
    seeds: _Seeds = 3,
    processes: _Processes = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """A Transformer and recurrent networks with attention, on reversing and sorting."""
    from diptych_training.benchmarks.plot import check_plot
    from diptych_training.studies.translation import draw_alignments, study_translation, translation_text

    console = Console(as_json, quiet)
    if plot:
        check_plot(plot)
    rows = study_translation(
        out,
        steps=steps,
        rate=rate,
        seeds=seeds,
        processes=processes,
        finished=lambda name: console.remark(f"finished {name}"),
    )
    console.emit({"rows": rows}, translation_text(rows))
    if plot:
        draw_alignments(rows, plot)
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
    from diptych_training.data.archives import data_folder
    from diptych_training.evaluation.open_model import open_model
    from diptych_training.evaluation.stages import Entrants
    from diptych_training.studies.marks import marks_text, measure_marks

    console = Console(as_json, quiet)

    @contextmanager
    def enter(question: str) -> Iterator[Entrants]:
        with ExitStack() as models:
            yield Entrants(
                models.enter_context(open_model(model, question)),
                {other: models.enter_context(open_model(other, question)) for other in against or ()},
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
    from diptych_training.benchmarks.plot import check_plot_path
    from diptych_training.studies.limits import draw_limits, examples, limits_text, study_limits

    console = Console(as_json, quiet)
    if plot:
        check_plot_path(plot, [".png"])
    shown = examples()
    result = study_limits(Runtime.open(model), shown)
    console.emit(result, limits_text(result))
    if plot:
        draw_limits(result, shown, plot)
        console.remark(f"plot: {plot}")
    return 0


def verification(
    save: Annotated[
        Path | None,
        Option(metavar="CHECKPOINT", help="write what was fitted into this checkpoint"),
    ] = None,
    only: Kinds = (),
    out: KindsFolder = KINDS_FOLDER,
    model: AnyModel = "photo",
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """The worth of a closer look at the pairs that a model takes for copies."""
    from diptych_training.studies.verification import save_verification, study_verification, verification_text

    console = Console(as_json, quiet)
    result = measure_kinds(console, model, out, only, study_verification)
    if save:
        save_verification(result, save)
    console.emit(result, verification_text(result))
    return 0
