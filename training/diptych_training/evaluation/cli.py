"""`diptych evaluate`: one subcommand a protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from diptych.command_tree import Json, Quiet
from diptych.console import Console
from diptych_runtime.calibration.questions import COPY, THING, Asked
from diptych_runtime.paths import given_path

if TYPE_CHECKING:
    from diptych_training.evaluation.stages import Entrants, Evidence

AnyModel = Annotated[
    str, Option("--model", parser=given_path, metavar="NAME|DIR", help="a released model, an artifact or a checkpoint")
]
Against = Annotated[
    list[str] | None,
    Option("--against", parser=given_path, metavar="MODEL", help="lay this model beside it (repeatable)"),
]
Kinds = Annotated[
    Sequence[str],
    Option("--only", metavar="KIND,KIND", help="only these kinds of pictures", show_default="all"),
]
KindsFolder = Annotated[Path, Option("--out", "-o", metavar="DIR", help="where the pictures are kept")]
KINDS_FOLDER = Path("runs/verification")
Candidates = Annotated[int, Option("--candidates", metavar="K", help="candidates re-ranked")]

_Question = Annotated[Asked, Option("--question", help="what models with several questions are asked")]
_Control = Annotated[
    list[str] | None,
    Option(
        "--control",
        metavar="NAME",
        help="lay a classical method beside it: phash, histogram, pixels, sift, orb, mhd (repeatable)",
    ),
]
_Report = Annotated[Path | None, Option("--report", metavar="OUT.html", help="write a report with curves and pictures")]


def oneshot(
    runs: Annotated[Path, Argument(metavar="RUNS", help="a folder or zip archive with run01, run02, ...")],
    model: AnyModel = "photo",
    question: _Question = THING,
    against: Against = None,
    control: _Control = None,
    report: _Report = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """One-shot runs of characters, in Lake's layout."""
    from diptych_training.evaluation.trials import evaluate_oneshot, open_runs

    measurement = _Measurement("oneshot", model, question, against, control, report, Console(as_json, quiet))
    with open_runs(runs) as folder:
        return measurement.run(lambda entrants: evaluate_oneshot(entrants, folder))


def episodes(
    drawings: Annotated[Path, Argument(metavar="DIR", help="ALPHABET/CHARACTER/ID_DRAWER.png; or a zip")],
    split: Annotated[
        str | None, Option(metavar="NAME", help="the folder above the alphabets, where there are several")
    ] = None,
    episodes: Annotated[int, Option(metavar="N", help="how many")] = 500,
    ways: Annotated[int, Option(metavar="W", help="characters in each")] = 20,
    seed: Annotated[int, Option(metavar="N", help="another seed, other episodes")] = 0,
    model: AnyModel = "photo",
    question: _Question = THING,
    against: Against = None,
    control: _Control = None,
    report: _Report = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Random one-shot episodes within an alphabet."""
    from diptych_training.evaluation.trials import evaluate_episodes, open_drawings

    measurement = _Measurement("episodes", model, question, against, control, report, Console(as_json, quiet))
    with open_drawings(drawings, split) as folder:
        return measurement.run(
            lambda entrants: evaluate_episodes(entrants, folder, split=split, episodes=episodes, ways=ways, seed=seed)
        )


def retrieval(
    queries: Annotated[Path, Option(metavar="Q.csv", help="columns path, class")],
    gallery: Annotated[Path, Option(metavar="G.csv", help="columns path, class")],
    root: Annotated[Path, Option(metavar="DIR", help="the folder paths start from")],
    candidates: Candidates = 100,
    model: AnyModel = "photo",
    question: _Question = THING,
    against: Against = None,
    control: _Control = None,
    report: _Report = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Pictures of a class, searched in a gallery."""
    from diptych_training.evaluation.galleries import evaluate_retrieval, read_labelled

    measurement = _Measurement("retrieval", model, question, against, control, report, Console(as_json, quiet))
    asked, searched = (read_labelled(path, root) for path in (queries, gallery))
    return measurement.run(lambda entrants: evaluate_retrieval(entrants, asked, searched, root, candidates=candidates))


def copies(
    references: Annotated[Path, Option(metavar="DIR", help="the photos to search in")],
    queries: Annotated[Path, Option(metavar="DIR", help="the pictures to search for")],
    truth: Annotated[Path, Option(metavar="T.csv", help="columns query, reference")],
    no_baselines: Annotated[bool, Option("--no-baselines", help="leave out the control phash")] = False,
    candidates: Candidates = 100,
    model: AnyModel = "photo",
    question: _Question = COPY,
    against: Against = None,
    control: _Control = None,
    report: _Report = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Edited copies among the photos they were made from."""
    from diptych_training.evaluation.galleries import evaluate_copies, read_truth

    controls = control or []
    if not no_baselines and "phash" not in controls:
        controls = ["phash", *controls]
    measurement = _Measurement("copies", model, question, against, controls, report, Console(as_json, quiet))
    known = read_truth(truth)
    return measurement.run(
        lambda entrants: evaluate_copies(entrants, references, queries, known, candidates=candidates)
    )


def pairs(
    pairs: Annotated[Path, Argument(metavar="PAIRS.csv", help="columns image_a, image_b, label (1 or 0)")],
    root: Annotated[
        Path | None,
        Option(metavar="DIR", help="the folder paths start from", show_default="the CSV's"),
    ] = None,
    model: AnyModel = "photo",
    question: _Question = THING,
    against: Against = None,
    control: _Control = None,
    report: _Report = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Labelled pairs of pictures."""
    from diptych_training.evaluation.trials import evaluate_pairs, read_pairs

    measurement = _Measurement("pairs", model, question, against, control, report, Console(as_json, quiet))
    given = read_pairs(pairs, root or pairs.parent)
    return measurement.run(lambda entrants: evaluate_pairs(entrants, given))


def calibration(
    plot: Annotated[
        Path | None, Option(metavar="FILE", help="draw reliability diagrams, as .png, .svg or .pdf")
    ] = None,
    only: Kinds = (),
    out: KindsFolder = KINDS_FOLDER,
    model: AnyModel = "photo",
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """The calibration of probabilities on kinds of pictures that they were not fitted to."""
    from diptych_training.evaluation.kinds import calibration_text, draw_calibration, measure_calibration
    from diptych_training.plot_files import check_plot

    console = Console(as_json, quiet)
    if plot:
        check_plot(plot)
    result = measure_kinds(console, model, out, only, measure_calibration)
    if plot:
        draw_calibration(result, plot)
        console.remark(f"plot: {plot}")
    console.emit(result, calibration_text(result))
    return 0


def duplicates(
    only: Kinds = (),
    out: KindsFolder = KINDS_FOLDER,
    model: AnyModel = "photo",
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Duplicates proposed where nothing was planted, and where copies were."""
    from diptych_training.evaluation.kinds import duplicates_text, measure_duplicates

    console = Console(as_json, quiet)
    result = measure_kinds(console, model, out, only, measure_duplicates)
    console.emit(result, duplicates_text(result))
    return 0


def measure_kinds(
    console: Console, model: str, out: Path, only: Sequence[str], measure: Callable[..., dict[str, Any]]
) -> dict[str, Any]:
    """Measure a model on the collections of `planted`, with a bar for each kind:
    `measure(runtime, directory, folder, kinds=..., begin=...)`.
    """
    from diptych_training.data.archives import data_folder
    from diptych_training.data.planted import KINDS
    from diptych_training.evaluation.open_model import open_model

    with ExitStack() as stack:

        def begin(kind: str) -> Callable[[int], object]:
            return stack.enter_context(console.progress(unit="pair", desc=kind)).update

        runtime = stack.enter_context(open_model(model))
        return measure(runtime, out, data_folder(), kinds=only or KINDS, begin=begin)


@dataclass(frozen=True)
class _Measurement:
    """The model measured by a protocol, the methods beside it, and the report."""

    protocol: str
    model: str
    question: Asked
    against: Sequence[str] | None
    control: Sequence[str] | None
    report: Path | None
    console: Console

    def run(self, measure: Callable[[Entrants], Evidence]) -> int:
        """Open all who are measured, measure them, print the result and write the report."""
        from diptych_training.evaluation.figures import format_figures
        from diptych_training.evaluation.open_model import open_model
        from diptych_training.evaluation.stages import Entrants

        controls = self._controls()
        with ExitStack() as models:
            entrants = Entrants(
                models.enter_context(open_model(self.model, self.question)),
                {model: models.enter_context(open_model(model, self.question)) for model in self.against or ()},
                controls,
                lambda items, total, name: self.console.progress(items, total=total, desc=name),
            )
            evidence = measure(entrants)
            if self.report:
                from diptych_training.evaluation.report import write_report

                write_report(evidence, entrants.model, self.report)
                self.console.remark(f"report: {self.report}")
        title = f"{evidence.title}; model {evidence.model} {evidence.revision}"
        self.console.emit(evidence.result, f"{title}\n{format_figures(self.protocol, evidence.result)}")
        return 0

    def _controls(self) -> list:
        names = list(dict.fromkeys(self.control or ()))
        if not names:
            return []
        from diptych_training.evaluation.controls import make_control

        return [make_control(name) for name in names]
