"""`diptych serve` and `diptych key`."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, BadParameter, Option

from diptych.cli import options
from diptych.command_tree import Json, Quiet, number
from diptych.console import Console, format_count
from diptych.errors import SettingsError, StoreError
from diptych.store.location import Address
from diptych.store.sqlite.schema import DATABASE

if TYPE_CHECKING:
    from diptych.collection.collection import Collection
    from diptych.collection.registry import Collections as Registry
    from diptych.http.middleware.auth import Key
    from diptych.scoring.scorer import Scorer
    from diptych_runtime.runtime import Runtime


_NO_KEY = (
    "other machines may reach {host}, and there is no key: whoever does could read and remove everything. Make a key "
    "with `diptych key NAME` and put its line in DIPTYCH_KEYS; or listen on 127.0.0.1, or let everybody in with --open "
    "(DIPTYCH_OPEN=1)"
)
_Config = Annotated[
    Path | None,
    Option(metavar="FILE", help="settings as TOML; DIPTYCH_* variables override them", envvar="DIPTYCH_CONFIG"),
]
_Sync = Annotated[
    list[Path] | None,
    Option(
        metavar="FOLDER",
        help="keep the collection in step with this folder, and create it if it does not exist (repeatable)",
        envvar="DIPTYCH_SYNC",
    ),
]
_Create = Annotated[
    bool, Option("--create", help="create the collection, or ROOT, if it does not exist", envvar="DIPTYCH_CREATE")
]
_Port = Annotated[int, Option(parser=number(0, 65535), metavar="N", help="port, 0 for any", envvar="DIPTYCH_PORT")]
_SyncEvery = Annotated[
    float,
    Option(parser=options.seconds, metavar="SECONDS", help="time between runs of --sync", envvar="DIPTYCH_SYNC_EVERY"),
]


def serve(
    store: options.AnyStore = None,
    collections: options.Collections = None,
    create: _Create = False,
    host: Annotated[str, Option(metavar="ADDRESS", help="address to listen on", envvar="DIPTYCH_HOST")] = "127.0.0.1",
    port: _Port = 8000,
    open: Annotated[
        bool,
        Option("--open", help="let whoever reaches an address of this machine in, without keys", envvar="DIPTYCH_OPEN"),
    ] = False,
    config: _Config = None,
    sync: _Sync = None,
    sync_every: _SyncEvery = 60,
    keep_metadata: options.KeepMetadata = 90,
    exclude: options.Exclude = (),
    include_hidden: options.IncludeHidden = False,
    model: options.StoredModel = None,
    provider: options.Provider = "auto",
    threads: options.Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Serve scores, searches and the web page over HTTP.

    Runs until it is stopped. Without --store and --collections it serves the default collection, if there is one. A
    collection that cannot be written is served for reading only. An address that other machines may reach needs keys
    (DIPTYCH_KEYS), or --open.
    """
    options.check_one_of({"--store (or DIPTYCH_STORE)": store, "--collections": collections})
    options.check_one_of({"--sync, which is for one collection,": sync, "--collections": collections})
    store = options.named_or_default(store, collections)
    if store is None and collections is None and (sync or create):
        store = options.default_store()
    if sync and isinstance(store, Address):
        raise BadParameter(f"--sync needs a collection in a folder; expected a folder for --store, got {store}")
    from diptych.collection.collection import Collection
    from diptych.collection.registry import Collections as Registry
    from diptych.collection.sync.follow import Follower
    from diptych.http.app import create_app
    from diptych.http.connections import limit_open_collections
    from diptych.http.server import bind_sockets, configure_log, is_loopback, run
    from diptych.http.settings import Settings
    from diptych.scoring.decode_pool import DecodePool
    from diptych.scoring.scorer import Scorer
    from diptych_runtime.folders import Exclusion

    console = Console(as_json, quiet)
    settings = Settings.load(config)
    configure_log(settings.log, quiet=quiet)
    # A log of JSON has nothing else in it.
    say = console.remark if settings.log == "text" else logging.getLogger(__name__).info
    with ExitStack() as stack:
        sockets = [stack.enter_context(one) for one in bind_sockets(host, port)]
        if not (settings.keys or open or all(map(is_loopback, sockets))):
            raise BadParameter(_NO_KEY.format(host=host))
        create = create or bool(sync)
        if not create:
            _check_there(store, collections)
        runtime = options.open_scorer(options.model_of(model, store), provider, threads).runtime
        # Two at least: a picture that hangs must not hold up all others.
        workers = stack.enter_context(
            DecodePool(max(2, runtime.threads), seconds=settings.decode_seconds, memory=settings.decode_memory)
        )
        scorer_of = partial(Scorer, limits=settings.picture_limits, decoder=workers)
        scorer = scorer_of(runtime)
        load = None if model else lambda name: scorer_of(options.open_scorer(name, provider, threads).runtime)
        most = limit_open_collections(settings.open_collections)
        stored: Collection | Registry | None = None
        if collections is not None:
            stored = stack.enter_context(Registry.open(collections, scorer, load=load, most=most))
        elif store is not None:
            stored = stack.enter_context(_open_collection(store, scorer, say, create=create))
        _introduce_service(say, stored, runtime, settings.keys)
        say(f"http://{f'[{host}]' if ':' in host else host}:{sockets[0].getsockname()[1]}/")
        if isinstance(stored, Collection) and sync:
            say(f"following {', '.join(map(str, sync))} every {sync_every:g} s")
            exclusion = Exclusion(tuple(exclude), include_hidden)
            stack.enter_context(Follower(stored, sync, sync_every, exclusion, keep_days=keep_metadata))
        run(create_app(stored, scorer, settings=settings), sockets, settings)
    return 0


def _open_collection(
    store: options.Location, scorer: Scorer, say: Callable[[str], object], *, create: bool
) -> Collection:
    """The collection at a place, for reading only where it cannot be written."""
    from diptych.collection.collection import Collection

    reading = not create and isinstance(store, Path) and not _is_writable(store)
    if reading:
        say(f"{store} cannot be written: it is served for reading only")
    return Collection.open(store, scorer, create=create, read_only=reading)


def _introduce_service(
    say: Callable[[str], object], stored: Collection | Registry | None, runtime: Runtime, keys: Sequence[Key]
) -> None:
    """Name the collections, the model, and those who may use them."""
    from diptych.collection.registry import Collections

    for name, one in Collections.of(stored).open_ones().items():
        theirs = one.scorer.runtime
        by = "" if theirs.revision == runtime.revision else f", model {theirs.name} ({theirs.revision})"
        say(f"{name}: {format_count(len(one), 'picture')} in {one.name}{by}")
        options.remark_calibration(say, theirs)
    if stored is None:
        options.remark_calibration(say, runtime)
        say("no collection; `diptych index add PICTURES` makes one")
    say(f"model {runtime.name} ({runtime.revision}) on {runtime.provider}, {format_count(runtime.threads, 'thread')}")
    say(f"attention by {runtime.attention_path}; pairs in {runtime.pair_path}")
    who = ", ".join(f"{key.name} ({key.role})" for key in keys)
    say(f"keys: {who}" if who else "no keys: whoever reaches the port may use it")


def _check_there(store: options.Location | None, collections: Path | None) -> None:
    """Raise StoreError where a misspelt name would make an empty collection."""
    if store is not None:
        options.check_store(store)
    if collections is not None and not collections.is_dir():
        raise StoreError(
            f"expected a folder with the folders of collections, and {collections} is none; --create makes it"
        )


def _is_writable(store: Path) -> bool:
    return all(os.access(path, os.W_OK) for path in (store, store / DATABASE))


def key(
    name: Annotated[str, Argument(metavar="NAME", help="name of its holder, for the log")],
    read_only: Annotated[bool, Option("--read-only", help="the key may not add or remove anything")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Make a key for the HTTP service.

    Prints a new secret, and the setting that admits it.
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
