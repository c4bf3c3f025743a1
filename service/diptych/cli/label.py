"""`diptych label` and `calibrate`: a person's answers about pairs, and a calibration of one's own from them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import BadParameter, Option

from diptych.cli import options
from diptych.command_tree import Json, Quiet, number
from diptych.console import Console, PairBars, escape_lines, format_count, open_text
from diptych.errors import StoreError
from diptych.store.sqlite.schema import is_collection
from diptych_runtime.calibration.questions import COPY
from diptych_runtime.paths import given_path

if TYPE_CHECKING:
    from diptych.dedupe.find import OnPairs
    from diptych.labelling.calibrate import Fitted
    from diptych.labelling.table import LabelledRow
    from diptych.scoring.scorer import Scorer


def label(
    store: options.StoreFolder,
    question: options.Question = COPY,
    count: Annotated[
        int | None,
        Option(parser=number(1), metavar="N", help="stop after this many answers", show_default="until you quit"),
    ] = None,
    export: Annotated[
        str | None, Option(parser=given_path, metavar="PAIRS.csv", help="write the labels, - to standard output")
    ] = None,
    taken: Annotated[
        str | None,
        Option(
            "--import", parser=given_path, metavar="PAIRS.csv", help="import labels from a table, - from standard input"
        ),
    ] = None,
    model: options.StoredModel = None,
    provider: options.Provider = "auto",
    threads: options.Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Label the pairs of a collection that teach most.

    Every answer is saved at once; the same command continues later. Pictures are opened only when you type o.
    """
    options.check_one_of({"--export": export, "--import": taken})
    console = Console(as_json, quiet)
    if export is not None:
        return _export_labels(console, store, export)
    if taken is not None:
        return _import_labels(console, store, taken, question)
    from typer import launch

    from diptych.collection.collection import Collection
    from diptych.dedupe.pair_cache import LEDGER, PairCache
    from diptych.labelling.terminal import Dialogue

    options.check_store(store)
    scorer = options.open_scorer(options.model_of(model, store), provider, threads, question=question)
    with (
        Collection.open(store, scorer) as collection,
        PairCache(collection.directory / LEDGER, scorer.runtime.scores_revision) as ledger,
    ):
        dialogue = Dialogue(
            collection,
            question,
            ask=_ask_person,
            say=_say_text,
            show=launch,
            ledger=ledger,
            choosing=partial(_show_choosing, console),
        )
        given, counts = dialogue.run(count), dialogue.describe_counts()
        answers = [one.answer for one in collection.labels(question)]
    by_answer = {answer.replace(" ", "_"): answers.count(answer) for answer in ("same", "different", "cannot tell")}
    console.emit({"given": given, "question": question, **by_answer}, counts)
    return 0


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
    plot: Annotated[Path | None, Option(metavar="OUT.svg", help="a reliability plot")] = None,
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
        others = {"--labels": labels, "-o": output, "--plot": plot, "--force": force}
        return _remove_calibration(Console(as_json, quiet), store, others)
    from diptych.errors import NotBetterError
    from diptych.labelling.chart import reliability_svg
    from diptych.labelling.table import read_labels
    from diptych.labelling.terminal import calibration_json, calibration_text
    from diptych_runtime.atomic import write_atomic
    from diptych_runtime.models import full_name

    target = _check_target(labels, store, output, plot)
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
    if plot is not None:
        write_atomic(plot, reliability_svg(fitted.questions).encode())
    written = "no calibration written" if refusal else f"written: {target}"
    lines = [calibration_text(fitted), written, *([f"drawn: {plot}"] if plot else [])]
    data = {"calibration": None if refusal else str(target), "plot": plot and str(plot), **calibration_json(fitted)}
    console.emit(data, "\n".join(lines))
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


def _check_target(labels: str | None, store: Path, output: Path | None, plot: Path | None) -> Path:
    """The file of the calibration. Raises StoreError where it, or its labels, would be those of a collection that is
    not there.
    """
    from diptych_runtime.own_calibration import CALIBRATION

    if output is not None and output.suffix != ".json":
        raise BadParameter(f"-o must end in .json, so that it can be named as a model; got {output}")
    if (labels is None or output is None) and not is_collection(store):
        way = "name a file for the calibration with -o" if labels else "name a table of labels with --labels"
        raise StoreError(f"{store} holds no collection; name one with --store, or {way}")
    for path in filter(None, (output, plot)):
        options.check_output(path, [labels] if labels else [])
    target = output or store / CALIBRATION
    if plot is not None and plot.resolve() == target.resolve():
        raise BadParameter(f"--plot and the calibration are both {target}; give them names of their own")
    return target


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


@contextmanager
def _show_choosing(console: Console) -> Iterator[OnPairs]:
    """Show bars while pairs are chosen, gone before the first question."""
    with PairBars(console, "choosing pairs", leave=False) as bars:
        yield bars.begin


def _ask_person(prompt: str) -> str:
    print(prompt, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        print(file=sys.stderr)
        raise EOFError
    return line


def _say_text(text: str) -> None:
    print(escape_lines(text), file=sys.stderr)
