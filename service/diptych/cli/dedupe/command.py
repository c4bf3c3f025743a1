"""`diptych dedupe`: looks, says what it found, and acts only when told to."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
    check_outside,
    chosen_paths,
    revisit_journal,
)
from diptych.cli.dedupe.text import NOTHING_MOVED, Refused, found_text, searched_text
from diptych.cli.options import (
    ClusterAddress,
    Engine,
    Exclude,
    IncludeHidden,
    Provider,
    Question,
    StoredModel,
    Strict,
    Threads,
    check_engine,
    check_one_of,
    check_output,
    model_of,
    named_folder,
    named_or_default,
    open_scorer,
    open_workers,
    probability,
    read_folder,
    read_location,
)
from diptych.command_tree import Json, Quiet, number
from diptych.console import Console
from diptych.errors import DedupeError, StoreError
from diptych_runtime.calibration.questions import COPY

if TYPE_CHECKING:
    from diptych.dedupe.duplicates import Duplicates
    from diptych.dedupe.labelled import IdPairs
    from diptych.dedupe.scan import PictureFile, Scan
    from diptych.pictures.walk import Omissions


def _parse_threshold(text: str) -> float | None:
    return None if text.lower() == "auto" else probability(text)


_Folders = Annotated[
    list[Path] | None, Argument(parser=named_folder, metavar="DIR", help="folders of pictures, searched through")
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
        parser=number(0),
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
_Keep = Annotated[
    Sequence[str],
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
    Path | None, Option(parser=read_folder, metavar="DIR", help="keep features and scores here, not in your cache")
]
_Reference = Annotated[
    list[Path] | None,
    Option(
        parser=named_folder,
        metavar="DIR",
        help="compare with the pictures there too, and never touch them; may be repeated",
    ),
]


def dedupe(
    folders: _Folders = None,
    reference: _Reference = None,
    exclude: Exclude = (),
    include_hidden: IncludeHidden = False,
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
    from diptych.dedupe.report import page, table
    from diptych.dedupe.scan import list_picture_files, resolve_roots
    from diptych.pictures.walk import Omissions
    from diptych_runtime.folders import Exclusion

    console = Console(as_json, quiet)
    act = act_of(action, move_to, delete=delete)
    check_one_of({f"--action {act}": act, "--undo": undo, "--empty": empty})
    if undo or empty:
        return revisit_journal(console, folders or [], reference or [], undo, empty, selection, dry_run=dry_run)
    chosen = chosen_paths(selection, acting=act is not None, dry_run=dry_run)
    if not folders:
        raise BadParameter("name a folder of pictures, or a journal with --undo")
    check_engine(engine, address)
    network = {"threshold": threshold is not None, "candidates": candidates != 20, "question": question != COPY}
    _check_method(method, max_distance, **network, engine=engine != "local", same_orientation=same_orientation)
    how: dict[str, Any] = {"keep": _check_rules(keep), "store": store}
    _check_outputs(output, report, spreadsheet=spreadsheet)
    places = roots, references = resolve_roots(folders, reference or (), to=move_to)
    refused, omissions, exclusion = Refused(), Omissions(), Exclusion(tuple(exclude), include_hidden)
    check_outside(references, {"--output": output, "--report": report, "--store": store})
    try:
        files = list_picture_files(roots, refused.add, references, console.remark, exclusion, omissions)
        for path in filter(None, (output, report)):
            check_output(path, [*(file.path for file in files), *filter(None, [selection])])
        how |= {"apart": _default_labels(console, store, question), "refuse": refused.add, "console": console}
        if method == "phash":
            found, seen, told_by = _find_by_hash(places, files, max_distance, threads, **how)
        else:
            how |= {"threshold": threshold or "auto", "candidates": candidates, "question": question}
            how["same_orientation"] = same_orientation
            machine = (model_of(model, store), provider, threads, engine, address)
            found, seen, told_by = _find_by_network(places, files, *machine, **how)
        if output:
            table.write_table(output, found, refused, spreadsheet=spreadsheet)
        if report:
            page.write_page(report, found, [*roots, *references], told_by, refused, console, threads=threads)
        written = {"groups": output, "report": report}
        acting = act and partial(act_on, console, act, found, places, to=move_to, chosen=chosen, dry_run=dry_run)
        return _conclude_run(console, found, seen, refused, omissions, written, acting, strict=strict)
    except KeyboardInterrupt as stop:
        said = str(stop) or "what was done is kept, and the same command goes on from here"
        console.remark(f"interrupted; {said}")
        return 130


def _find_by_hash(
    folders: tuple[list[Path], list[Path]],
    files: Sequence[PictureFile],
    max_distance: int | None,
    threads: int | None,
    **how: Any,
) -> tuple[Duplicates, Scan, str]:
    """The duplicates below the folders and the references by perceptual hash, the scan, and the words for that."""
    from diptych.dedupe.folders import hashed_duplicates
    from diptych.dedupe.hashes.find import MAX_DISTANCE

    (roots, references), distance = folders, MAX_DISTANCE if max_distance is None else max_distance
    found, seen = hashed_duplicates(roots, files, references, max_distance=distance, threads=threads, **how)
    return found, seen, f"By digest and perceptual hash, at most {distance} of 64 bits apart"


def _find_by_network(
    folders: tuple[list[Path], list[Path]],
    files: Sequence[PictureFile],
    model: str,
    provider: str,
    threads: int | None,
    engine: str,
    address: str | None,
    **how: Any,
) -> tuple[Duplicates, Scan, str]:
    """The duplicates below the folders and the references by the network, the scan, and the words for that."""
    from diptych.dedupe.folders import scored_duplicates

    (roots, references), scorer = folders, open_scorer(model, provider, threads, question=how["question"])
    with open_workers(how["console"], engine, address, model, provider, threads) as workers:
        found, seen = scored_duplicates(roots, files, references, scorer=scorer, workers=workers, **how)
    return found, seen, f"Model {scorer.runtime.name}, revision {scorer.runtime.revision}"


def _conclude_run(
    console: Console,
    found: Duplicates,
    seen: Scan,
    refused: Refused,
    omissions: Omissions,
    written: Mapping[str, Path | None],
    acting: Callable[[list[str]], tuple[dict[str, Any], bool]] | None,
    *,
    strict: bool,
) -> int:
    """Say what was found, act on it if that is asked for, and return the exit code."""
    from diptych.dedupe.report import table
    from diptych.pictures.file_info import damage_text
    from diptych.pictures.walk import is_folder

    data = table.document(found, refused) | omissions.data()
    data |= {"new": seen.new, "changed": seen.changed, "gone": seen.gone}
    console.remark(searched_text(found, data))
    if damaged := [picture.path for picture in found.pictures if picture.is_damaged]:
        console.remark(damage_text(damaged))
    lines = found_text(found, data, refused, written) + omissions.lines()
    # In a folder that could not be listed, pictures may have been missed without a word of each.
    failed = any(strict or is_folder(entry["path"]) for entry in refused)
    if acting:
        acted, left = acting(lines)
        data, failed = data | acted, failed or left
    console.emit(data, "\n".join(lines))
    if found.groups and not acting:
        console.remark(NOTHING_MOVED)
    return 1 if failed else 0


def _check_method(method: str, max_distance: int | None, **network: bool) -> None:
    """End with a usage error for options of the other method; the model is just not loaded."""
    if method == "network":
        if max_distance is not None:
            raise BadParameter("--max-distance is for --method phash; the network has --threshold")
        return
    from diptych.dedupe.hashes.find import check_distance

    for name, given in network.items():
        if given:
            option = f"--{name.replace('_', '-')}"
            raise BadParameter(f"{option} is for --method network; with --method phash there is --max-distance")
    try:
        check_distance(max_distance or 0)
    except ValueError as error:
        raise BadParameter(str(error), param_hint="--max-distance") from None


def _check_rules(keep: Sequence[str]) -> tuple[str, ...]:
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


def _default_labels(console: Console, store: Path | None, question: str = COPY) -> IdPairs:
    """The pairs that are labelled different in the default collection, to which `diptych label` writes; none where a
    `store` is named, whose own labels count.
    """
    from diptych.dedupe.labelled import NONE, different_pairs_in

    if store is not None:
        return NONE
    where = read_location(named) if (named := os.environ.get("DIPTYCH_STORE")) else named_or_default(None, None)
    try:
        return different_pairs_in(where, question) if isinstance(where, Path) else NONE
    except StoreError as error:
        console.remark(f"labels of the default collection are left out: {error}")
        return NONE
