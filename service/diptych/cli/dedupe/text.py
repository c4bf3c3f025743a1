"""The words of `diptych dedupe` about the groups it found and the files it left alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diptych.console import byte_size, format_count, format_section, rounded_down, verdict_limits
from diptych_runtime.calibration.questions import THING

if TYPE_CHECKING:
    from diptych.dedupe.actions.undo_log import Outcome
    from diptych.dedupe.duplicates import Duplicates

NOTHING_MOVED = "nothing was moved or deleted; --move-to DIR, --delete or --action hardlink does, and can be undone"


class Refused(list[dict[str, str]]):
    """The files and folders that could not be read, each with its path and the reason."""

    def add(self, path: str, reason: str) -> None:
        """Take up one; its reason names it."""
        self.append({"path": path, "reason": reason if path in reason else f"{path}: {reason}"})


def searched_text(found: Duplicates, data: Mapping[str, Any]) -> str:
    """The remarks about the search, of which `data` is the summary: pictures, pairs, what its threshold comes to."""
    inside = f", {data['references']:,} of them in reference folders" if data["references"] else ""
    lines = [
        f"{format_count(data['pictures'], 'picture')}{inside}: {data['new']:,} new, {data['changed']:,} changed, "
        f"{data['gone']:,} gone",
        *_describe_comparison(found, data),
    ]
    if found.alarm_rate:
        false, pictures = found.alarm_rate * data["pictures"], format_count(data["pictures"], "picture")
        how_many = "fewer than 0.1" if false < 0.1 else f"about {false:,.1f}"
        lines.append(f"expect {how_many} of the {pictures} to have a false match")
    return "\n".join(lines)


def found_text(
    found: Duplicates, data: Mapping[str, Any], refused: Refused, written: Mapping[str, Path | None]
) -> list[str]:
    """The lines of the result, of which `data` is the summary: the groups, the files that could not be read, and those
    that were written.
    """
    exact = format_count(data["exact"], "exact copy", "exact copies")
    going = exact if found.method == "phash" else format_count(data["could_go"], "picture")
    lines = [
        f"{format_count(data['groups'], 'group')}; {going} can be removed"
        f"{'' if found.method == 'phash' else f' ({exact})'}, {byte_size(data['bytes'])}"
        f"{_to_look_at(found, data['to_look_at'])}",
    ]
    unread = format_count(len(refused), "file or folder", "files or folders")
    lines += format_section(f"{unread} could not be read:", (entry["reason"] for entry in refused))
    return [*lines, *(f"{name}: {path}" for name, path in written.items() if path)]


def _to_look_at(found: Duplicates, count: int) -> str:
    if not count:
        return ""
    more = format_count(count, "more picture")
    if found.method == "phash":
        return f"; {more} to be looked at, which only a hash takes for {'a copy' if count == 1 else 'copies'}"
    return f"; {more} left to you, which --report shows with the reasons"


def _describe_comparison(found: Duplicates, data: Mapping[str, Any]) -> list[str]:
    """Describe the comparison in lines for people."""
    if found.method == "network":
        near = sum(score < found.threshold for _, _, score in found.pairs)
        alike = "the same thing" if found.question == THING else "copies"
        return [
            f"{format_count(data['pairs'], 'pair')} scored, {data['pairs_scored']:,} of them now; those that score "
            f"{rounded_down(found.threshold)} or more are taken for {alike}",
            verdict_limits(found.verdicts),
            *([f"{format_count(near, 'more pair')} from {found.bound:.3f} on, which --report shows"] if near else []),
        ]
    lines = [
        f"compared by digest and perceptual hash, of which at most {found.max_distance} of 64 bits differ; no model "
        "looked at them: a match that is not exact is likely at most"
    ]
    if found.unhashed:
        lines.append(
            f"{format_count(found.unhashed, 'picture')} too plain to be hashed, of which only exact copies match"
        )
    return lines


def undone_text(outcome: Outcome) -> list[str]:
    """The lines about the files that were put back."""
    lines = [f"{with_companions(outcome.done, outcome.companions)} put back, {outcome.already:,} already in place"]
    if outcome.lost:
        count = format_count(len(outcome.lost), "file")
        reason = "deleted for good with --empty, or moved on or changed by hand (--json lists them)"
        lines.append(f"{count} cannot be put back: {reason}")
    return lines


def emptied_text(outcome: Outcome, *, dry_run: bool) -> list[str]:
    """The lines about the files that were deleted for good, or would be."""
    verb = "would be deleted" if dry_run else "deleted"
    lines = [
        f"{with_companions(outcome.done, outcome.companions)} {verb} for good, {outcome.already:,} already deleted"
    ]
    if outcome.restored:
        lines.append(f"{format_count(outcome.restored, 'file')} not deleted, as --undo has put them back")
    return lines


def with_companions(pictures: int, companions: int) -> str:
    """Counts of pictures and of the files that belong to them, in words."""
    more = f" and {format_count(companions, 'file that belongs', 'files that belong')} to them" if companions else ""
    return format_count(pictures, "picture") + more


def left_alone(outcome: Outcome) -> list[str]:
    """The lines about the files that were left alone, with the reasons."""
    reasons = [f"{entry['path']}: {entry['reason']}" for entry in outcome.left]
    return format_section(f"{format_count(len(reasons), 'file')} left alone:", reasons)
