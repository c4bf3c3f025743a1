"""`diptych serve` and `diptych key`."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from typer import Argument, BadParameter, Option

from diptych.cli.options import AnyStore, Collections, Model, Provider, Threads, check_one_of, open_scorer, seconds
from diptych.command_tree import Json, Quiet, number
from diptych.console import Console
from diptych.errors import SettingsError
from diptych.store.location import Address


def serve(
    store: AnyStore = None,
    collections: Collections = None,
    host: Annotated[str, Option(metavar="ADDRESS", help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, Option(parser=number(0, 65535), metavar="N", help="port, 0 for any")] = 8000,
    config: Annotated[
        Path | None, Option(metavar="FILE", help="settings as TOML; DIPTYCH_* variables win over it")
    ] = None,
    sync: Annotated[
        list[Path] | None,
        Option(metavar="FOLDER", help="keep the collection of --store in step with this folder (repeatable)"),
    ] = None,
    sync_every: Annotated[
        float, Option(parser=seconds, metavar="SECONDS", help="how often --sync looks at its folders")
    ] = 60,
    model: Model = "photo",
    provider: Provider = "auto",
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Serve scores, searches and the web page over HTTP.

    Runs until it is stopped. The collection, or the folder of several, is made if there is none.
    """
    check_one_of(store, collections)
    if sync and store is None:
        raise BadParameter("--sync follows folders for the collection of --store; name that too")
    if sync and isinstance(store, Address):
        raise BadParameter(f"--sync needs a collection in a folder; expected a folder for --store, got {store}")
    from diptych.collection.collection import Collection
    from diptych.collection.registry import Collections
    from diptych.collection.sync.follow import Follower
    from diptych.http.app import create_app
    from diptych.http.server import bound, log, run
    from diptych.http.settings import Settings
    from diptych.scoring.decode_pool import DecodePool
    from diptych.scoring.scorer import Scorer

    console = Console(as_json, quiet)
    settings = Settings.load(config)
    log(settings.log, quiet=quiet)
    # A log of JSON has nothing else in it.
    say = console.remark if settings.log == "text" else logging.getLogger(__name__).info
    with ExitStack() as stack:
        sockets = [stack.enter_context(one) for one in bound(host, port)]
        runtime = open_scorer(model, provider, threads).runtime
        # Two at least: a picture that hangs must not hold up all others.
        workers = stack.enter_context(
            DecodePool(max(2, runtime.threads), seconds=settings.decode_seconds, memory=settings.decode_memory)
        )
        scorer = Scorer(runtime, decoder=workers)
        stored = None
        if store is not None:
            stored = stack.enter_context(Collection.open(store, scorer, create=True))
        elif collections is not None:
            stored = stack.enter_context(Collections.open(collections, scorer))
        for name, one in Collections.of(stored).open_ones().items():
            say(f"{name}: {len(one):,} pictures in {one.name}")
        say(f"model {runtime.name} ({runtime.revision}) on {runtime.provider}, {runtime.threads} threads")
        say(f"attention by {runtime.attention_path}")
        who = ", ".join(f"{key.name} ({key.role})" for key in settings.keys)
        say(f"keys: {who}" if who else "no keys: whoever reaches the port may use it")
        shown = f"[{host}]" if ":" in host else host
        say(f"http://{shown}:{sockets[0].getsockname()[1]}/")
        if isinstance(stored, Collection) and sync:
            say(f"following {', '.join(map(str, sync))} every {sync_every:g} s")
            stack.enter_context(Follower(stored, sync, sync_every))
        run(create_app(stored, scorer, settings=settings), sockets, settings)
    return 0


def key(
    name: Annotated[str, Argument(metavar="NAME", help="whose it is, for the log")],
    read_only: Annotated[bool, Option("--read-only", help="may not add or remove anything")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Make a key for the HTTP service.

    Prints a new secret, and the line that lets it in.
    """
    from diptych.http.middleware.auth import key_line, new_key

    try:
        secret, made = new_key(name, "read" if read_only else "admin")
    except ValueError as error:
        raise SettingsError(str(error)) from None
    line = key_line(made)
    Console(as_json, quiet).emit(
        {"key": secret, "setting": line},
        f"{secret}\n\nThat is shown once. Let it in with the line below, in DIPTYCH_KEYS (several: a space between) or "
        f"in `keys` of the settings:\n\n{line}",
    )
    return 0
