"""The plan of files to move, and its execution: only files unchanged since their scoring, only beside their keeper."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from diptych.dedupe.actions.hard_link import move_and_link
from diptych.dedupe.actions.move_file import ChangedError, alone_in, change_of, move_file
from diptych.dedupe.actions.past import LINKED, Entry, device_of, led_out
from diptych.dedupe.actions.undo_log import Outcome, UndoLog
from diptych.dedupe.companions import EDITED, Companions
from diptych.dedupe.duplicates import Group
from diptych.errors import DedupeError
from diptych.pictures.file_info import Picture
from diptych.pictures.walk import TRASH, place_in, real_path
from diptych_runtime.paths import shell_word


@dataclass(frozen=True)
class Step:
    """A file that is to go, as the journal will note it, the folder that it is searched in, and its bytes.

    A companion goes only after all of its `owners`.
    """

    entry: Entry
    root: Path
    bytes: int
    owners: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Plan:
    """The steps of an act, "move", "delete" or "hardlink", and the folders that it concerns.

    `unlinked` counts pictures that no link can take the place of. What is `staying` because of companions, or is a
    companion that cannot be read, has the reason.
    """

    act: str
    steps: list[Step]
    folders: list[Path]
    roots: list[Path]
    journal: Path
    references: list[Path] = field(default_factory=list)
    unlinked: int = 0
    staying: dict[str, str] = field(default_factory=dict)


def make_plan(
    groups: Sequence[Group],
    roots: Sequence[Path],
    *,
    to: Path | None,
    chosen: Sequence[str] | None = None,
    link: bool = False,
    references: Sequence[Path] = (),
) -> Plan:
    """Plan which files go to the folder `to`, or without it into a trash folder within their own; nothing is done yet.

    A picture goes for which another stands (`Member.replaced_by`), or that was `chosen` by path. Companions go with
    their pictures, and a picture of which one would be lost stays, unless it was chosen. With `link`, what goes are
    exact copies of a picture that stays outside of the references, a hard link to which will take the place of each;
    their companions stay.

    Raises DedupeError for a target inside one of the folders, and for a choice that is in no group, lies in one of the
    `references` or leaves nothing of a group.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    if to is None:
        tops = [_find_free_path(root / TRASH / stamp) for root in roots]
        folders = [root / TRASH for root in roots]
        if linked := next((folder for folder in folders if folder.is_symlink()), None):
            raise DedupeError(
                f"{linked} is a link, by which pictures would leave the album; remove it, or name a folder with "
                "--move-to"
            )
        journal = tops[0] / "journal.jsonl"
    else:
        to = apart_from(roots, to)
        folders = tops = [to] if len(roots) == 1 else _name_target_folders(to, roots)
        journal = _find_free_path(to / f"diptych-journal-{stamp}.jsonl")
    going = [(one.picture, one.replaced_by) for group in groups for one in group.others if one.replaced_by is not None]
    if chosen is not None:
        going = _list_chosen_moves(groups, chosen, references)
    unlinked, companions, staying = 0, Companions(), dict[str, str]()
    if link:
        suggested = {picture.path for picture, _ in going}
        going = _list_linkable_copies(groups, None if chosen is None else set(chosen))
        if references:  # in which another name of the file may lie, whatever it ends in
            going = [(one, kept) for one, kept in going if _names_of(kept) <= 1]
        unlinked = len(suggested - {picture.path for picture, _ in going})
    if chosen is None and not link:
        reasons = [(picture.path, companions.reason_to_stay(picture.path, keeper.path)) for picture, keeper in going]
        reasons += [(one.picture.path, one.kept_because) for group in groups for one in group.others if one.has_its_own]
        staying = {path: reason for path, reason in reasons if reason}
        going = [(picture, keeper) for picture, keeper in going if picture.path not in staying]
    steps = [_make_step(picture, keeper, roots, tops) for picture, keeper in going]
    if not link:
        steps, unread = _with_companions(steps, companions)
        staying |= unread
    for parent in {real_path(Path(step.entry.target).parent) for step in steps}:
        if inside := [reference for reference in references if parent.is_relative_to(reference)]:
            raise DedupeError(
                f"{parent} lies in {inside[0]}, a reference, where nothing is changed; choose another folder"
            )
    act = "move" if to else LINKED if link else "delete"
    return Plan(act, steps, folders, list(roots), journal, list(references), unlinked, staying)


def apart_from(roots: Sequence[Path], to: Path) -> Path:
    """The folder to move pictures to, absolute. Raises DedupeError where it is one of the searched ones, or in one."""
    to = to.resolve() if ".." in to.parts else to.absolute()
    for root in roots:
        if (place := place_in(root, real_path(to))) is not None:
            where = "is searched itself" if real_path(to) == place else f"lies in {place}, which is searched"
            raise DedupeError(f"{to} {where}: the next run would find the pictures there; choose a folder outside")
    return to


def carry_out(plan: Plan, tick: Callable[[], object] = lambda: None) -> Outcome:
    """Move the pictures, each noted in the journal before; those that changed since, or whose keeper did, stay.

    Raises DedupeError if the journal cannot be begun or go on, and while another run moves files there.
    """
    outcome = Outcome()
    with (
        alone_in([*plan.roots, *plan.references]),
        UndoLog.begin(
            plan.journal, plan.act, plan.folders, plan.roots, plan.references, _mounted_folders(plan)
        ) as journal,
    ):
        gone, beside = set[str](), dict[str, list[Step]]()
        for step in plan.steps:
            if step.owners:
                beside.setdefault(step.entry.belongs_to, []).append(step)
        for step in plan.steps:
            entry = step.entry
            if missing := sorted(step.owners - gone):
                reason = f"it belongs to {missing[0]}, which stays"
            else:
                reason = _reason_against(step)
            for companion in beside.get(entry.source, ()) if not reason else ():
                if reason := _reason_against(companion):
                    reason = f"{companion.entry.source}, which belongs to it, cannot go along: {reason}"
                    break
            if reason:
                outcome.leave(entry.source, reason)
            else:
                try:
                    journal.note(entry)
                except OSError as error:
                    raise DedupeError(
                        f"the journal {journal.path} cannot go on: {error.strerror}; {outcome.done:,} were moved, "
                        f"`diptych dedupe --undo {shell_word(journal.path)}` puts them back"
                    ) from None
                try:
                    source, target, keeper = Path(entry.source), Path(entry.target), Path(entry.keeper)
                    if plan.act == LINKED:
                        move_and_link(source, target, entry.id, keeper)
                    else:
                        move_file(source, target, entry.id, keeper=keeper)
                    outcome.count(entry)
                    gone.add(entry.source)
                except ChangedError as error:
                    outcome.leave(entry.source, str(error))
                except OSError as error:
                    outcome.leave(entry.source, f"it cannot be moved to {entry.target}: {error.strerror}")
            tick()
    return outcome


def _make_step(picture: Picture, keeper: Picture, roots: Sequence[Path], tops: Sequence[Path]) -> Step:
    """The step of a picture that goes from one of the folders to the place below the top that it has there."""
    root = roots[picture.root]
    target = tops[picture.root] / Path(picture.path).relative_to(root)
    return Step(Entry(picture.path, str(target), picture.id, keeper.path, keeper.id), root, picture.bytes)


def _with_companions(steps: Sequence[Step], companions: Companions) -> tuple[list[Step], dict[str, str]]:
    """The steps of pictures, each followed by those of its companions that no other picture needs.

    Beside them, the companions that cannot be read, and so stay, with the reasons. What was kept in the place of a
    companion is an equal one beside the picture that is kept, or else that picture.
    """
    going, before = {step.entry.source for step in steps}, set[str]()
    found, unread = list[Step](), dict[str, str]()
    for step in steps:
        found.append(step)
        before.add(step.entry.source)
        for companion in companions.find_for(step.entry.source):
            if companion.kind == EDITED or companion.path in going or not companion.owners <= before:
                continue
            try:
                id, size = companions.id_of(companion.path), os.lstat(companion.path).st_size
                equal = companions.equal_of(companion, step.entry.keeper)
            except OSError as error:
                unread[companion.path] = f"cannot be read: {error.strerror}"
                continue
            target = Path(step.entry.target).with_name(Path(companion.path).name)
            kept = (equal.path, id) if equal else (step.entry.keeper, step.entry.keeper_id)
            entry = Entry(companion.path, str(target), id, *kept, belongs_to=step.entry.source)
            found.append(Step(entry, step.root, size, companion.owners))
    return found, unread


def _mounted_folders(plan: Plan) -> list[Path]:
    """The folders of files that are on another disk than the folder that was searched."""
    parents = {(Path(step.entry.source).parent, step.root) for step in plan.steps}
    return sorted(parent for parent, root in parents if device_of(parent) != device_of(root))


def _reason_against(step: Step) -> str | None:
    """The reason why a step must not be done; None if there is none. The bytes of both files are read again."""
    entry = step.entry
    if reason := change_of(Path(entry.keeper), entry.keeper_id):
        return f"the one to keep, {entry.keeper}, {reason}"
    if reason := led_out(entry.source, step.root) or change_of(Path(entry.source), entry.id):
        return reason
    return f"there is a file at {entry.target} already" if os.path.lexists(entry.target) else None


def _list_linkable_copies(groups: Sequence[Group], chosen: set[str] | None) -> list[tuple[Picture, Picture]]:
    """The exact copies among the pictures that go, each with the first of its bytes that stays.

    None of those in references is such a one: a link would share what is changed in its place with them.
    """
    found = []
    for group in groups:
        stays: dict[str, Picture] = {}
        pictures = [one for one in (group.keeper, *(one.picture for one in group.others)) if not one.reference]
        if chosen is None:
            for picture in pictures:
                stays.setdefault(picture.id, picture)
        else:
            stays = {one.id: one for one in reversed(pictures) if one.path not in chosen}
        going = [one for one in pictures if chosen is None or one.path in chosen]
        found += [(one, stays[one.id]) for one in going if one.id in stays and one != stays[one.id]]
    return found


def _list_chosen_moves(
    groups: Sequence[Group], chosen: Sequence[str], references: Sequence[Path]
) -> list[tuple[Picture, Picture]]:
    for path in chosen:
        for reference in references:
            if Path(path).is_relative_to(reference):
                raise DedupeError(
                    f"{path} is listed and lies in the reference folder {reference}; nothing goes from it"
                )
    wanted, going = set(chosen), []
    for group in groups:
        pictures = [group.keeper, *(member.picture for member in group.others)]
        stay, gone = ([one for one in pictures if (one.path in wanted) is goes] for goes in (False, True))
        if not stay:
            raise DedupeError(
                f"all {len(gone)} pictures of the group of {group.keeper.path} are listed; leave one of them out"
            )
        same = {picture.id: picture for picture in reversed(stay)}  # the first of each content that stays
        going += [(picture, same.get(picture.id, stay[0])) for picture in gone]
    if unknown := sorted(wanted - {picture.path for picture, _ in going}):
        more = f", and {len(unknown) - 1:,} more that are listed" if len(unknown) > 1 else ""
        raise DedupeError(f"in no group of this run: {unknown[0]}{more}; list what is in a group")
    return going


def _names_of(picture: Picture) -> int:
    try:
        return os.lstat(picture.path).st_nlink
    except OSError:
        return 0


def _find_free_path(path: Path) -> Path:
    """The path, or the first numbered one like it at which there is nothing."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return free


def _name_target_folders(to: Path, roots: Sequence[Path]) -> list[Path]:
    """A folder below `to` for each root, by its name, with a number where that was taken."""
    tops: list[Path] = []
    for root in roots:
        name, number = root.name or "root", 1
        while to / name in tops:
            number += 1
            name = f"{root.name}-{number}"
        tops.append(to / name)
    return tops
