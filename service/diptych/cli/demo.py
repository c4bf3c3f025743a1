"""`diptych demo`."""

from __future__ import annotations

import argparse

from diptych.bench.demo.collection import draw_collection
from diptych.console import emit, remark


def run(args: argparse.Namespace) -> int:
    """Run `diptych demo`: draw the collection and name what lies where."""
    photos = draw_collection(args.folder, count=args.count, seed=args.seed, quiet=args.quiet or args.json)
    places = {"photos": args.folder / "photos", "queries": args.folder / "queries", "truth": args.folder / "truth.csv"}
    remark(args, f"Next: diptych index add {places['photos']} --store {args.folder / 'store'}")
    emit(
        args,
        {"count": len(photos), **places},
        f"{len(photos)} pictures in {places['photos']}, to find with {places['queries']}",
    )
    return 0
