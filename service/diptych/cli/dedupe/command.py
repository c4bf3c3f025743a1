"""`diptych dedupe`: looks, says what it found, and acts only when told to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, BadParameter, Option

from diptych.cli.dedupe.action import (
    Action,
    Delete,
    DryRun,
    Empty,
    MoveTo,
    Selection,
    Undo,
    act_of,
    act_on,
    check_acting,
    check_one_of,
    revisit,
)
from diptych.cli.dedupe.text import NOTHING_MOVED, Refused, found_text, searched_text
from diptych.cli.options import (
    ClusterAddress,
    Engine,
    Provider,
    Question,
    StoredModel,
    Strict,
    Threads,
    check_engine,
    check_output,
    folder,
    model_of,
    open_scorer,
    open_workers,
    probability,
)
from diptych.command_tree import Json, Quiet, number
from diptych.console import Console, PairBars
from diptych.errors import DedupeError
from diptych_runtime.calibration.questions import COPY

if TYPE_CHECKING:
    from diptych.batch.workers.shared_folder import WorkerPool
    from diptych.dedupe.duplicates import Duplicates
    from diptych.dedupe.scan import PictureFile, Scan
    from diptych.scoring.scorer import Scorer


def _threshold(text: str) -> float | None:
    return None if text == "auto" else probability(text)


_Folders = Annotated[list[Path] | None, Argument(metavar="DIR", help="folders of pictures, searched through")]
_Threshold = Annotated[
    float | None,
    Option(
        parser=_threshold,
        metavar="auto|P",
        help="score from which two pictures match; auto: by the model's calibration and their number",
        show_default="auto",
    ),
]
_Keep = Annotated[
    Sequence[str],
    Option(
        metavar="RULES",
        help="which of a group to keep: rules in order, of unframed, resolution, format, exif, oldest, newest, "
        "largest, shortest and first-dir",
        show_default="unframed,resolution,format,exif,largest,oldest",
    ),
]
_Output = Annotated[Path | None, Option("-o", "--output", metavar="GROUPS", help="the groups as .csv or .json")]
_Spreadsheet = Annotated[
    bool, Option("--spreadsheet", help="in the .csv, put ' before names that would be taken for formulas")
]
_Report = Annotated[Path | None, Option(metavar="OUT.html", help="one page with the pictures side by side")]
_Store = Annotated[
    Path | None, Option(parser=folder, metavar="DIR", help="keep features and scores here, not in your cache")
]
_Reference = Annotated[
    list[Path] | None,
    Option(
        metavar="DIR",
        help="compare with the pictures there too, and never touch them; may be repeated",
    ),
]


def dedupe(
    folders: _Folders = None,
    reference: _Reference = None,
    threshold: _Threshold = None,
    candidates: Annotated[int, Option(parser=number(1), metavar="N", help="pictures each one is compared with")] = 20,
    keep: _Keep = ("unframed", "resolution", "format", "exif", "largest", "oldest"),
    output: _Output = None,
    spreadsheet: _Spreadsheet = False,
    report: _Report = None,
    store: _Store = None,
    question: Question = COPY,
    engine: Engine = "local",
    address: ClusterAddress = None,
    model: StoredModel = None,
    provider: Provider = "auto",
    threads: Threads = None,
    action: Action = None,
    move_to: MoveTo = None,
    delete: Delete = False,
    undo: Undo = None,
    empty: Empty = None,
    selection: Selection = None,
    dry_run: DryRun = False,
    strict: Strict = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Find groups of pictures that show the same photo.

    Exits with 1 if a folder cannot be listed or a file cannot be moved or put back, and with --strict if one is unread.
    """
    from diptych.dedupe.find import duplicates_among
    from diptych.dedupe.report import table
    from diptych.dedupe.scan import listed, searched

    console = Console(as_json, quiet)
    act = act_of(action, move_to, delete=delete)
    check_one_of({f"--action {act}": act, "--undo": undo, "--empty": empty})
    check_acting(selection, acting=act is not None, dry_run=dry_run)
    if undo or empty:
        return revisit(console, [*(folders or ()), *(reference or ())], undo, empty)
    if not folders:
        raise BadParameter("name a folder of pictures, or a journal with --undo")
    check_engine(engine, address)
    rules = _rules(keep)
    _check_outputs(output, report, spreadsheet=spreadsheet)
    places = roots, references = searched(folders, reference or (), to=move_to)
    refused: Refused = []
    files = listed(roots, _into(refused), references)
    _check_not_read([output, report], [*(file.path for file in files), selection])
    scorer = open_scorer(model := model_of(model, store), provider, threads, question=question)
    try:
        with open_workers(console, engine, address, model, provider, threads) as crew:
            find = partial(
                duplicates_among,
                threshold="auto" if threshold is None else threshold,
                keep=rules,
                candidates=candidates,
                question=question,
                crew=crew,
            )
            found, seen = _find(console, find, store, places, files, scorer, crew, refused)
        if output:
            table.write(output, found, refused, spreadsheet=spreadsheet)
        _write_report(console, report, found, [*roots, *references], scorer, refused)
    except KeyboardInterrupt:
        console.remark("interrupted; what was done is kept, and the same command goes on from here")
        return 130
    data = table.summary(found, refused) | {"new": seen.new, "changed": seen.changed, "gone": seen.gone}
    console.remark(searched_text(found, seen, refused))
    lines = found_text(found, refused, {"groups": output, "report": report})
    code = 1 if _failed(refused, strict=strict) else 0
    if act is not None:
        acted, left = act_on(console, act, found, places, lines, to=move_to, selection=selection, dry_run=dry_run)
        data, code = data | acted, 1 if left else code
    console.emit(data, "\n".join(lines))
    if act is None and found.groups:
        console.remark(NOTHING_MOVED)
    return code


def _failed(refused: Refused, *, strict: bool) -> bool:
    """True where pictures may have been missed without a word of each: a folder could not be listed."""
    return bool(refused) and (strict or any(Path(entry["path"]).is_dir() for entry in refused))


def _rules(keep: Sequence[str]) -> tuple[str, ...]:
    from diptych.dedupe.keeper import checked_rules

    try:
        return checked_rules(keep)
    except DedupeError as error:
        raise BadParameter(str(error), param_hint="--keep") from None


def _check_outputs(output: Path | None, report: Path | None, *, spreadsheet: bool) -> None:
    """Refuse options that would only fail after the work is done."""
    if output and output.suffix.lower() not in (".csv", ".json"):
        raise BadParameter(f"{output} ends in neither .csv nor .json")
    if spreadsheet and not (output and output.suffix.lower() == ".csv"):
        raise BadParameter("--spreadsheet is about the .csv that --output names; name one")
    if report and report.suffix.lower() not in (".html", ".htm"):
        raise BadParameter(f"{report} does not end in .html, and the report is a page")
    for path in (output, report):
        if path and not path.absolute().parent.is_dir():
            raise DedupeError(f"{path} cannot be written: {path.absolute().parent} is no folder; make it first")


def _find(
    console: Console,
    find: Callable[..., Duplicates],
    store: Path | None,
    folders: tuple[list[Path], list[Path]],
    files: Sequence[PictureFile],
    scorer: Scorer,
    crew: WorkerPool | None,
    refused: Refused,
) -> tuple[Duplicates, Scan]:
    """Read the files below the folders and the references into the collection, then `find(collection, pictures,
    ledger=..., on_pairs=...)`.
    """
    from diptych.dedupe.folders import check_read, forget_others, kept_features
    from diptych.dedupe.scan import resolved, scan

    roots, references = folders
    places = [*roots, *references]
    with kept_features(roots, scorer, store, references) as (collection, ledger):
        with console.progress(total=len(files), unit="picture", desc="reading") as bar:
            seen = scan(places, files, collection, ledger, refuse=_into(refused), tick=bar.update, crew=crew)
        resolved(places)  # one that is gone by now would look as if it had become empty
        check_read(files, seen.pictures, [entry["reason"] for entry in refused])
        if store is None:
            forget_others(collection, ledger, seen.pictures)
        with PairBars(console, "comparing") as bars:
            return find(collection, seen.pictures, ledger=ledger, on_pairs=bars.begin), seen


def _check_not_read(outputs: Iterable[Path | None], inputs: Iterable[str | Path | None]) -> None:
    read = [path for path in inputs if path]
    for output in filter(None, outputs):
        check_output(output, read)


def _write_report(
    console: Console, report: Path | None, found: Duplicates, roots: Sequence[Path], scorer: Scorer, refused: Refused
) -> None:
    from diptych.dedupe.report import page

    if report is None:
        return

    total = len(page.page_data(found, roots)[1])
    with console.progress(total=total, unit="picture", desc="report") as bar:
        page.write(report, found, roots, scorer, refused, bar.update)


def _into(refused: Refused) -> Callable[[str, str], object]:
    def refuse(path: str, reason: str) -> None:
        refused.append({"path": path, "reason": reason if path in reason else f"{path}: {reason}"})

    return refuse
