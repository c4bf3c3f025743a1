"""The duplicates that a model proposes on kinds of pictures, where nothing was planted and where copies were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from diptych import Scorer, find_duplicates
from diptych.console import format_table
from diptych_runtime.calibration.questions import COPY
from diptych_runtime.runtime import Runtime
from diptych_studies.kinds.planted import KINDS, Planted, open_planted
from diptych_training.data.edits import REPERTOIRES

ORIGINALS = "originals"  # the folder of a kind's pictures without their copies


def measure_duplicates(
    runtime: Runtime,
    directory: Path,
    folder: Path,
    *,
    kinds: Sequence[str] = KINDS,
    begin: Callable[[str], Callable[[int], object]] = lambda kind: lambda n: None,
) -> dict[str, Any]:
    """Find the duplicates of each kind as `find_duplicates` does by itself, in its pictures alone and with their copies
    among them. Of each run there are the `seconds`, and the number and the share of the time of its closer looks.

    Raises `DataError` for unknown kinds.
    """
    rows = []
    for kind in kinds:
        planted = open_planted(kind, folder, directory / "sets")
        rows += [{"kind": kind, **row} for row in _measure_kind(runtime, planted, begin(kind))]
    return {"model": runtime.name, "revision": runtime.revision, "sets": rows}


def _measure_kind(runtime: Runtime, planted: Planted, tick: Callable[[int], object]) -> list[dict[str, Any]]:
    scorer, rows = Scorer(runtime.asking(COPY)), []
    with TemporaryDirectory(prefix="diptych-evaluate-") as store:
        for folders in ([ORIGINALS], [ORIGINALS, *REPERTOIRES]):
            paths = [planted.folder / name for name in folders]
            began = perf_counter()
            found = find_duplicates(paths, scorer=scorer, question=COPY, store=Path(store) / f"{len(folders)}")
            seconds = perf_counter() - began
            groups = [[group.keeper.path, *(member.picture.path for member in group.others)] for group in found.groups]
            names = [
                [Path(path).relative_to(planted.folder.absolute()).as_posix() for path in group] for group in groups
            ]
            row = count_proposals(planted, names, planted_too=len(folders) > 1)
            cost = {"seconds": seconds, "closer_looks": found.closer_looks, "look_share": found.look_seconds / seconds}
            rows.append(row | {"pictures": len(found.pictures), "threshold": found.threshold} | cost)
            tick(found.scored)
    return rows


def count_proposals(planted: Planted, groups: Sequence[Sequence[str]], *, planted_too: bool = False) -> dict[str, Any]:
    """The figures of groups of names, the keeper first: how many pictures could go, how many of these `right`, being
    the same photo as their keeper, and how many `wrong`; and of the copies of either repertoire the share that is in a
    group with its original, where they were planted too.
    """
    shows = dict(zip(planted.names, planted.original.tolist(), strict=True))
    going = [(shows[name], shows[keeper]) for keeper, *others in groups for name in others]
    right = sum(one == other for one, other in going)
    place = {name: number for number, group in enumerate(groups) for name in group}
    recall: dict[str, float | None] = {}
    for repertoire in REPERTOIRES if planted_too else ():
        copies = [name for name in planted.names if name.startswith(f"{repertoire}/")]
        found = [_beside_its_original(name, planted, shows, place) for name in copies]
        recall[repertoire] = float(np.mean(found)) if found else None
    return {
        "planted": planted_too,
        "proposed": len(going),
        "right": right,
        "wrong": len(going) - right,
        "recall": recall,
    }


def _beside_its_original(name: str, planted: Planted, shows: dict[str, int], place: dict[str, int]) -> bool:
    """True if a copy is in a group with the photo that it was made from."""
    if name not in place:
        return False
    originals = [other for other in planted.names if other.startswith(ORIGINALS) and shows[other] == shows[name]]
    return any(place.get(other) == place[name] for other in originals)


def duplicates_text(result: dict[str, Any]) -> str:
    """The sets as a table."""
    head = ["kind", "pictures", "copies among them", "proposed", "right", "wrong", "easy found", "hard found"]
    head += ["seconds", "closer looks", "their share"]
    rows = [
        [
            *(one["kind"], one["pictures"], "yes" if one["planted"] else "no"),
            *(one["proposed"], one["right"], one["wrong"]),
            *(_format_share(one["recall"].get(repertoire)) for repertoire in REPERTOIRES),
            *(f"{one['seconds']:.0f}", one["closer_looks"], _format_share(one["look_share"])),
        ]
        for one in result["sets"]
    ]
    return f"{format_table(head, rows)}\nmodel {result['model']} {result['revision']}"


def _format_share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
