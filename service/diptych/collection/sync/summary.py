"""A run in words and as JSON."""

from __future__ import annotations

from typing import Any

from diptych.collection.sync.run import Outcome, excluded_text
from diptych.console import format_count, shorten_list

_NAMES = ("new", "changed", "moved", "removed")


def list_changes(outcome: Outcome) -> dict[str, list[dict[str, str]]]:
    """The changes of a run, one by one, with the id that `was` at a path; empty where a run was cut short."""
    plan = outcome.plan
    was = {path: id for id, path in plan.changed.items()}
    now = {path: id for id, path in (outcome.before | plan.moved | outcome.added).items()}
    return {
        "new": [{"id": id, "path": path} for id, path in outcome.added.items() if path not in was],
        "changed": [{"id": now.get(path, ""), "path": path, "was": id} for path, id in was.items()],
        "moved": [{"id": id, "from": outcome.before[id], "to": path} for id, path in plan.moved.items()],
        "removed": [{"id": id, "path": path} for id, path in plan.removed.items()],
        "unplaced": [{"id": id, "path": path} for id, path in plan.unplaced.items()],
        "returned": [{"id": id, "path": path} for id, path in outcome.added.items() if id in outcome.returned],
    }


def summary_data(outcome: Outcome, total: int) -> dict[str, Any]:
    """All of a run; `total` is how many pictures the collection has by then."""
    entries = {
        name: [{"path": path, "reason": reason} for path, reason in found.items()]
        for name, found in (("refused", outcome.refused), ("closed", outcome.closed))
    }
    return list_changes(outcome) | {
        "unchanged": outcome.plan.unchanged,
        "copies": outcome.copies,
        **entries,
        **outcome.omissions.data(),
        "objection": outcome.objection,
        "kept_metadata": outcome.kept,
        "keep_days": outcome.keep_days,
        "total": total,
    }


def has_changes(outcome: Outcome) -> bool:
    """True if the run changed the collection."""
    plan = outcome.plan
    return bool(outcome.added or plan.moved or plan.changed or plan.removed or plan.unplaced)


def summary_line(outcome: Outcome, total: int, *, would: bool = False) -> str:
    """The counts of a run."""
    found = list_changes(outcome)
    counts = ", ".join(f"{len(found[name]):,} {name}" for name in _NAMES)
    unplaced = f"{len(found['unplaced']):,} without a file, " if found["unplaced"] else ""
    excluded = outcome.excluded.intersection(outcome.plan.removed.values())
    removed = f" ({excluded_text(len(excluded))})" if excluded else ""
    copies = f" (and {format_count(outcome.copies, 'more file', 'more files')} of theirs)" if outcome.copies else ""
    kept = f"; the metadata of {outcome.kept:,} removed are kept for {outcome.keep_days:g} days" if outcome.kept else ""
    back = f"; {len(found['returned']):,} got back the metadata of before" if found["returned"] else ""
    return (
        f"{'would be: ' if would else ''}{counts}{removed}, {unplaced}{outcome.plan.unchanged:,} unchanged{copies}, "
        f"{len(outcome.refused):,} refused{kept}{back}; {format_count(total, 'picture')} in all"
    )


def summary_text(outcome: Outcome, total: int, *, would: bool = False) -> str:
    """The counts of a run, and the reasons of unreadable files; of a dry run also the planned changes."""
    found = list_changes(outcome) if would else {}
    acts = [f"  {name}: {_show_entry(entry)}" for name, entries in found.items() for entry in entries]
    reasons = [f"  {reason}" for reason in outcome.refused.values()]
    shut = [f"  {reason}; its pictures stay" for reason in outcome.closed.values()]
    objection = [f"it would be refused without --allow-removal: {outcome.objection}"] if outcome.objection else []
    found_lines = [*shorten_list(acts), *shorten_list(reasons), *shorten_list(shut), *outcome.omissions.lines()]
    return "\n".join([summary_line(outcome, total, would=would), *found_lines, *objection])


def _show_entry(entry: dict[str, str]) -> str:
    return f"{entry['from']} -> {entry['to']}" if "to" in entry else entry["path"]
