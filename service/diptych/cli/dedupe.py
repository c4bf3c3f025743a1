"""`diptych dedupe`: looks, says what it found, and acts only when told to."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from diptych.cli.outputs import check_output
from diptych.cli.resources import check_engine, open_scorer, open_workers
from diptych.collection.collection import Collection
from diptych.console import emit, one_line, open_text, progress, remark
from diptych.dedupe.actions import undo_log
from diptych.dedupe.actions.plan import Plan, carry_out, planned
from diptych.dedupe.actions.undo_log import Outcome
from diptych.dedupe.find import Duplicates, find_duplicates
from diptych.dedupe.keeper import checked_rules
from diptych.dedupe.pair_cache import LEDGER, PairCache
from diptych.dedupe.report import page, table
from diptych.dedupe.scan import PictureFile, Scan, listed, resolved, scan
from diptych.dedupe.workers import recover
from diptych.errors import DedupeError
from diptych.scoring.scorer import Scorer

_SHOWN = 20

Refused = list[dict[str, str]]


def run(args: argparse.Namespace) -> int:
    """Run `diptych dedupe`: 0 if all went well, 1 if a file could not be read, moved or put back."""
    if args.undo or args.empty:
        if args.folders:
            args.usage_error("--undo and --empty take a journal and no folder")
        return _revisit(args)
    if not args.folders:
        args.usage_error("name a folder of pictures, or a journal with --undo")
    _check(args)
    roots = resolved(args.folders)
    refused: Refused = []
    files = listed(roots, _into(refused))
    for path in filter(None, (args.output, args.report)):
        check_output(path, [*(file.path for file in files), *filter(None, [args.selection])])
    scorer = open_scorer(args)
    try:
        found, seen = _find(args, roots, files, scorer, refused)
        if args.output:
            table.write(args.output, found, refused, spreadsheet=args.spreadsheet)
        if args.report:
            total = len(page.page_data(found, roots)[1])
            with progress((), args, total=total, unit="picture", desc="report") as bar:
                page.write(args.report, found, roots, scorer, refused, bar.update)
    except KeyboardInterrupt:
        remark(args, "interrupted; what was done is kept, and the same command goes on from here")
        return 130
    data = table.summary(found, refused) | {"new": seen.new, "changed": seen.changed, "gone": seen.gone}
    lines = _found_text(found, seen, refused)
    lines += [f"{what}: {path}" for what, path in (("groups", args.output), ("report", args.report)) if path]
    code = 1 if refused else 0
    if args.move_to or args.delete:
        plan = planned(found.groups, roots, to=args.move_to, chosen=_selection(args))
        outcome = _act(args, plan, lines)
        data |= {"act": plan.act, "journal": str(plan.journal), "dry_run": args.dry_run, **asdict(outcome)}
        code = 1 if outcome.left else code
    elif found.groups:
        lines.append("nothing was moved or deleted; --move-to DIR or --delete does, and can be undone")
    emit(args, data, "\n".join(lines))
    return code


def _check(args: argparse.Namespace) -> None:
    """Refuse options that would only fail after the work is done."""
    check_engine(args)
    args.keep = checked_rules(args.keep)
    if args.dry_run and not (args.move_to or args.delete):
        args.usage_error("--dry-run says what --move-to or --delete would do; name one of them")
    if args.selection and not (args.move_to or args.delete):
        args.usage_error("--selection names what --move-to or --delete take; name one of them")
    if args.output and args.output.suffix.lower() not in (".csv", ".json"):
        args.usage_error(f"{args.output} ends in neither .csv nor .json")
    if args.spreadsheet and not (args.output and args.output.suffix.lower() == ".csv"):
        args.usage_error("--spreadsheet is about the .csv that --output names; name one")
    if args.report and args.report.suffix.lower() not in (".html", ".htm"):
        args.usage_error(f"{args.report} does not end in .html, and the report is a page")
    for path in (args.output, args.report):
        if path and not path.absolute().parent.is_dir():
            raise DedupeError(f"{path} cannot be written: {path.absolute().parent} is no folder; make it first")


def _find(
    args: argparse.Namespace, roots: Sequence[Path], files: Sequence[PictureFile], scorer: Scorer, refused: Refused
) -> tuple[Duplicates, Scan]:
    own = args.store is None
    store = store_of(roots, scorer) if own else args.store
    with (
        open_workers(args) as crew,
        Collection.open(store, scorer, create=True) as collection,
        PairCache(collection.directory / LEDGER, scorer.runtime.revision) as ledger,
    ):
        recover(collection, ledger)
        with progress((), args, total=len(files), unit="picture", desc="reading") as bar:
            seen = scan(roots, files, collection, ledger, refuse=_into(refused), tick=bar.update, crew=crew)
        resolved(roots)  # one that is gone by now would look as if it had become empty
        if not seen.pictures:
            raise DedupeError(f"none of the {len(files):,} pictures could be read: {refused[0]['reason']}")
        if own:
            _tidy(collection, {picture.id for picture in seen.pictures})
        with progress((), args, total=0, unit="pair", desc="comparing") as bar:

            def begin(missing: int, known: int) -> Callable[[int], object]:
                bar.total = missing
                return bar.update

            found = find_duplicates(
                collection,
                seen.pictures,
                threshold=args.threshold,
                keep=args.keep,
                candidates=args.candidates,
                ledger=ledger,
                on_pairs=begin,
                crew=crew,
                question=args.question,
            )
    return found, seen


def store_of(roots: Sequence[Path], scorer: Scorer) -> Path:
    """The folder of features and scores without `--store`: in the user's cache, by their digest."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    names = "\0".join(sorted(map(str, roots)))
    digest = hashlib.sha256(names.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return cache / "diptych" / "dedupe" / f"{digest}-{scorer.runtime.revision}"


def _tidy(collection: Collection, present: set[str]) -> None:
    """Let go of features that no file has any more, in a collection that is ours alone."""
    pages = collection.backend.pages(1000)
    old = [record.id for records in pages for record in records if record.id not in present]
    if old:
        collection.backend.remove(old)


def _act(args: argparse.Namespace, plan: Plan, lines: list[str]) -> Outcome:
    """List the files that go, then move them, unless it is a dry run."""
    verb = "moved" if plan.act == "move" else "put aside"
    size = sum(step.picture.bytes for step in plan.steps)
    preview = [
        f"{len(plan.steps):,} pictures, {size / 1e6:,.1f} MB, {'would be' if args.dry_run else 'are to be'} {verb}:",
        *_some([f"  {step.picture.path} -> {step.target} (kept: {step.keeper.path})" for step in plan.steps]),
    ]
    if args.dry_run:
        lines += preview
        return Outcome()
    if not plan.steps:
        lines.append("there is nothing to move")
        return Outcome()
    remark(args, "\n".join(preview))
    with progress((), args, total=len(plan.steps), unit="picture", desc="moving") as bar:
        try:
            outcome = carry_out(plan, bar.update)
        except KeyboardInterrupt:
            remark(args, f"interrupted; `diptych dedupe --undo {plan.journal}` puts back what was moved")
            raise
    lines += [f"{outcome.done:,} pictures {verb}", *_left(outcome)]
    lines.append(f"undo: diptych dedupe --undo {plan.journal}")
    if plan.act == "delete":
        lines.append(f"delete for good: diptych dedupe --empty {plan.journal}")
    return outcome


def _revisit(args: argparse.Namespace) -> int:
    """Run `--undo` or `--empty`."""
    path = args.undo or args.empty
    past = undo_log.read(path)
    with progress((), args, total=len(past.entries), unit="picture") as bar:
        outcome = (undo_log.undo if args.undo else undo_log.empty)(past, bar.update)
    done, already = ("put back", "were in place already") if args.undo else ("deleted for good", "were gone already")
    lines = [f"{outcome.done:,} pictures {done}, {outcome.already:,} {already}", *_left(outcome)]
    emit(args, {"journal": str(path), **asdict(outcome)}, "\n".join(lines))
    return 1 if outcome.left else 0


def _selection(args: argparse.Namespace) -> list[str] | None:
    """The paths of `--selection`, a line each, as absolute as groups have them."""
    if args.selection is None:
        return None
    try:
        with open_text(args.selection) as file:
            return [str(Path(_listed(line.rstrip("\r\n"))).absolute()) for line in file if line.strip()]
    except UnicodeDecodeError as error:
        raise DedupeError(f"the selection {args.selection} is not UTF-8 ({error}); save it as such") from None


def _listed(line: str) -> str:
    """The path in a line of a list: the line, or what it says as a JSON string, as the report writes unusual names."""
    if line.startswith('"') and line.endswith('"'):
        with suppress(ValueError):
            return json.loads(line)
    return line


def _found_text(found: Duplicates, seen: Scan, refused: Refused) -> list[str]:
    data = table.summary(found, refused)
    lines = [
        f"{data['pictures']:,} pictures; {seen.new:,} new, {seen.changed:,} changed and {seen.gone:,} gone",
        f"{data['pairs']:,} pairs looked at, {data['pairs_scored']:,} of them now; threshold {found.threshold:.5f}",
        f"{data['groups']:,} groups; {data['could_go']:,} pictures can be removed ({data['exact']:,} exact copies), "
        f"{data['bytes'] / 1e6:,.1f} MB",
    ]
    if found.alarm_rate is not None:
        lines.insert(2, f"of pictures without a copy {found.alarm_rate:.2g} are taken for one by chance")
    if refused:
        lines += [f"{len(refused):,} could not be read:", *_some([f"  {entry['reason']}" for entry in refused])]
    return lines


def _left(outcome: Outcome) -> list[str]:
    reasons = [f"  {entry['path']}: {entry['reason']}" for entry in outcome.left]
    return [f"{len(reasons):,} were left alone:", *_some(reasons)] if reasons else []


def _into(refused: Refused) -> Callable[[str, str], object]:
    def refuse(path: str, reason: str) -> None:
        refused.append({"path": path, "reason": reason if path in reason else f"{path}: {reason}"})

    return refuse


def _some(lines: list[str]) -> list[Any]:
    lines, more = list(map(one_line, lines)), len(lines) - _SHOWN
    return lines if more <= 0 else [*lines[:_SHOWN], f"  and {more:,} more (--json or -o lists all)"]
