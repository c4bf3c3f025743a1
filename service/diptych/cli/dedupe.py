"""`diptych dedupe`: looks, says what it found, and acts only when told to."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from typer import Argument, BadParameter, Option

from diptych.cli import options
from diptych.command_tree import Json, Quiet, number
from diptych.console import Console, byte_size, format_count, format_section, open_text, rounded_down, verdict_limits
from diptych.errors import DedupeError, OutputError, StoreError
from diptych_runtime.calibration.questions import COPY, THING
from diptych_runtime.errors import ArgumentError
from diptych_runtime.parsing import parse_json
from diptych_runtime.paths import given_path, shell_word

if TYPE_CHECKING:
    from diptych.dedupe.actions.past import Entry
    from diptych.dedupe.actions.plan import Plan
    from diptych.dedupe.actions.undo_log import Outcome
    from diptych.dedupe.duplicates import Duplicates
    from diptych.dedupe.folders import FolderSearch
    from diptych.dedupe.labelled import IdPairs
    from diptych.dedupe.scan import Scan
    from diptych.pictures.walk import Omissions

Kind = Literal["move", "hardlink", "delete"]
_VERBS = {"move": "moved", "delete": "put aside", "hardlink": "put aside and hard-linked"}


def _parse_threshold(text: str) -> float | None:
    return None if text.lower() == "auto" else options.probability(text)


_Folders = Annotated[
    list[Path] | None,
    Argument(parser=options.named_folder, metavar="DIR", help="the folders of pictures that are searched"),
]
_Method = Annotated[
    Literal["network", "phash"],
    Option(
        help="how copies that are not exact are found: network, or phash, a quick pass by perceptual hash without a "
        "model",
    ),
]
_MaxDistance = Annotated[
    int | None,
    Option(
        "--max-distance",
        parser=number(0, 10),
        metavar="BITS",
        help="with --method phash: how many of the 64 bits of two hashes may differ, 10 at most",
        show_default="4",
    ),
]
_Threshold = Annotated[
    float | None,
    Option(
        parser=_parse_threshold,
        metavar="auto|P",
        help="score from which two pictures match; auto: by the scores of all, so that few of the matches are wrong",
        show_default="auto",
    ),
]
_Rule = Literal[
    "resolution", "with-exif", "format", "exif", "oldest", "newest", "largest", "shortest", "first-dir"
]  # fmt: skip
_Keep = Annotated[
    Sequence[_Rule],
    Option(
        metavar="RULES",
        help="which of a group to keep: rules in order, of resolution, with-exif, format, exif, "
        "oldest, newest, largest, shortest and first-dir",
        show_default="resolution,with-exif,format,exif,largest,oldest",
    ),
]
_SameOrientation = Annotated[
    bool, Option("--same-orientation", help="leave out copies that are mirrored, turned by a quarter or upside down")
]
_Output = Annotated[Path | None, Option("-o", "--output", metavar="GROUPS", help="the groups as .csv or .json")]
_Spreadsheet = Annotated[
    bool, Option("--spreadsheet", help="in the .csv, put ' before names that would be taken for formulas")
]
_Report = Annotated[Path | None, Option(metavar="OUT.html", help="one page with the pictures side by side")]
_Store = Annotated[
    Path | None,
    Option(parser=options.read_folder, metavar="DIR", help="keep features and scores here, not in your cache"),
]
_Reference = Annotated[
    list[Path] | None,
    Option(
        parser=options.named_folder,
        metavar="DIR",
        help="compare with the pictures there too, and never touch them; may be repeated",
    ),
]
_Action = Annotated[
    Kind | None,
    Option(
        help="what happens to the pictures that can be removed: move (needs --move-to), hardlink (to the trash, and a "
        "hard link to the kept file in place of an exact copy) or delete (to the trash)",
    ),
]
_MoveTo = Annotated[
    Path | None, Option(parser=options.named_folder, metavar="DIR", help="move the pictures that can be removed there")
]
_Delete = Annotated[
    bool, Option("--delete", help="short for --action delete: to a trash folder, which --empty deletes")
]
_Undo = Annotated[
    Path | None,
    Option(
        metavar="JOURNAL",
        help="put back what a journal says was moved, into the folders DIR where it is of no run of yours",
    ),
]
_Empty = Annotated[Path | None, Option(metavar="JOURNAL", help="delete for good what went to the trash")]
_Selection = Annotated[
    str | None,
    Option(parser=given_path, metavar="LIST", help="a file that lists the paths to remove, as the report saves it"),
]
_DryRun = Annotated[bool, Option("--dry-run", help="only list what would be moved or, with --empty, deleted")]


class _Act(NamedTuple):
    """An act: on the pictures that are `chosen` by path, or on those that can go."""

    kind: Kind
    to: Path | None
    chosen: list[str] | None
    dry_run: bool


class _Refused(list[dict[str, str]]):
    """The files and folders that could not be read, each with its path and the reason."""

    def add(self, path: str, reason: str) -> None:
        """Take up one; its reason names it."""
        self.append({"path": path, "reason": reason if path in reason else f"{path}: {reason}"})


def dedupe(
    folders: _Folders = None,
    reference: _Reference = None,
    exclude: options.Exclude = (),
    include_hidden: options.IncludeHidden = False,
    method: _Method = "network",
    max_distance: _MaxDistance = None,
    threshold: _Threshold = None,
    candidates: Annotated[int, Option(parser=number(1), metavar="N", help="pictures each one is compared with")] = 20,
    keep: _Keep = ("resolution", "with-exif", "format", "exif", "largest", "oldest"),
    same_orientation: _SameOrientation = False,
    output: _Output = None,
    spreadsheet: _Spreadsheet = False,
    report: _Report = None,
    store: _Store = None,
    question: options.Question = COPY,
    engine: options.Engine = "local",
    address: options.ClusterAddress = None,
    model: options.StoredModel = None,
    provider: options.Provider = "auto",
    threads: options.Threads = None,
    action: _Action = None,
    move_to: _MoveTo = None,
    delete: _Delete = False,
    undo: _Undo = None,
    empty: _Empty = None,
    selection: _Selection = None,
    dry_run: _DryRun = False,
    strict: options.Strict = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Find groups of pictures that show the same photo.

    Exits with 1 if a folder cannot be listed or a file cannot be moved or put back, and with --strict if one is unread.
    """
    console, kind = Console(as_json, quiet), _name_act(action, move_to, undo, empty, delete=delete)
    if undo or empty:
        return _revisit_journal(console, folders or [], reference or [], undo, empty, selection, dry_run=dry_run)
    act = _read_act(kind, move_to, selection, dry_run=dry_run)
    if not folders:
        raise BadParameter("name a folder of pictures, or a journal with --undo")
    from diptych.dedupe.folders import FolderSearch
    from diptych.dedupe.scan import list_picture_files, resolve_roots
    from diptych.pictures.walk import Omissions
    from diptych_runtime.folders import Exclusion

    given = {"threshold": threshold is not None, "candidates": candidates != 20, "question": question != COPY}
    given |= {"engine": engine != "local", "same_orientation": same_orientation}
    _check_options(method, max_distance, given, output, report, spreadsheet=spreadsheet)
    options.check_engine(engine, address)
    roots, references = resolve_roots(folders, reference or (), to=move_to)
    refused, omissions, exclusion = _Refused(), Omissions(), Exclusion(tuple(exclude), include_hidden)
    apart = _default_labels(console, store, question)
    try:
        files = list_picture_files(roots, refused.add, references, console.remark, exclusion, omissions)
        read = [*(file.path for file in files), *filter(None, [selection])]
        _check_outside(references, read, {"--output": output, "--report": report, "--store": store})
        search = FolderSearch(roots, references, files, store, tuple(keep), refused.add, console, apart)
        if method == "phash":
            found, seen = search.find_by_hash(max_distance, threads)
        else:
            named = options.model_of(model, store)
            scorer = options.open_scorer(named, provider, threads, question=question)
            with options.open_workers(console, engine, address, named, provider, threads) as workers:
                found, seen = search.find_by_network(
                    scorer, threshold or "auto", candidates, question, same_orientation, workers
                )
        _write_outputs(search, found, refused, output, report, threads, spreadsheet=spreadsheet)
        return _conclude_run(search, found, seen, refused, omissions, output, report, act, strict=strict)
    except KeyboardInterrupt as stop:
        console.remark(f"interrupted; {str(stop) or 'what was done is kept, and the same command goes on from here'}")
        return 130


def _name_act(
    action: Kind | None, move_to: Path | None, undo: Path | None, empty: Path | None, *, delete: bool
) -> Kind | None:
    """The act that the options name together; one that says another than the rest is refused."""
    options.check_one_of({"--move-to": move_to, "--delete": delete})
    meant: Kind | None = "move" if move_to else "delete" if delete else action
    if action not in (None, meant):
        raise BadParameter(f"{'--move-to' if move_to else '--delete'} contradicts --action {action}; name one of them")
    if action == "move" and not move_to:
        raise BadParameter("--action move needs a folder for the pictures; name it with --move-to DIR")
    options.check_one_of({f"--action {meant}": meant, "--undo": undo, "--empty": empty})
    return meant


def _read_act(kind: Kind | None, move_to: Path | None, selection: str | None, *, dry_run: bool) -> _Act | None:
    """The act with the paths of `--selection`, a line each, as absolute as groups have them; None without one.

    Raises BadParameter for options of an act where there is none, and DedupeError for a list that cannot be read.
    """
    if kind is None:
        if dry_run:
            raise BadParameter(
                "--dry-run says what --move-to, --delete, --action or --empty would do; name one of them"
            )
        if selection is not None:
            raise BadParameter("--selection names what --move-to, --delete or --action take; name one of them")
        return None
    if selection is None:
        return _Act(kind, move_to, None, dry_run)
    from diptych_runtime.paths import existing_form

    try:
        with open_text(selection) as file:
            listed = [_parse_listed_path(line.rstrip("\r\n")) for line in file if line.strip()]
    except UnicodeDecodeError as error:
        raise DedupeError(f"the selection {selection} is not UTF-8 ({error}); save it as such") from None
    except OSError as error:
        raise DedupeError(f"the selection {selection} cannot be read: {error.strerror}") from None
    return _Act(kind, move_to, [existing_form(str(Path(path).absolute())) for path in listed], dry_run)


def _parse_listed_path(line: str) -> str:
    """Parse a line of a list: a path, or a JSON string, as which the report writes an unusual one."""
    if line.startswith('"') and line.endswith('"'):
        with suppress(ValueError):
            return parse_json(line)
    return line


def _check_options(
    method: str,
    max_distance: int | None,
    given: Mapping[str, bool],
    output: Path | None,
    report: Path | None,
    *,
    spreadsheet: bool,
) -> None:
    """Refuse options that do not go together, or would only fail after the work is done."""
    from diptych.dedupe.folders import check_method

    try:
        check_method(method, max_distance, given)
    except ArgumentError as error:
        raise BadParameter(str(error)) from None
    if output and output.suffix.lower() not in (".csv", ".json"):
        raise BadParameter(f"{output} ends in neither .csv nor .json")
    if spreadsheet and not (output and output.suffix.lower() == ".csv"):
        raise BadParameter("--spreadsheet is about the .csv that --output names; name one")
    if report and report.suffix.lower() not in (".html", ".htm"):
        raise BadParameter(f"{report} does not end in .html, and the report is a page")
    for path in (output, report):
        if path and not path.absolute().parent.is_dir():
            raise DedupeError(f"{path} cannot be written: {path.absolute().parent} is no folder; make it first")


def _check_outside(references: Sequence[Path], read: Sequence[str], outputs: Mapping[str, Path | None]) -> None:
    """Raise OutputError for an output of these options that lies in a reference folder, also by a link or another
    mount, or is a file that is `read`.
    """
    from diptych.pictures.walk import places_in, real_path

    given = [(name, path) for name, path in outputs.items() if path]
    # A link may be written over, and what it leads to may be written.
    names = {place: name for name, path in given for place in (real_path(path.parent) / path.name, real_path(path))}
    for reference in references:
        for path, place in places_in(reference, names).items():
            raise OutputError(
                f"{names[path]} {path} lies in {place}, a reference, where nothing is written; name another place"
            )
    for name, path in given:
        if name != "--store":
            options.check_output(path, read)


def _default_labels(console: Console, store: Path | None, question: str) -> IdPairs:
    """The pairs that are labelled different in the default collection; none where a `store` is named."""
    from diptych.dedupe.labelled import NONE, different_pairs_in

    if store is not None:
        return NONE
    named = os.environ.get("DIPTYCH_STORE")
    where = options.read_location(named) if named else options.named_or_default(None, None)
    try:
        return different_pairs_in(where, question) if isinstance(where, Path) else NONE
    except StoreError as error:
        console.remark(f"labels of the default collection are left out: {error}")
        return NONE


def _write_outputs(
    search: FolderSearch,
    found: Duplicates,
    refused: _Refused,
    output: Path | None,
    report: Path | None,
    threads: int | None,
    *,
    spreadsheet: bool,
) -> None:
    """Write the groups and the report, if they are asked for."""
    from diptych.dedupe.report import page, table

    if output:
        table.write_table(output, found, refused, spreadsheet=spreadsheet)
    if report:
        page.write_page(report, found, search.places, refused, search.console, threads=threads)


def _conclude_run(
    search: FolderSearch,
    found: Duplicates,
    seen: Scan,
    refused: _Refused,
    omissions: Omissions,
    output: Path | None,
    report: Path | None,
    act: _Act | None,
    *,
    strict: bool,
) -> int:
    """Say what was found, act on it if that is asked for, and return the exit code."""
    from diptych.dedupe.report import table
    from diptych.pictures.file_info import damage_text
    from diptych.pictures.walk import is_folder

    console, data = search.console, table.document(found, refused) | omissions.data()
    data |= {"new": seen.new, "changed": seen.changed, "gone": seen.gone}
    console.remark("\n".join(search_lines(found, data)))
    if damaged := [picture.path for picture in found.pictures if picture.is_damaged]:
        console.remark(damage_text(damaged))
    lines = [_result_line(found, data)]
    unread = format_count(len(refused), "file or folder", "files or folders")
    lines += format_section(f"{unread} could not be read:", (entry["reason"] for entry in refused))
    lines += [f"{name}: {path}" for name, path in (("groups", output), ("report", report)) if path]
    lines += omissions.lines()
    # In a folder that could not be listed, pictures may have been missed without a word of each.
    failed = any(strict or is_folder(entry["path"]) for entry in refused)
    if act:
        acted = _act_on(search, act, found, lines)
        data, failed = data | acted, failed or bool(acted["left"])
    console.emit(data, "\n".join(lines))
    if found.groups and not act:
        console.remark(
            "nothing was moved or deleted; --move-to DIR, --delete or --action hardlink does, and can be undone"
        )
    return 1 if failed else 0


def search_lines(found: Duplicates, data: Mapping[str, Any]) -> list[str]:
    """The remarks about the search, of which `data` is the summary: pictures, pairs, what its threshold comes to."""
    inside = f", {data['references']:,} of them in reference folders" if data["references"] else ""
    lines = [
        f"{format_count(data['pictures'], 'picture')}{inside}: {data['new']:,} new, {data['changed']:,} changed, "
        f"{data['gone']:,} gone"
    ]
    if found.method == "phash":
        lines.append(
            f"compared by digest and perceptual hash, of which at most {found.max_distance} of 64 bits differ; no "
            "model looked at them: a match that is not exact is likely at most"
        )
        if found.unhashed:
            count = format_count(found.unhashed, "picture")
            lines.append(f"{count} too plain to be hashed, of which only exact copies match")
        return lines
    alike = "the same thing" if found.question == THING else "copies"
    lines += [
        f"{format_count(data['pairs'], 'pair')} scored, {data['pairs_scored']:,} of them now; those that score "
        f"{rounded_down(found.threshold)} or more are taken for {alike}",
        verdict_limits(found.verdicts),
    ]
    if near := sum(score < found.threshold for _, _, score in found.pairs):
        lines.append(f"{format_count(near, 'more pair')} from {found.bound:.3f} on, which --report shows")
    if found.alarm_rate:
        false, pictures = found.alarm_rate * data["pictures"], format_count(data["pictures"], "picture")
        how_many = "fewer than 0.1" if false < 0.1 else f"about {false:,.1f}"
        lines.append(f"expect {how_many} of the {pictures} to have a false match")
    return lines


def _result_line(found: Duplicates, data: Mapping[str, Any]) -> str:
    """The line about the groups, of which `data` is the summary: what can be removed, and what is to be looked at."""
    exact, left = format_count(data["exact"], "exact copy", "exact copies"), data["to_look_at"]
    groups, more = format_count(data["groups"], "group"), format_count(left, "more picture")
    if found.method == "phash":
        line = f"{groups}; {exact} can be removed, {byte_size(data['bytes'])}"
        taken = f"; {more} to be looked at, which only a hash takes for {'a copy' if left == 1 else 'copies'}"
    else:
        going = format_count(data["could_go"], "picture")
        line = f"{groups}; {going} can be removed ({exact}), {byte_size(data['bytes'])}"
        taken = f"; {more} left to you, which --report shows with the reasons"
    return line + taken if left else line


def _act_on(search: FolderSearch, act: _Act, found: Duplicates, lines: list[str]) -> dict[str, Any]:
    """Act on the groups that a search found; what people read is added to the `lines`.

    Returns the result as JSON values, of which `left` are the files left alone.
    """
    from diptych.dedupe.actions.plan import make_plan

    its_own = sum(one.has_its_own for group in found.groups for one in group.others)
    if act.chosen is None and (left := found.undecided - its_own):
        why = "only a hash takes for a copy" if found.method == "phash" else "may hold something that the others lack"
        lines.append(
            f"{format_count(left, 'picture')} left alone that {why}: look at the --report, and name those that go in a "
            "--selection"
        )
    plan = make_plan(
        found.groups,
        search.roots,
        to=act.to,
        chosen=act.chosen,
        link=act.kind == "hardlink",
        references=search.references,
    )
    outcome = _carry_out(search.console, plan, lines, dry_run=act.dry_run)
    data = {"act": plan.act, "journal": str(plan.journal), "dry_run": act.dry_run, **asdict(outcome)}
    data["staying"] = [{"path": path, "reason": reason} for path, reason in plan.staying.items()]
    if act.kind == "hardlink":
        data["unlinked"] = plan.unlinked
    return data


def _carry_out(console: Console, plan: Plan, lines: list[str], *, dry_run: bool) -> Outcome:
    """List the files that go, then move them, unless it is a dry run."""
    from diptych.dedupe.actions.plan import carry_out
    from diptych.dedupe.actions.undo_log import Outcome

    verb = _VERBS[plan.act]
    if plan.unlinked:
        names = " outside of the references, and that under a single name" if plan.references else ""
        lines.append(
            f"{format_count(plan.unlinked, 'picture')} left alone: a hard link takes the place of an exact copy of a "
            f"file that stays{names}"
        )
    count = format_count(len(plan.staying), "file")
    lines += format_section(
        f"{count} left alone, as a picture and what belongs to it stay together:",
        [f"{path}: {reason}" for path, reason in plan.staying.items()],
    )
    if not plan.steps:
        lines.append("there is nothing to move")
        return Outcome()
    size = byte_size(sum(step.bytes for step in plan.steps))
    companions = sum(bool(step.owners) for step in plan.steps)
    count = _count_files(len(plan.steps) - companions, companions)
    head = f"{count} ({size}) {'would be' if dry_run else 'to be'} {verb}:"
    preview = format_section(head, (_describe_move(step.entry) for step in plan.steps))
    if dry_run:
        lines += preview
        return Outcome()
    console.remark("\n".join([*preview, f"journal: {plan.journal}"]))
    undo = f"diptych dedupe --undo {shell_word(plan.journal)}"
    with console.progress(total=len(plan.steps), unit="file", desc="moving") as bar:
        try:
            outcome = carry_out(plan, bar.update)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"`{undo}` puts back what was moved") from None
    unequal = [
        step.entry.source
        for step in plan.steps
        if step.owners and step.entry.id != step.entry.keeper_id and not os.path.lexists(step.entry.source)
    ]
    count = format_count(len(unequal), "file")
    lines.append(f"{_count_files(outcome.done, outcome.companions)} {verb}")
    lines += format_section(f"{count} went along that the kept pictures have no equal of:", unequal)
    lines += _list_left(outcome)
    lines.append(f"undo: {undo}")
    if plan.act != "move":
        lines.append(f"delete for good: diptych dedupe --empty {shell_word(plan.journal)}")
    return outcome


def _describe_move(entry: Entry) -> str:
    """The line about a file that goes: its new place, and the file kept for it."""
    if not entry.belongs_to:
        return f"{entry.source} -> {entry.target} (kept: {entry.keeper})"
    lacking = "" if entry.id == entry.keeper_id else ", and the kept picture has none like it"
    return f"{entry.source} -> {entry.target} (belongs to {Path(entry.belongs_to).name}{lacking})"


def _revisit_journal(
    console: Console,
    folders: Sequence[Path],
    references: Sequence[Path],
    undo: Path | None,
    empty: Path | None,
    selection: str | None,
    *,
    dry_run: bool,
) -> int:
    """Carry out `--undo` or `--empty` with its journal, in the named folders if there are some."""
    if references or selection:
        raise BadParameter("--undo and --empty take a journal and folders, and no --reference or --selection")
    if undo and dry_run:
        raise BadParameter(
            "--dry-run says what --move-to, --delete, --action or --empty would do; --undo has no dry run"
        )
    from diptych.dedupe.actions import undo_log

    path = undo or empty
    assert path is not None
    past = undo_log.read_journal(path, folders)
    with console.progress(total=len(past.entries), unit="file") as bar:
        if undo:
            outcome = undo_log.undo_moves(past, bar.update)
        else:
            outcome = undo_log.empty_trash(past, bar.update, dry_run=dry_run)
    count = _count_files(outcome.done, outcome.companions)
    if undo:
        lines = [f"{count} put back, {outcome.already:,} already in place"]
        if outcome.lost:
            reason = "deleted for good with --empty, or moved on or changed by hand (--json lists them)"
            lines.append(f"{format_count(len(outcome.lost), 'file')} cannot be put back: {reason}")
    else:
        verb = "would be deleted" if dry_run else "deleted"
        lines = [f"{count} {verb} for good, {outcome.already:,} already deleted"]
        if outcome.restored:
            lines.append(f"{format_count(outcome.restored, 'file')} not deleted: back in their place, or never moved")
    if dry_run:
        staying = {entry["path"] for entry in outcome.left}
        going = [one.target for one in past.entries if one.target not in staying and os.path.lexists(one.target)]
        lines += format_section(f"{format_count(len(going), 'file')} would be deleted:", going)
    lines += _list_left(outcome)
    console.emit({"journal": str(path), "dry_run": dry_run, **asdict(outcome)}, "\n".join(lines))
    return 1 if outcome.left or outcome.lost else 0


def _count_files(pictures: int, companions: int) -> str:
    """Counts of pictures and of the files that belong to them, in words."""
    more = f" and {format_count(companions, 'file that belongs', 'files that belong')} to them" if companions else ""
    return format_count(pictures, "picture") + more


def _list_left(outcome: Outcome) -> list[str]:
    """The lines about the files that were left alone, with the reasons."""
    reasons = [f"{entry['path']}: {entry['reason']}" for entry in outcome.left]
    return format_section(f"{format_count(len(reasons), 'file')} left alone:", reasons)
