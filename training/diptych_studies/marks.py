"""`diptych study marks`: a model on the project's own validation sets, one figure of each in a table."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from diptych.console import format_table
from diptych_runtime.atomic import replacing_file
from diptych_runtime.manifest import digest
from diptych_studies.mark_sets import MARKS, REFERENCES, Settings, Source, prepare_set
from diptych_training.errors import DataError
from diptych_training.evaluation.galleries import evaluate_copies, evaluate_retrieval, read_labelled, read_truth
from diptych_training.evaluation.stages import Entrants

CANDIDATES = 100

Enter = Callable[[str], AbstractContextManager[Entrants]]


def measure_marks(
    directory: Path,
    folder: Path,
    model: str,
    enter: Enter,
    *,
    only: Sequence[str] = (),
    settings: Settings | None = None,
    candidates: int = CANDIDATES,
    finished: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Prepare the sets (all of `MARKS`, or `only` these) in `directory/sets` from the archives in `folder`, and
    measure on each: first stage, re-ranked order, and the gain between them.

    `enter(question)` opens the model, called `model`, and those beside it for a set's question. What is measured so far
    is kept in `directory/marks.json`; with each set comes the command that measures it alone. Raises `DataError` where
    a set is unknown, or an archive lacks what a set is made of.
    """
    chosen, source, sets = known_marks(only), Source(folder, settings or Settings()), directory / "sets"
    ready = {name: prepare_set(name, source, sets) for name in chosen}
    result: dict[str, Any] = {"model": model, "candidates": candidates, "sets": {}}
    for question in dict.fromkeys(MARKS[name].question for name in chosen):
        with enter(question) as entrants:
            for name in (name for name in chosen if MARKS[name].question == question):
                result["sets"][name] = _measure_set(name, ready[name], model, entrants, candidates)
                with replacing_file(directory / "marks.json") as unfinished:
                    unfinished.write_text(json.dumps(result, indent=1) + "\n")
                if finished:
                    finished(name)
    return result


def known_marks(only: Sequence[str]) -> list[str]:
    """The sets of these names in the table's order, or all; `DataError` with a suggestion for an unknown name."""
    for name in only:
        if name not in MARKS:
            near = get_close_matches(name, MARKS, 1)
            raise DataError(
                f"there is no set {name!r}"
                + (f"; did you mean {near[0]!r}?" if near else f": sets are {', '.join(MARKS)}")
            )
    return [name for name in MARKS if not only or name in only]


def marks_text(result: Mapping[str, Any]) -> str:
    """The figures as a table; of a model laid beside ours, the gain is its own and the lead is ours over it."""
    against = any(row["against"] for row in result["sets"].values())
    head = ["set", "figure", *(["model"] if against else []), "first stage", "re-ranked", "gain (95 %)"]
    head += [*(["our lead (95 %)"] if against else []), "queries", "gallery"]
    lines = []
    for name, row in result["sets"].items():
        for entrant, figures in {result["model"]: row, **row["against"]}.items():
            cells = [name, row["figure"], *([entrant] if against else [])]
            cells += [f"{figures[stage]:.3f}" for stage in ("first_stage", "reranked")]
            cells += [_format_difference(figures["gain"])]
            cells += [_format_difference(figures.get("lead"))] if against else []
            lines.append([*cells, row["queries"], row["gallery"]])
    revisions = dict.fromkeys(row["revision"] for row in result["sets"].values())
    drawn = ", ".join(f"{name} {row['digest']}" for name, row in result["sets"].items())
    return f"{format_table(head, lines)}\nmodel {result['model']} {', '.join(revisions)}\nsets {drawn}"


def _measure_set(name: str, folder: Path, model: str, entrants: Entrants, candidates: int) -> dict[str, Any]:
    mark = MARKS[name]
    if mark.protocol == "copies":
        references, queries = folder.parent / REFERENCES, folder / "queries"
        truth = queries / "truth.csv"
        made_of = _digest_folders(folder, references)
        places = ["--references", references, "--queries", queries, "--truth", truth]
        evidence = evaluate_copies(entrants, references, queries, read_truth(truth), candidates=candidates)
    else:
        root, asked, stored = folder / "photos", folder / "queries.csv", folder / "gallery.csv"
        made_of = _digest_folders(folder)
        places = ["--queries", asked, "--gallery", stored, "--root", root]
        looked, held = read_labelled(asked, root), read_labelled(stored, root)
        evidence = evaluate_retrieval(entrants, looked, held, candidates=candidates)
    line = ["diptych", "evaluate", mark.protocol, *places, "--candidates", candidates]
    line += ["--question", mark.question, "--model", model]
    whole, figure = evidence.result, mark.figure
    return {
        "revision": evidence.revision,
        "digest": made_of,
        "question": mark.question,
        "figure": figure,
        "first_stage": whole["first_stage"][figure],
        "reranked": whole.get("reranked", whole)[figure],
        "gain": whole["gain"][figure],
        "queries": whole["queries"],
        "gallery": whole["references" if mark.protocol == "copies" else "gallery"],
        "against": {other: _compare_stages(theirs, figure) for other, theirs in whole["against"].items()},
        "command": shlex.join(map(str, line)),
        "measured": whole,
    }


def _digest_folders(*folders: Path) -> str:
    """12 hexadecimal digits of all files' names and bytes: figures of two sets are only comparable where they agree."""
    files = [(folder, path) for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    lines = [f"{path.relative_to(folder).as_posix()} {digest(path.read_bytes())}" for folder, path in files]
    return digest("\n".join(lines).encode())[:12]


def _compare_stages(theirs: Mapping[str, Any], figure: str) -> dict[str, Any]:
    """Compare another model's two stages with ours.

    The `lead` of ours is that over the better of them, with its interval.
    """
    first, reranked = (theirs[stage][figure] for stage in ("first_stage", "reranked"))
    return {"first_stage": first, "reranked": reranked, "gain": [reranked - first], "lead": theirs["gain"][figure]}


def _format_difference(values: Sequence[float] | None) -> str:
    if not values:
        return "-"
    reach = f" ({values[1]:+.3f} to {values[2]:+.3f})" if len(values) > 1 else ""
    return f"{values[0]:+.3f}{reach}"
