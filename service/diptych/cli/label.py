"""`diptych label` and `calibrate`: tables of people's answers about pairs, and a calibration of one's own from them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import BadParameter, Option

from diptych.cli import options
from diptych.command_tree import Json, Quiet
from diptych.console import Console, format_count, open_text
from diptych.errors import StoreError
from diptych.store.sqlite.schema import is_collection
from diptych_runtime.calibration.questions import COPY
from diptych_runtime.paths import given_path

if TYPE_CHECKING:
    from diptych.labelling.calibrate import Fitted, FittedQuestion
    from diptych.labelling.table import LabelledRow
    from diptych.scoring.scorer import Scorer


def label(
    store: options.StoreFolder,
    export: Annotated[
        str | None, Option(parser=given_path, metavar="PAIRS.csv", help="write the labels, - to standard output")
    ] = None,
    taken: Annotated[
        str | None,
        Option(
            "--import", parser=given_path, metavar="PAIRS.csv", help="import labels from a table, - from standard input"
        ),
    ] = None,
    question: options.Question = COPY,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Write the labels of a collection to a table, or import some.

    People answer on the page of `diptych serve`, in its view Label. `--question` is that of rows without one.
    """
    options.check_one_of({"--export": export, "--import": taken})
    console = Console(as_json, quiet)
    if export is not None:
        return _export_labels(console, store, export)
    if taken is not None:
        return _import_labels(console, store, taken, question)
    raise BadParameter("name a table with --export or --import; to answer, open the view Label of `diptych serve`")


def calibrate(
    store: options.StoreFolder,
    labels: Annotated[
        str | None,
        Option(
            parser=given_path,
            metavar="PAIRS.csv",
            help="a table of labelled pairs",
            show_default="the labels of the collection",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        Option("-o", "--output", metavar="OWN.json", help="the calibration", show_default="in the collection, for it"),
    ] = None,
    force: Annotated[
        bool, Option("--force", help="calibrate even where the labels do not show that it beats the model's own")
    ] = False,
    remove: Annotated[
        bool, Option("--remove", help="remove the calibration of the collection: the model is as released again")
    ] = False,
    question: options.Question = COPY,
    model: options.StoredModel = None,
    provider: options.Provider = "auto",
    threads: options.Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Fit probabilities and verdicts to your own labels.

    The model itself stays as it is. `--question` is that of the rows of a table without one. Exits with 1, and writes
    no calibration, if the labels do not show that it is better than the one that the model has.
    """
    if remove:
        others = {"--labels": labels, "-o": output, "--force": force}
        return _remove_calibration(Console(as_json, quiet), store, others)
    from diptych.errors import NotBetterError
    from diptych.labelling.table import read_labels
    from diptych_runtime.models import full_name

    target = _check_target(labels, store, output)
    console = Console(as_json, quiet)
    rows = None
    if labels is not None:
        with open_text(labels, newline="") as stream:
            rows = list(read_labels(stream, labels, question))
    model = options.model_of(model, store)
    scorer = options.open_scorer(model, provider, threads)
    # A bundled model is named as it is, an artifact by its absolute path.
    named = full_name(model) if scorer.runtime.own is None else scorer.runtime.own.model
    refusal = None
    try:
        fitted = _fit_calibration(scorer, rows, store, named, force=force)
        fitted.calibration.save(target)
    except NotBetterError as error:
        fitted, refusal = error.fitted, error
    if "labels" in scorer.runtime.released.metrics:
        console.remark(
            "this model was fine-tuned on labels: where they are among these, the calibration looks better than it is"
        )
    written = "no calibration written" if refusal else f"written: {target}"
    data = {"calibration": None if refusal else str(target), **_calibration_data(fitted)}
    console.emit(data, f"{_calibration_text(fitted)}\n{written}")
    if refusal is not None:
        if target.exists():
            console.remark(f"{target} stays as it is")
        if console.json:  # which has said so
            return 1
        raise refusal
    in_use = "commands use it from now on, and a running service once it starts again"
    console.remark(in_use if output is None else f"use it wherever a model is named: --model {target}")
    return 0


def _remove_calibration(console: Console, store: Path, others: Mapping[str, object]) -> int:
    """Remove the calibration of a collection."""
    from diptych_runtime.own_calibration import remove_calibration

    if named := [name for name, given in others.items() if given]:
        raise BadParameter(f"--remove removes a calibration, and {named[0]} is for a new one; leave one of them out")
    options.check_store(store)
    removed = remove_calibration(store)
    done = "its calibration is removed" if removed else "it has no calibration of its own"
    console.emit({"store": str(store), "removed": removed}, f"{store}: {done}; the model is as released")
    if removed:
        console.remark("commands open it so from now on, and a running service once it starts again")
    return 0


def _check_target(labels: str | None, store: Path, output: Path | None) -> Path:
    """The file of the calibration. Raises StoreError where a collection that it needs is not there."""
    from diptych_runtime.own_calibration import CALIBRATION

    if output is not None and output.suffix != ".json":
        raise BadParameter(f"-o must end in .json, so that it can be named as a model; got {output}")
    if (labels is None or output is None) and not is_collection(store):
        way = "name a file for the calibration with -o" if labels else "name a table of labels with --labels"
        raise StoreError(f"{store} holds no collection; name one with --store, or {way}")
    if output is not None:
        options.check_output(output, [labels] if labels else [])
    return output or store / CALIBRATION


def _fit_calibration(scorer: Scorer, rows: list[LabelledRow] | None, store: Path, model: str, *, force: bool) -> Fitted:
    from diptych.collection.collection import Collection
    from diptych.labelling.calibrate import calibrate_collection, calibrate_files

    if rows is not None:
        return calibrate_files(scorer, rows, model=model, force=force)
    with Collection.open(store, scorer.with_calibration(None), read_only=True) as collection:
        return calibrate_collection(collection, model=model, force=force)


def _export_labels(console: Console, store: Path, target: str) -> int:
    from diptych.labelling.table import write_labels
    from diptych.store.sqlite.backend import SqliteBackend
    from diptych_runtime.atomic import replacing_file

    if target != "-":
        options.check_output(target)
    with SqliteBackend.open(store, read_only=True) as backend:
        found = backend.labels()
    if target == "-":
        write_labels(found, sys.stdout)
        return 0
    with replacing_file(Path(target)) as unfinished, unfinished.open("w", encoding="utf-8", newline="") as stream:
        write_labels(found, stream)
    console.emit({"labels": len(found), "table": target}, f"{target}: {format_count(len(found), 'label')}")
    return 0


def _import_labels(console: Console, store: Path, table: str, question: str) -> int:
    from diptych.labelling.table import import_labels, read_labels
    from diptych.store.sqlite.backend import SqliteBackend

    with SqliteBackend.open(store) as backend, open_text(table, newline="") as stream:
        new, known = import_labels(backend, read_labels(stream, table, question))
    console.emit({"new": new, "known": known}, f"{format_count(new, 'label')} imported, {known:,} already known")
    return 0


def _calibration_text(fitted: Fitted) -> str:
    """A calibration in words: the calibration error before and after, and the thresholds."""
    taken = fitted.calibration.questions
    parts = [_question_text(name, fit, taken=name in taken) for name, fit in fitted.questions.items()]
    parts += [f"{name}: as released, for it {reason}" for name, reason in fitted.left_out.items()]
    if fitted.cannot_tell:
        parts.append(f"left out: {format_count(fitted.cannot_tell, 'label')} with the answer cannot tell")
    return "\n".join(parts)


def _question_text(name: str, fit: FittedQuestion, *, taken: bool) -> str:
    own, (gain, low, high) = fit.own, fit.gain
    worth = "better" if fit.is_better else "worse" if high < 0 else "not told apart from the release by these labels"
    lines = [
        f"{name}: {format_count(own.same, 'label')} same, {own.different} different",
        f"  expected calibration error {fit.reliability_before.error:.3f} as released, "
        f"{fit.reliability_after.error:.3f} calibrated (cross-validated)",
        f"  log-loss of a pair changes by {-gain:+.3f} ({-high:+.3f} to {-low:+.3f}; less is better): {worth}",
    ]
    for verdict, level in fit.levels.items():
        lines.append(
            f"  {verdict} from {level.level:.4g}, which was {level.released:.4g} as released "
            f"({level.interval[0]:.4g} to {level.interval[1]:.4g})"
        )
    if not taken:
        lines.append("  stays as released")
    return "\n".join(lines)


def _calibration_data(fitted: Fitted) -> dict[str, Any]:
    """A calibration as JSON values."""
    return {
        "questions": {
            name: {
                "labels": {"same": fit.own.same, "different": fit.own.different},
                "scale": fit.own.scale,
                "offset": fit.own.offset,
                "ece": {"released": fit.reliability_before.error, "calibrated": fit.reliability_after.error},
                "gain": list(fit.gain),
                "better": fit.is_better,
                "calibrated": name in fitted.calibration.questions,
                "verdicts": {
                    verdict: {
                        "probability": level.level,
                        "released": level.released,
                        "interval": list(level.interval),
                    }
                    for verdict, level in fit.levels.items()
                },
            }
            for name, fit in fitted.questions.items()
        },
        "left_out": fitted.left_out,
        "cannot_tell": fitted.cannot_tell,
    }
