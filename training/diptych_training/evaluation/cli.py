"""`diptych evaluate`: one subcommand a protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
Candidates = Annotated[int, Option("--candidates", metavar="K", help="candidates re-ranked")]

_Question = Annotated[Asked, Option("--question", help="what models with several questions are asked")]


def oneshot(
    runs: Annotated[Path, Argument(metavar="RUNS", help="a folder or zip archive with run01, run02, ...")],
    model: AnyModel = "photo",
    question: _Question = THING,
    against: Against = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """One-shot runs of characters, in Lake's layout."""
    from diptych_training.evaluation.trials import evaluate_oneshot, open_runs

    measurement = _Measurement(model, question, against, Console(as_json, quiet))
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
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Random one-shot episodes within an alphabet."""
    from diptych_training.evaluation.trials import evaluate_episodes, open_drawings

    measurement = _Measurement(model, question, against, Console(as_json, quiet))
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
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Pictures of a class, searched in a gallery."""
    from diptych_training.evaluation.galleries import evaluate_retrieval, read_labelled

    measurement = _Measurement(model, question, against, Console(as_json, quiet))
    asked, searched = (read_labelled(path, root) for path in (queries, gallery))
    return measurement.run(lambda entrants: evaluate_retrieval(entrants, asked, searched, candidates=candidates))


def copies(
    references: Annotated[Path, Option(metavar="DIR", help="the photos to search in")],
    queries: Annotated[Path, Option(metavar="DIR", help="the pictures to search for")],
    truth: Annotated[Path, Option(metavar="T.csv", help="columns query, reference")],
    candidates: Candidates = 100,
    model: AnyModel = "photo",
    question: _Question = COPY,
    against: Against = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Edited copies among the photos they were made from."""
    from diptych_training.evaluation.galleries import evaluate_copies, read_truth

    measurement = _Measurement(model, question, against, Console(as_json, quiet))
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
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Labelled pairs of pictures."""
    from diptych_training.evaluation.trials import evaluate_pairs, read_pairs

    measurement = _Measurement(model, question, against, Console(as_json, quiet))
    given = read_pairs(pairs, root or pairs.parent)
    return measurement.run(lambda entrants: evaluate_pairs(entrants, given))


@dataclass(frozen=True)
class _Measurement:
    """The model measured by a protocol, and the models beside it."""

    model: str
    question: Asked
    against: Sequence[str] | None
    console: Console

    def run(self, measure: Callable[[Entrants], Evidence]) -> int:
        """Open all who are measured, measure them, and print the result."""
        from diptych_training.evaluation.figures import format_figures
        from diptych_training.evaluation.open_model import open_model
        from diptych_training.evaluation.stages import Entrants

        with ExitStack() as models:
            entrants = Entrants(
                models.enter_context(open_model(self.model, self.question)),
                {model: models.enter_context(open_model(model, self.question)) for model in self.against or ()},
                lambda items, total, name: self.console.progress(items, total=total, desc=name),
            )
            evidence = measure(entrants)
        title = f"{evidence.title}; model {evidence.model} {evidence.revision}"
        self.console.emit(evidence.result, f"{title}\n{format_figures(evidence.protocol, evidence.result)}")
        return 0
