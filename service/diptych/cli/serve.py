"""`diptych serve` and `diptych key`."""

from __future__ import annotations

import argparse
from contextlib import ExitStack

from diptych.cli.resources import open_scorer
from diptych.collection.collection import Collection
from diptych.collection.registry import Collections
from diptych.collection.sync.follow import Follower
from diptych.console import emit, remark
from diptych.errors import SettingsError
from diptych.http.server import bound, log, run
from diptych.scoring.decode_pool import DecodePool
from diptych.scoring.scorer import Scorer
from diptych.store.location import Address


def serve(args: argparse.Namespace) -> int:
    """Run `diptych serve` until it is stopped; the collection, or the folder of several, is made if there is none."""
    from diptych.http.app import create_app
    from diptych.http.settings import Settings

    if args.sync and args.store is None:
        args.usage_error("--sync follows folders for the collection of --store; name that too")
    if args.sync and isinstance(args.store, Address):
        args.usage_error(f"--sync needs a collection in a folder; expected a folder for --store, got {args.store}")
    settings = Settings.load(args.config)
    log(settings.log, quiet=args.quiet)
    with ExitStack() as stack:
        sockets = [stack.enter_context(one) for one in bound(args.host, args.port)]
        runtime = open_scorer(args).runtime
        # Two at least: a picture that hangs must not hold up all others.
        workers = stack.enter_context(
            DecodePool(max(2, runtime.threads), seconds=settings.decode_seconds, memory=settings.decode_memory)
        )
        scorer = Scorer(runtime, decoder=workers)
        stored = None
        if args.store is not None:
            stored = stack.enter_context(Collection.open(args.store, scorer, create=True))
        elif args.collections is not None:
            stored = stack.enter_context(Collections.open(args.collections, scorer))
        for name, one in Collections.of(stored).open_ones().items():
            remark(args, f"{name}: {len(one):,} pictures in {one.name}")
        remark(args, f"model {runtime.name} ({runtime.revision}) on {runtime.provider}, {runtime.threads} threads")
        remark(args, f"attention by {runtime.attention_path}")
        who = ", ".join(f"{key.name} ({key.role})" for key in settings.keys)
        remark(args, f"keys: {who}" if who else "no keys: whoever reaches the port may use it")
        host = f"[{args.host}]" if ":" in args.host else args.host
        remark(args, f"http://{host}:{sockets[0].getsockname()[1]}/")
        if isinstance(stored, Collection) and args.sync:
            remark(args, f"following {', '.join(map(str, args.sync))} every {args.sync_every:g} s")
            stack.enter_context(Follower(stored, args.sync, args.sync_every))
        run(create_app(stored, scorer, settings=settings), sockets, settings)
    return 0


def key(args: argparse.Namespace) -> int:
    """Run `diptych key`: print a new secret, and the line that lets it in."""
    from diptych.http.middleware.auth import key_line, new_key

    try:
        secret, made = new_key(args.name, "read" if args.read_only else "admin")
    except ValueError as error:
        raise SettingsError(str(error)) from None
    line = key_line(made)
    emit(
        args,
        {"key": secret, "setting": line},
        f"{secret}\n\nThat is shown once. Let it in with the line below, in DIPTYCH_KEYS (several: a space between) or "
        f"in `keys` of the settings:\n\n{line}",
    )
    return 0
