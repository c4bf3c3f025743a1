"""`diptych serve`: the HTTP application under uvicorn."""

from __future__ import annotations

import argparse
from contextlib import ExitStack

from diptych.collection import Collection
from diptych.decoding import Workers
from diptych.indexing import load
from diptych.scorer import Scorer
from diptych_export.commandline import remark


def serve(args: argparse.Namespace) -> int:
    """Run `diptych serve` until it is stopped; the collection is made if there is none."""
    import uvicorn

    from diptych.http.app import create_app

    runtime = load(args).runtime
    with ExitStack() as stack:
        # Two at least: a picture that hangs must not hold up all others.
        workers = stack.enter_context(Workers(max(2, runtime.threads)))
        scorer = Scorer(runtime, decoder=workers)
        collection = None
        if args.store is not None:
            collection = stack.enter_context(Collection.open(args.store, scorer, create=True))
            remark(args, f"{len(collection):,} pictures in {collection.directory}")
        remark(args, f"model {runtime.name} ({runtime.revision}) on {runtime.provider}, {runtime.threads} threads")
        remark(args, f"attention by {runtime.attention_path}")
        host = f"[{args.host}]" if ":" in args.host else args.host
        remark(args, f"http://{host}:{args.port}/")
        uvicorn.run(
            create_app(collection, scorer),
            host=args.host,
            port=args.port,
            log_level="warning" if args.quiet else "info",
        )
    return 0
