"""The actions of `diptych dedupe`: their options, what they say, and what they undo."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import BadParameter, Option

from diptych.cli.dedupe.text import emptied_text, left_alone, undone_text, with_companions
from diptych.cli.options import check_one_of, named_folder
from diptych.console import Console, byte_size, format_count, format_section, open_text
from diptych.errors import DedupeError, OutputError
from diptych_runtime.parsing import parse_json
from diptych_runtime.paths import given_path, shell_word

if TYPE_CHECKING:
    from diptych.dedupe.actions.past import Entry
    from diptych.dedupe.actions.plan import Plan
    from diptych.dedupe.actions.undo_log import Outcome
    from diptych.dedupe.duplicates import Duplicates

Act = Literal["move", "hardlink", "delete"]


Action = Annotated[
    Act | None,
    Option(
        help="what happens to the pictures that can be removed: move (needs --move-to), hardlink (to the trash, and a "
        "hard link to the kept file in place of an exact copy) or delete (to the trash)",
    ),
]
MoveTo = Annotated[
    Path | None, Option(parser=named_folder, metavar="DIR", help="move the pictures that can be removed there")
]
Delete = Annotated[bool, Option("--delete", help="short for --action delete: to a trash folder, which --empty deletes")]
Undo = Annotated[
    Path | None,
    Option(
        metavar="JOURNAL",
        help="put back what a journal says was moved, into the folders DIR where it is of no run of yours",
    ),
]
Empty = Annotated[Path | None, Option(metavar="JOURNAL", help="delete for good what went to the trash")]
Selection = Annotated[
    str | None,
    Option(parser=given_path, metavar="LIST", help="a file that lists the paths to remove, as the report saves it"),
]
DryRun = Annotated[bool, Option("--dry-run", help="only list what would be moved or, with --empty, deleted")]


def act_of(action: Act | None, move_to: Path | None, *, delete: bool) -> Act | None:
    """The act that the options name together; one that says another than the rest is refused."""
    check_one_of({"--move-to": move_to, "--delete": delete})
    meant: Act | None = "move" if move_to else "delete" if delete else action
    if action not in (None, meant):
        raise BadParameter(f"{'--move-to' if move_to else '--delete'} contradicts --action {action}; name one of them")
    if action == "move" and not move_to:
        raise BadParameter("--action move needs a folder for the pictures; name it with --move-to DIR")
    return meant


def chosen_paths(selection: str | None, *, acting: bool, dry_run: bool) -> list[str] | None:
    """The paths of `--selection`, a line each, as absolute as groups have them; None without one.

    Raises BadParameter for options of an act where there is none, and DedupeError for a list that cannot be read.
    """
    if dry_run and not acting:
        raise BadParameter("--dry-run says what --move-to, --delete, --action or --empty would do; name one of them")
    if selection is None:
        return None
    from diptych_runtime.paths import existing_form

    if not acting:
        raise BadParameter("--selection names what --move-to, --delete or --action take; name one of them")
    try:
        with open_text(selection) as file:
            listed = [_parse_listed_path(line.rstrip("\r\n")) for line in file if line.strip()]
            return [existing_form(str(Path(path).absolute())) for path in listed]
    except UnicodeDecodeError as error:
        raise DedupeError(f"the selection {selection} is not UTF-8 ({error}); save it as such") from None
    except OSError as error:
        raise DedupeError(f"the selection {selection} cannot be read: {error.strerror}") from None


def check_outside(references: Sequence[Path], outputs: Mapping[str, Path | None]) -> None:
    """Raise OutputError for an output of these options that lies in a reference folder, also by a link or another
    mount.
    """
    from diptych.pictures.walk import places_in, real_path

    given = [(name, path) for name, path in outputs.items() if path]
    # A link may be written over, and what it leads to may be written.
    options = {place: name for name, path in given for place in (real_path(path.parent) / path.name, real_path(path))}
    for reference in references:
        for path, place in places_in(reference, options).items():
            raise OutputError(
                f"{options[path]} {path} lies in {place}, a reference, where nothing is written; name another place"
            )


def act_on(
    console: Console,
    act: Act,
    found: Duplicates,
    folders: tuple[list[Path], list[Path]],
    lines: list[str],
    *,
    to: Path | None,
    chosen: Sequence[str] | None,
    dry_run: bool,
) -> tuple[dict[str, Any], bool]:
    """Act on the groups of pictures below the folders and the references, of them on the `chosen` if some are.

    Returns the result as JSON values, and True if files were left alone; what people read is added to the `lines`.
    """
    from diptych.dedupe.actions.plan import make_plan

    roots, references = folders
    its_own = sum(one.has_its_own for group in found.groups for one in group.others)
    if chosen is None and (left := found.undecided - its_own):
        why = "only a hash takes for a copy" if found.method == "phash" else "may hold something that the others lack"
        lines.append(
            f"{format_count(left, 'picture')} left alone that {why}: look at the --report, and name those that go in a "
            "--selection"
        )
    plan = make_plan(found.groups, roots, to=to, chosen=chosen, link=act == "hardlink", references=references)
    outcome = _carry_out(console, plan, lines, dry_run=dry_run)
    data = {"act": plan.act, "journal": str(plan.journal), "dry_run": dry_run, **asdict(outcome)}
    data["staying"] = [{"path": path, "reason": reason} for path, reason in plan.staying.items()]
    if act == "hardlink":
        data["unlinked"] = plan.unlinked
    return data, bool(outcome.left)


def _carry_out(console: Console, plan: Plan, lines: list[str], *, dry_run: bool) -> Outcome:
    """List the files that go, then move them, unless it is a dry run."""
    from diptych.dedupe.actions.plan import carry_out
    from diptych.dedupe.actions.undo_log import Outcome

    verb = {"move": "moved", "delete": "put aside", "hardlink": "put aside and hard-linked"}[plan.act]
    if plan.unlinked:
        names = " outside of the references, and that under a single name" if plan.references else ""
        lines.append(
            f"{format_count(plan.unlinked, 'picture')} left alone: a hard link takes the place of an exact copy of a "
            f"file that stays{names}"
        )
    staying = [f"{path}: {reason}" for path, reason in plan.staying.items()]
    count = format_count(len(staying), "file")
    lines += format_section(f"{count} left alone, as a picture and what belongs to it stay together:", staying)
    if not plan.steps:
        lines.append("there is nothing to move")
        return Outcome()
    size = byte_size(sum(step.bytes for step in plan.steps))
    companions = sum(bool(step.owners) for step in plan.steps)
    count = with_companions(len(plan.steps) - companions, companions)
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
    lines.append(f"{with_companions(outcome.done, outcome.companions)} {verb}")
    lines += format_section(f"{count} went along that the kept pictures have no equal of:", unequal)
    lines += left_alone(outcome)
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


def revisit_journal(
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
        raise BadParameter("--dry-run says what --move-to, --delete, --action or --empty would do, and not what --undo")
    from diptych.dedupe.actions import undo_log

    path = undo or empty
    assert path is not None
    past = undo_log.read_journal(path, folders)
    with console.progress(total=len(past.entries), unit="file") as bar:
        if undo:
            outcome = undo_log.undo_moves(past, bar.update)
        else:
            outcome = undo_log.empty_trash(past, bar.update, dry_run=dry_run)
    lines = undone_text(outcome) if undo else emptied_text(outcome, dry_run=dry_run)
    if dry_run:
        staying = {entry["path"] for entry in outcome.left}
        going = [one.target for one in past.entries if one.target not in staying and os.path.lexists(one.target)]
        lines += format_section(f"{format_count(len(going), 'file')} would be deleted:", going)
    console.emit({"journal": str(path), "dry_run": dry_run, **asdict(outcome)}, "\n".join(lines + left_alone(outcome)))
    return 1 if outcome.left or outcome.lost else 0


def _parse_listed_path(line: str) -> str:
    """Parse the path in a line of a list: the line itself, or a JSON string.

    The report writes unusual names as JSON strings.
    """
    if line.startswith('"') and line.endswith('"'):
        with suppress(ValueError):
            return parse_json(line)
    return line
