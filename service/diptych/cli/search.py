"""`diptych search`, `rerank` and `explain`: which pictures are like this one, and where?"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from diptych.cli.outputs import check_output
from diptych.cli.resources import open_scorer, read_pictures
from diptych.collection.collection import Collection
from diptych.collection.search import CLOSER_LOOKS, Match
from diptych.console import emit, remark, table
from diptych.scoring import explanation
from diptych.scoring.scorer import Scorer
from diptych_runtime.atomic import write_atomic
from diptych_runtime.calibration.verdicts import least_of
from diptych_runtime.decoder import open_picture
from diptych_runtime.judgement import NOT_TAKEN, CloserLook


def search(args: argparse.Namespace) -> int:
    """Run `diptych search`; works beside a running writer."""
    scorer = open_scorer(args)
    (query,) = read_pictures(args, [args.query])
    with Collection.open(args.store, scorer, read_only=True) as collection:
        result = collection.search(
            query, top=args.top, candidates=args.candidates, enough=args.enough, filter=args.filter
        )
        total = len(collection)
    alarms = scorer.runtime.asked.alarm_rate(total)
    rows = [
        (
            match.rank + 1,
            _moved(match),
            "-" if match.relevance_score is None else f"{match.relevance_score:.4f}",
            match.verdict or "-",
            f"{match.similarity:.4f}",
            match.path or match.id,
        )
        for match in result.matches
    ]
    nothing = "no picture meets the filter" if total else "the collection is empty"
    emit(
        args,
        {"query": args.query, **_asked(scorer), **asdict(result), "alarm_rate": alarms},
        table(("rank", "moved", "score", "verdict", "cosine", "path"), rows) if rows else nothing,
    )
    times = ", ".join(f"{stage} {1000 * seconds:.0f} ms" for stage, seconds in result.timings.items())
    remark(args, f"{total:,} pictures, {result.looked_at} of them looked at; {times}")
    if alarms is not None:
        least = least_of(scorer.runtime.stated)["same"]
        remark(
            args, f"same from {least:.5f} on, as {alarms:.2g} of searches without a match among so many say by chance"
        )
    _remark_looks(args, [match.closer_look for match in result.matches], spent=result.closer_looks >= CLOSER_LOOKS)
    return 0


def rerank(args: argparse.Namespace) -> int:
    """Run `diptych rerank`."""
    scorer = open_scorer(args)
    query, *candidates = read_pictures(args, [args.query, *args.candidates])
    ranking = scorer.rank(query, candidates, args.top)
    results = [
        {
            "index": entry["corpus_id"],
            "path": args.candidates[entry["corpus_id"]],
            "relevance_score": entry["score"],
            **{key: entry[key] for key in ("raw_score", "verdict", "closer_look")},
        }
        for entry in ranking
    ]
    rows = [
        (place + 1, f"{entry['relevance_score']:.4f}", entry["verdict"], f"{entry['raw_score']:.4f}", entry["path"])
        for place, entry in enumerate(results)
    ]
    emit(
        args,
        {"query": args.query, **_asked(scorer), "results": results},
        table(("rank", "score", "verdict", "raw score", "path"), rows),
    )
    _remark_looks(args, [entry["closer_look"] for entry in results])
    return 0


def explain(args: argparse.Namespace) -> int:
    """Run `diptych explain`."""
    if args.output:
        check_output(args.output, (args.a, args.b))
    scorer = open_scorer(args)
    sides = read_pictures(args, [args.a, args.b])
    tokens = scorer.encode(sides).tokens
    found = explanation.explain(scorer, *tokens, links=args.links, original=sides.__getitem__)
    if args.output:
        opened = (scorer.decoder.run(partial(open_picture, side, scorer.limits)) for side in sides)
        write_atomic(Path(args.output), explanation.overlay(found, *opened))
    answer = found.answer
    links = [(found.place(link.first), found.place(link.second), link.share) for link in found.links]
    rows = [("{},{}".format(*a), "{},{}".format(*b), f"{share:.4f}") for a, b, share in links]
    rows_and_columns = "{} x {}".format(*found.grid)
    lines = [
        f"score {answer.relevance_score:.4f}, {answer.verdict}, raw score {answer.raw_score:.4f}; "
        f"{found.crossing:.0%} of the attention crosses, over {rows_and_columns} patches each",
        *([table(("A row,column", "B row,column", "share"), rows)] if rows else []),
        *([f"drawn: {args.output}"] if args.output else []),
    ]
    emit(
        args,
        {
            "a": args.a,
            "b": args.b,
            **_asked(scorer),
            **asdict(answer),
            "answers": {question: asdict(one) for question, one in found.answers.items()},
            "grid": found.grid,
            "crossing": found.crossing,
            "links": [{"a": a, "b": b, "share": share} for a, b, share in links],
            "overlay": args.output,
        },
        "\n".join(lines),
    )
    return 0


def _asked(scorer: Scorer) -> dict[str, str]:
    return {"model": scorer.runtime.name, "question": scorer.runtime.question}


def _remark_looks(args: argparse.Namespace, looks: Sequence[CloserLook | None], *, spent: bool = False) -> None:
    """Say how many matches were not looked at more closely that deserved it."""
    if missing := looks.count("not taken"):
        reason = f"a search takes {CLOSER_LOOKS} closer looks at most" if spent else "a file is not at hand"
        remark(args, f"{missing} not looked at more closely, as {reason}: {NOT_TAKEN}")


def _moved(match: Match) -> str:
    """The places that the second look moved a picture: +3 is three places up."""
    return f"{match.first_rank - match.rank:+d}" if match.first_rank != match.rank else "0"
