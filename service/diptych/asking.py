"""`diptych search` and `diptych rerank`: which pictures are like this one?"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from diptych.collection import Collection
from diptych.indexing import load
from diptych.search import Match
from diptych_export.commandline import emit, read_bytes, remark, table


def picture(name: str) -> str | bytes:
    """A picture as the command line names it: a path, or the bytes of standard input for `-`."""
    return read_bytes("-") if name == "-" else name


def search(args: argparse.Namespace) -> int:
    """Run `diptych search`; works beside a running writer."""
    scorer = load(args)
    with Collection.open(args.store, scorer, read_only=True) as collection:
        result = collection.search(picture(args.query), top=args.top, candidates=args.candidates, enough=args.enough)
        total = len(collection)
    rows = [
        (
            match.rank + 1,
            _moved(match),
            "-" if match.relevance_score is None else f"{match.relevance_score:.4f}",
            f"{match.similarity:.4f}",
            match.path or match.id,
        )
        for match in result.matches
    ]
    emit(
        args,
        {"query": args.query, "model": scorer.runtime.name, **asdict(result)},
        table(("rank", "moved", "score", "cosine", "path"), rows) if rows else "the collection is empty",
    )
    times = ", ".join(f"{stage} {1000 * seconds:.0f} ms" for stage, seconds in result.timings.items())
    remark(args, f"{total:,} pictures, {result.looked_at} of them looked at; {times}")
    return 0


def rerank(args: argparse.Namespace) -> int:
    """Run `diptych rerank`."""
    scorer = load(args)
    ranking = scorer.rank(picture(args.query), [picture(name) for name in args.candidates], args.top)
    results = [
        {
            "index": entry["corpus_id"],
            "path": args.candidates[entry["corpus_id"]],
            "relevance_score": entry["score"],
            "raw_score": entry["raw_score"],
        }
        for entry in ranking
    ]
    rows = [
        (place + 1, f"{entry['relevance_score']:.4f}", f"{entry['raw_score']:.4f}", entry["path"])
        for place, entry in enumerate(results)
    ]
    emit(
        args,
        {"query": args.query, "model": scorer.runtime.name, "results": results},
        table(("rank", "score", "raw score", "path"), rows),
    )
    return 0


def _moved(match: Match) -> str:
    """How far the second look moved a picture: +3 is three places up."""
    return f"{match.first_rank - match.rank:+d}" if match.first_rank != match.rank else "0"
