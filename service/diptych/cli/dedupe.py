"""`diptych dedupe`: looks, says what it found, and acts only when told to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, BadParameter, Option

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
from diptych.console import Console, byte_size, counted, one_line, open_text, percent
from diptych.errors import DedupeError
from diptych_runtime.calibration.questions import COPY

if TYPE_CHECKING:
    from diptych.batch.workers.shared_folder import WorkerPool
    from diptych.dedupe.actions.plan import Plan
    from diptych.dedupe.actions.undo_log import Outcome
    from diptych.dedupe.duplicates import Duplicates
    from diptych.dedupe.scan import PictureFile, Scan
    from diptych.scoring.scorer import Scorer

_SHOWN = 20

Refused = list[dict[str, str]]
Act = Literal["move", "hardlink", "delete"]


_ACTS = "actions (without one of these nothing is moved or deleted)"


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
        help="which of a group to keep: rules in order, of resolution, format, exif, oldest, newest, largest, "
        "shortest and first-dir",
        show_default="resolution,format,exif,largest,oldest",
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
_Action = Annotated[
    Act | None,
    Option(
        help="what happens to the pictures that can be removed: move (needs --move-to), hardlink (to the trash, and a "
        "hard link to the kept file in place of an exact copy) or delete (to the trash)",
        rich_help_panel=_ACTS,
    ),
]
_MoveTo = Annotated[
    Path | None,
    Option(metavar="DIR", help="move the pictures that can be removed there", rich_help_panel=_ACTS),
]
_Delete = Annotated[
    bool,
    Option(
        "--delete", help="short for --action delete: to a trash folder, which --empty deletes", rich_help_panel=_ACTS
    ),
]
_Undo = Annotated[
    Path | None,
    Option(metavar="JOURNAL", help="put back what a journal says was moved", rich_help_panel=_ACTS),
]
_Empty = Annotated[
    Path | None,
    Option(metavar="JOURNAL", help="delete for good what went to the trash", rich_help_panel=_ACTS),
]
_Selection = Annotated[
    str | None,
    Option(
        metavar="LIST",
        help="a file that lists the paths to remove, as the report saves it",
        rich_help_panel=_ACTS,
    ),
]
_DryRun = Annotated[
    bool, Option("--dry-run", help="list what would be moved where, and move nothing", rich_help_panel=_ACTS)
]


def dedupe(
    folders: _Folders = None,
    reference: _Reference = None,
    threshold: _Threshold = None,
    candidates: Annotated[int, Option(parser=number(1), metavar="N", help="pictures each one is compared with")] = 20,
    keep: _Keep = ("resolution", "format", "exif", "largest", "oldest"),
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
    action: _Action = None,
    move_to: _MoveTo = None,
    delete: _Delete = False,
    undo: _Undo = None,
    empty: _Empty = None,
    selection: _Selection = None,
    dry_run: _DryRun = False,
    strict: Strict = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Find groups of pictures that show the same photo.

    Exits with 1 if a folder cannot be listed or a file cannot be moved or put back, and with --strict if one is unread.
    """
    from diptych.dedupe.actions.plan import planned
    from diptych.dedupe.find import duplicates_among
    from diptych.dedupe.report import table
    from diptych.dedupe.scan import listed, searched

    console = Console(as_json, quiet)
    act = _act_of(action, move_to, delete=delete)
    _check_one_of({f"--action {act}": act, "--undo": undo, "--empty": empty})
    if undo or empty:
        return _revisit(console, [*(folders or ()), *(reference or ())], undo, empty)
    if not folders:
        raise BadParameter("name a folder of pictures, or a journal with --undo")
    check_engine(engine, address)
    rules = _rules(keep)
    _check_acting(selection, acting=act is not None, dry_run=dry_run)
    _check_outputs(output, report, spreadsheet=spreadsheet)
    roots, references = searched(folders, reference or (), to=move_to)
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
            found, seen = _find(console, find, store, (roots, references), files, scorer, crew, refused)
        if output:
            table.write(output, found, refused, spreadsheet=spreadsheet)
        _write_report(console, report, found, [*roots, *references], scorer, refused)
    except KeyboardInterrupt:
        console.remark("interrupted; what was done is kept, and the same command goes on from here")
        return 130
    data = table.summary(found, refused) | {"new": seen.new, "changed": seen.changed, "gone": seen.gone}
    lines = _found_text(found, seen, refused, {"groups": output, "report": report})
    code = 1 if _failed(refused, strict=strict) else 0
    if act is not None:
        chosen = _selection(selection)
        link = act == "hardlink"
        plan = planned(found.groups, roots, to=move_to, chosen=chosen, link=link, references=references)
        outcome = _act(console, plan, lines, dry_run=dry_run)
        data |= {"act": plan.act, "journal": str(plan.journal), "dry_run": dry_run, **asdict(outcome)}
        data |= {"unlinked": plan.unlinked} if link else {}
        code = 1 if outcome.left else code
    elif found.groups:
        lines.append(
            "nothing was moved or deleted; --move-to DIR, --delete or --action hardlink does, and can be undone"
        )
    console.emit(data, "\n".join(lines))
    return code


def _failed(refused: Refused, *, strict: bool) -> bool:
    """True where pictures may have been missed without a word of each: a folder could not be listed."""
    return bool(refused) and (strict or any(Path(entry["path"]).is_dir() for entry in refused))


def _act_of(action: Act | None, move_to: Path | None, *, delete: bool) -> Act | None:
    """The act that the options name together; one that says another than the rest is refused."""
    if move_to and delete:
        raise BadParameter("--move-to and --delete do not go together; name one of them")
    if delete and action not in (None, "delete"):
        raise BadParameter(
            f"--delete is short for --action delete, which --action {action} contradicts; name one of them"
        )
    if move_to and action not in (None, "move"):
        raise BadParameter(
            f"--move-to is for --action move, and --action {action} moves nothing there; name one of them"
        )
    if action == "move" and not move_to:
        raise BadParameter("--action move needs a folder for the pictures; name it with --move-to DIR")
    return "move" if move_to else "delete" if delete else action


def _check_one_of(acts: Mapping[str, object]) -> None:
    if len(named := [name for name, given in acts.items() if given]) > 1:
        raise BadParameter(f"{named[0]} and {named[1]} do not go together; name one of them")


def _rules(keep: Sequence[str]) -> tuple[str, ...]:
    from diptych.dedupe.keeper import checked_rules

    try:
        return checked_rules(keep)
    except DedupeError as error:
        raise BadParameter(str(error), param_hint="--keep") from None


def _check_acting(selection: str | None, *, acting: bool, dry_run: bool) -> None:
    if dry_run and not acting:
        raise BadParameter("--dry-run says what --move-to, --delete or --action would do; name one of them")
    if selection and not acting:
        raise BadParameter("--selection names what --move-to, --delete or --action take; name one of them")


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
        with console.progress(total=0, unit="pair", desc="comparing") as bar:

            def begin(missing: int, known: int) -> Callable[[int], object]:
                bar.total = missing
                return bar.update

            return find(collection, seen.pictures, ledger=ledger, on_pairs=begin), seen


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


def _act(console: Console, plan: Plan, lines: list[str], *, dry_run: bool) -> Outcome:
    """List the files that go, then move them, unless it is a dry run."""
    from diptych.dedupe.actions.plan import carry_out
    from diptych.dedupe.actions.undo_log import Outcome

    verb = {"move": "moved", "delete": "put aside", "hardlink": "put aside and hard-linked"}[plan.act]
    if plan.unlinked:
        lines.append(
            f"{counted(plan.unlinked, 'picture')} left alone, of which no exact copy stays outside of reference folders"
        )
    size = sum(step.picture.bytes for step in plan.steps)
    preview = [
        f"{counted(len(plan.steps), 'picture')} ({byte_size(size)}) {'would be' if dry_run else 'to be'} {verb}:",
        *_some([f"  {step.picture.path} -> {step.target} (kept: {step.keeper.path})" for step in plan.steps]),
    ]
    if dry_run:
        lines += preview
        return Outcome()
    if not plan.steps:
        lines.append("there is nothing to move")
        return Outcome()
    console.remark("\n".join(preview))
    with console.progress(total=len(plan.steps), unit="picture", desc="moving") as bar:
        try:
            outcome = carry_out(plan, bar.update)
        except KeyboardInterrupt:
            console.remark(f"interrupted; `diptych dedupe --undo {plan.journal}` puts back what was moved")
            raise
    lines += [f"{counted(outcome.done, 'picture')} {verb}", *_left(outcome)]
    lines.append(f"undo: diptych dedupe --undo {plan.journal}")
    if plan.act != "move":
        lines.append(f"delete for good: diptych dedupe --empty {plan.journal}")
    return outcome


def _revisit(console: Console, folders: Sequence[Path] | None, undo: Path | None, empty: Path | None) -> int:
    """Carry out `--undo` or `--empty` with its journal."""
    if folders:
        raise BadParameter("--undo and --empty take a journal and no folder")
    from diptych.dedupe.actions import undo_log

    path = undo or empty
    assert path is not None
    past = undo_log.read(path)
    with console.progress(total=len(past.entries), unit="picture") as bar:
        outcome = (undo_log.undo if undo else undo_log.empty)(past, bar.update)
    done, already = ("put back", "already in place") if undo else ("deleted for good", "already gone")
    lines = [f"{counted(outcome.done, 'picture')} {done}, {outcome.already:,} {already}", *_left(outcome)]
    console.emit({"journal": str(path), **asdict(outcome)}, "\n".join(lines))
    return 1 if outcome.left else 0


def _selection(selection: str | None) -> list[str] | None:
    """The paths of `--selection`, a line each, as absolute as groups have them."""
    if selection is None:
        return None
    try:
        with open_text(selection) as file:
            return [str(Path(_listed(line.rstrip("\r\n"))).absolute()) for line in file if line.strip()]
    except UnicodeDecodeError as error:
        raise DedupeError(f"the selection {selection} is not UTF-8 ({error}); save it as such") from None


def _listed(line: str) -> str:
    """The path in a line of a list: the line, or what it says as a JSON string, as the report writes unusual names."""
    if line.startswith('"') and line.endswith('"'):
        with suppress(ValueError):
            return json.loads(line)
    return line


def _found_text(found: Duplicates, seen: Scan, refused: Refused, written: Mapping[str, Path | None]) -> list[str]:
    from diptych.dedupe.report import table

    data = table.summary(found, refused)
    lines = [
        f"{counted(data['pictures'], 'picture')}{_in_references(data)}: {seen.new:,} new, {seen.changed:,} changed, "
        f"{seen.gone:,} gone",
        f"{counted(data['pairs'], 'pair')} scored, {data['pairs_scored']:,} of them now; copies have a score of "
        f"{found.threshold:.5f} or more",
        f"{counted(data['groups'], 'group')}; {counted(data['could_go'], 'picture')} can be removed "
        f"({counted(data['exact'], 'exact copy', 'exact copies')}), {byte_size(data['bytes'])}",
    ]
    if found.alarm_rate is not None:
        lines.insert(2, f"expect a false match for {percent(found.alarm_rate)} of the pictures that have no copy")
    if refused:
        lines.append(f"{counted(len(refused), 'file or folder', 'files or folders')} could not be read:")
        lines += _some([f"  {entry['reason']}" for entry in refused])
    return [*lines, *(f"{name}: {path}" for name, path in written.items() if path)]


def _in_references(data: Mapping[str, Any]) -> str:
    return f", {data['references']:,} of them in reference folders" if data["references"] else ""


def _left(outcome: Outcome) -> list[str]:
    reasons = [f"  {entry['path']}: {entry['reason']}" for entry in outcome.left]
    return [f"{counted(len(reasons), 'file')} left alone:", *_some(reasons)] if reasons else []


def _into(refused: Refused) -> Callable[[str, str], object]:
    def refuse(path: str, reason: str) -> None:
        refused.append({"path": path, "reason": reason if path in reason else f"{path}: {reason}"})

    return refuse


def _some(lines: list[str]) -> list[Any]:
    lines, more = list(map(one_line, lines)), len(lines) - _SHOWN
    return lines if more <= 0 else [*lines[:_SHOWN], f"  and {more:,} more (--json or -o lists all)"]
