"""The plan for the pictures of a collection: which stay, move, or go by their files, and whether so many may."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

LEAST = 20  # so many may always go


@dataclass(frozen=True)
class Plan:
    """Of the pictures that lay below the folders: `moved` gives the new path by id. Those whose file holds another
    picture now are `changed`, those whose file is gone or is no picture any more are `removed`, and `unplaced` are
    those of either that stay, as their bytes are kept, without a path; all give the old path.
    """

    unchanged: int = 0
    moved: dict[str, str] = field(default_factory=dict)
    changed: dict[str, str] = field(default_factory=dict)
    removed: dict[str, str] = field(default_factory=dict)
    unplaced: dict[str, str] = field(default_factory=dict)

    def spare(self, kept: Collection[str]) -> Plan:
        """The same, but those whose ids are `kept` stay without a path."""
        changed, removed = self.changed, self.removed
        return replace(
            self,
            changed={id: path for id, path in changed.items() if id not in kept},
            removed={id: path for id, path in removed.items() if id not in kept},
            unplaced={id: path for id, path in (changed | removed).items() if id in kept},
        )


def make_plan(
    before: Mapping[str, str],
    at: Mapping[str, str],
    may_hold: Callable[[str], bool],
    elsewhere: Callable[[str], str | None],
) -> Plan:
    """The plan for pictures, `before` as path by id, from the files that exist, `at` as id by path.

    A picture at a path that `may_hold` it stays. One that has no file left may have one `elsewhere`.
    """
    paths: dict[str, list[str]] = {}
    for path, id in at.items():
        paths.setdefault(id, []).append(path)
    plan, unchanged = Plan(), 0
    for id, path in before.items():
        if at.get(path) == id or may_hold(path):
            unchanged += 1
            continue
        target = min(paths[id]) if id in paths else elsewhere(id)
        if target is not None:
            plan.moved[id] = target
        elif path in at:
            plan.changed[id] = path
        else:
            plan.removed[id] = path
    return Plan(unchanged, plan.moved, plan.changed, plan.removed)


def find_going(plan: Plan, before: Mapping[str, str], at: Mapping[str, str]) -> dict[str, str]:
    """The pictures that would go, or lose their path, with none in their place, as path by id.

    A changed file has another picture, but that of many files may be the same: then it stands in for one of them.
    """
    lost = plan.changed | plan.removed | plan.unplaced
    replaced = {at[path]: id for id, path in lost.items() if path in at and before.get(at[path], path) == path}
    spared = set(replaced.values())
    return {id: path for id, path in lost.items() if id not in spared}


def find_objection(
    removed: Mapping[str, str], before: Mapping[str, str], there: Collection[str], roots: Sequence[str]
) -> str | None:
    """The reason why so many pictures may not go without consent: a disk that is not there looks like an empty folder.

    Pictures are paths by id; `there` are the paths of all files.
    """
    for scope in [*([root] for root in roots), list(roots)]:
        within = tuple(root.rstrip("/") + "/" for root in scope)
        gone, had = (sum(path.startswith(within) for path in pictures.values()) for pictures in (removed, before))
        names = ", ".join(scope)
        if gone and not any(path.startswith(within) for path in there):
            return f"{names} has no picture any more, and {had:,} of the collection lay there"
        if gone > LEAST and 2 * gone > had:
            return f"{gone:,} of the {had:,} pictures that lay in {names} are not there any more"
    return _find_emptied(removed, there, roots)


def _find_emptied(removed: Mapping[str, str], there: Collection[str], roots: Sequence[str]) -> str | None:
    """The reason against removals below a folder that is still there and became empty: a disk may be mounted there."""
    below = tuple(root.rstrip("/") + "/" for root in roots)
    lost = Counter(str(folder) for path in removed.values() for folder in PurePath(path).parents)
    for folder, gone in sorted(lost.items()):
        asked = gone > LEAST and folder.startswith(below) and Path(folder).is_dir()
        if asked and not any(path.startswith(folder + "/") for path in there):
            return f"{folder} has no picture any more, and {gone:,} of the collection lay there"
    return None
