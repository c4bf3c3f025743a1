"""`diptych search`, `rerank` and `explain`: which pictures are like this one, and where?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Option

from diptych.cli import options
from diptych.command_tree import Json, Quiet, number
from diptych.console import Console, format_count, format_percent, format_section, format_table, verdict_limits
from diptych_runtime.calibration.questions import THING
from diptych_runtime.errors import PictureError
from diptych_runtime.paths import given_path

_FILE_STATES = {"changed": "  (changed since)", "missing": "  (missing)"}

if TYPE_CHECKING:
    from diptych.pictures.walk import Omissions
    from diptych.scoring.explanation import Explanation
    from diptych.scoring.scorer import Scorer
    from diptych_runtime.folders import Exclusion
    from diptych_runtime.judgement import CloserLook


def search(
    query: options.QueryPicture,
    store: options.Store,
    top: Annotated[int, Option(parser=number(1), metavar="N", help="number of matches")] = 10,
    candidates: Annotated[
        int, Option(parser=number(0), metavar="N", help="candidates to re-rank; 0 ranks by embeddings alone")
    ] = 100,
    filter: options.Filter = None,
    question: options.Question = THING,
    urls: options.Urls = False,
    model: options.StoredModel = None,
    provider: options.Provider = "auto",
    threads: options.Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Find a picture in a collection.

    Works while another process writes to the collection.
    """
    from diptych.collection.collection import Collection
    from diptych_runtime.judgement import CLOSER_LOOKS

    console = Console(as_json, quiet)
    options.check_store(store)
    (picture,) = options.read_pictures([query], urls=urls)
    scorer = options.open_scorer(options.model_of(model, store), provider, threads, question=question, urls=urls)
    with Collection.open(store, scorer, read_only=True) as collection:
        result = collection.search(picture, top=top, candidates=candidates, filter=filter)
        total, scorer = len(collection), collection.scorer
    alarms = scorer.runtime.question_settings.alarm_rate(total)
    rows = [
        (
            match.rank,
            f"{match.first_rank - match.rank:+d}" if match.first_rank != match.rank else "0",  # +3: three places up
            "-" if match.relevance_score is None else f"{match.relevance_score:.4f}",
            match.verdict or "-",
            f"{match.similarity:.4f}",
            (match.path or match.id) + _FILE_STATES.get(match.file_state or "", ""),
        )
        for match in result.matches
    ]
    nothing = "no picture meets the filter" if total else "the collection is empty"
    console.emit(
        {"query": query, **_question_facts(scorer), **asdict(result), "alarm_rate": alarms},
        format_table(("rank", "moved", "score", "verdict", "cosine", "path"), rows) if rows else nothing,
    )
    times = ", ".join(f"{stage} {1000 * seconds:.0f} ms" for stage, seconds in result.timings.items())
    console.remark(f"{format_count(total, 'picture')} searched, {result.reranked:,} re-ranked; {times}")
    if result.reranked and result.matches:
        console.remark("moved: places gained (+) or lost (-) by re-ranking")
        _remark_verdicts(console, scorer)
        if scorer.runtime.question_settings.cohort:
            console.remark(
                "scores here are held against the rest of the list; `score` and `rerank` judge a pair by itself"
            )
    if any(match.file_state in _FILE_STATES for match in result.matches):
        console.remark("changed, missing: the file is not the one that was read; `diptych index verify` says of which")
    if alarms is not None and result.reranked:
        console.remark(
            f"expect a false same in {format_percent(alarms)} of the searches for a picture that has no match here"
        )
    _remark_looks(console, [match.closer_look for match in result.matches], spent=result.closer_looks >= CLOSER_LOOKS)
    return 0


def rerank(
    query: options.QueryPicture,
    candidates: Annotated[
        list[str], Argument(parser=given_path, metavar="CANDIDATE", help="picture files, and folders of them")
    ],
    top: Annotated[
        int | None, Option(parser=number(1), metavar="N", help="number of results", show_default="all")
    ] = None,
    exclude: options.Exclude = (),
    include_hidden: options.IncludeHidden = False,
    question: options.Question = THING,
    urls: options.Urls = False,
    model: options.Model = "photo",
    provider: options.Provider = "auto",
    threads: options.Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Order pictures by their likeness to one.

    All pictures below a folder are candidates. Those that are damaged or no pictures are listed, and the exit code is
    1; one that is not there is an error.
    """
    from diptych.pictures.walk import Omissions
    from diptych_runtime.folders import Exclusion

    console = Console(as_json, quiet)
    if [query, *candidates].count("-") > 1:
        raise BadParameter("standard input (-) has one picture; name the others by their files")
    omissions = Omissions()
    candidates, refused = _list_candidates(candidates, Exclusion(tuple(exclude), include_hidden), omissions)
    (first,) = options.read_pictures([query], urls=urls)
    others = options.read_pictures(candidates, urls=urls, damaged=True)
    scorer = options.open_scorer(model, provider, threads, question=question, urls=urls)
    readable = list(range(len(others)))
    try:
        ranking = scorer.rank(first, others, top)
    except PictureError:
        scorer.pixels(first)
        decoded = list(enumerate(scorer.decode(others)))
        readable = [place for place, pixels in decoded if not isinstance(pixels, PictureError)]
        refused += [{"path": candidates[n], "reason": str(e)} for n, e in decoded if isinstance(e, PictureError)]
        ranking = scorer.rank(first, [others[place] for place in readable], top)
    results = [
        {
            "index": readable[entry["corpus_id"]],
            "path": candidates[readable[entry["corpus_id"]]],
            "relevance_score": entry["score"],
            **{key: entry[key] for key in ("raw_score", "verdict", "closer_look")},
        }
        for entry in ranking
    ]
    rows = [
        (place + 1, f"{entry['relevance_score']:.4f}", entry["verdict"], f"{entry['raw_score']:.4f}", entry["path"])
        for place, entry in enumerate(results)
    ]
    lines = [format_table(("rank", "score", "verdict", "raw score", "path"), rows)] if rows else []
    lines += format_section(
        f"{format_count(len(refused), 'candidate')} could not be read:", (one["reason"] for one in refused)
    )
    found = {"query": query, **_question_facts(scorer), "results": results, "refused": refused, **omissions.data()}
    console.emit(found, "\n".join(lines))
    for line in omissions.lines():
        console.remark(line)
    _remark_verdicts(console, scorer)
    _remark_looks(console, [entry["closer_look"] for entry in results])
    return 1 if refused else 0


def _list_candidates(
    names: Sequence[str], exclusion: Exclusion, omissions: Omissions
) -> tuple[list[str], list[dict[str, str]]]:
    """The candidates, with the pictures of a folder in its place, each once, and the files and folders that cannot be
    read. Raises PictureError where no candidate is left.
    """
    from diptych.pictures.walk import pictures_in

    found, refused, below = list[str](), list[dict[str, str]](), set[str]()

    def refuse_file(path: str, reason: str) -> None:
        refused.append({"path": path, "reason": reason})

    for name in names:
        if name == "-" or not Path(name).is_dir():
            found.append(name)
            continue
        before, files = len(refused), list(map(str, pictures_in([Path(name)], refuse_file, exclusion, omissions)))
        if not files and len(refused) == before:
            refuse_file(name, f"{name} is a folder without pictures")
        # Between the listing and here one may have gone; and two folders may share some.
        fresh = [file for file in files if file not in below and Path(file).is_file()]
        below.update(fresh)
        found += fresh
    if not found:
        left_out = [line] if (line := omissions.left_out_line()) else []
        raise PictureError("; ".join([*(one["reason"] for one in refused), *left_out]))
    return found, refused


def explain(
    a: Annotated[
        str, Argument(parser=given_path, metavar="A", help="a picture file, a web address, or - for standard input")
    ],
    b: Annotated[str, Argument(parser=given_path, metavar="B", help="another picture")],
    output: Annotated[
        str | None,
        Option(
            "-o",
            "--output",
            parser=given_path,
            metavar="OUT.png",
            help="both pictures with the links drawn over them, and the outline of each in the other",
        ),
    ] = None,
    question: options.Question = THING,
    urls: options.Urls = False,
    model: options.Model = "photo",
    provider: options.Provider = "auto",
    threads: options.Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Show where two pictures match.

    Each picture is a grid of patches. A link joins a patch of A and one of B in which the network finds it; -o draws
    the strongest, and --json says how surely each of the two is found in the other.
    """
    from diptych.pictures.content import content_ids
    from diptych.scoring import explanation
    from diptych_runtime.atomic import write_atomic
    from diptych_runtime.decoder import open_picture

    if output:
        if Path(output).suffix.lower() != ".png":
            raise BadParameter(f"-o must end in .png, as it is a picture; got {output}")
        options.check_output(output, (a, b), picture=True)
    sides = options.read_pictures([a, b], urls=urls)
    scorer = options.open_scorer(model, provider, threads, question=question, urls=urls)
    tokens = scorer.panels(sides).tokens
    found = explanation.explain_pair(scorer, *tokens, original=sides.__getitem__, contents=content_ids(sides))
    if output:
        opened = (scorer.decoder.run(partial(open_picture, side, scorer.limits)) for side in sides)
        write_atomic(Path(output), explanation.draw_overlay(found, *opened))
    lines = _explanation_lines(found) + ([f"drawn: {output}"] if output else [])
    console = Console(as_json, quiet)
    console.emit(
        {
            "a": a,
            "b": b,
            **_question_facts(scorer),
            **asdict(found.answer),
            "answers": {question: asdict(one) for question, one in found.answers.items()},
            "grid": found.grid,
            "evidence": None if found.evidence is None else asdict(found.evidence),
            "placement": explanation.list_corners(found),
            "crossing": found.crossing,
            "links": [
                {"a": found.place(link.first), "b": found.place(link.second), "share": link.share}
                for link in found.links
            ],
            "overlay": output,
        },
        "\n".join(lines),
    )
    options.remark_calibration(console.remark, scorer.runtime)
    return 0


def _explanation_lines(found: Explanation) -> list[str]:
    """An explanation in lines for people."""
    from diptych.scoring import explanation

    looks = {"taken": ", after a closer look", "not taken": ", without the closer look that it deserves", None: ""}
    lines = [
        f"{question:5}  {one.relevance_score:.6f}  {one.verdict}{looks[one.closer_look]}"
        for question, one in found.answers.items()
    ]
    if said := explanation.look_in_words(found):
        lines.append(said)
    lines.append(
        f"the {found.grid[0]} x {found.grid[1]} patches of each match those of the other picture by "
        f"{found.crossing:.0%} on average"
    )
    return lines


def _question_facts(scorer: Scorer) -> dict[str, Any]:
    return {"model": scorer.runtime.name, "question": scorer.runtime.question, "verdicts": scorer.thresholds}


def _remark_verdicts(console: Console, scorer: Scorer) -> None:
    """Say which question is answered, from which score on each verdict is given, and if scores are no probabilities."""
    asked = f"question: {scorer.runtime.question}; " if len(scorer.runtime.questions) > 1 else ""
    console.remark(asked + verdict_limits(scorer.thresholds))
    options.remark_calibration(console.remark, scorer.runtime)


def _remark_looks(console: Console, looks: Sequence[CloserLook | None], *, spent: bool = False) -> None:
    """Say how many matches were not looked at more closely that deserved it."""
    from diptych_runtime.judgement import CLOSER_LOOKS, NOT_TAKEN

    if missing := looks.count("not taken"):
        reason = f"a search takes {CLOSER_LOOKS} closer looks at most" if spent else "a file is not at hand"
        console.remark(f"{missing} not looked at more closely, as {reason}: {NOT_TAKEN}")
