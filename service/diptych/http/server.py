"""`diptych serve`: the HTTP application under uvicorn, from the first line of its log to an orderly end."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING

from diptych.cli.index import load
from diptych.collection.collection import Collection
from diptych.collection.registry import Collections
from diptych.collection.sync.follow import Follower
from diptych.console import emit, remark
from diptych.errors import SettingsError
from diptych.scoring.decode_pool import Workers
from diptych.scoring.scorer import Scorer
from diptych.scoring.watchdog import CLOCK
from diptych.store.location import Address

if TYPE_CHECKING:
    from fastapi import FastAPI

    from diptych.http.settings import Settings

logger = logging.getLogger(__name__)

# Seconds that Python lets a thread go on while others wait. The engine's come back from each chunk for microseconds;
# by default (0.005) they would often wait that long while another thread reads or writes a request's JSON.
SWITCH = 0.0005
STUCK = 70  # EX_SOFTWARE: what runs the service should start it again


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
        runtime = load(args).runtime
        # Two at least: a picture that hangs must not hold up all others.
        workers = stack.enter_context(
            Workers(max(2, runtime.threads), seconds=settings.decode_seconds, memory=settings.decode_memory)
        )
        scorer = Scorer(runtime, decoder=workers)
        stored = None
        if args.store is not None:
            stored = stack.enter_context(Collection.open(args.store, scorer, create=True))
        elif args.collections is not None:
            stored = stack.enter_context(Collections.open(args.collections, scorer))
        for name, one in Collections.of(stored).opened().items():
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
    from diptych.http.middleware.auth import new_key, written

    try:
        secret, made = new_key(args.name, "read" if args.read_only else "admin")
    except ValueError as error:
        raise SettingsError(str(error)) from None
    line = written(made)
    emit(
        args,
        {"key": secret, "setting": line},
        f"{secret}\n\nThat is shown once. Let it in with the line below, in DIPTYCH_KEYS (several: a space between) or "
        f"in `keys` of the settings:\n\n{line}",
    )
    return 0


def log(form: str, *, quiet: bool = False) -> None:
    """Send what the service and its server log to standard error, a line an event, as "text" or as "json"."""
    handler = logging.StreamHandler()
    if form == "json":
        from pythonjsonlogger.core import RESERVED_ATTRS
        from pythonjsonlogger.json import JsonFormatter

        handler.setFormatter(
            JsonFormatter(
                "{asctime}{levelname}{name}{message}",
                style="{",
                rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
                reserved_attrs=[*RESERVED_ATTRS, "color_message"],
            )
        )
    else:
        handler.setFormatter(logging.Formatter("{asctime} {levelname:7} {message}", style="{"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING if quiet else logging.INFO)


def bound(host: str, port: int) -> list[socket.socket]:
    """Sockets with this port, 0 for any that is free, on all addresses of a host; nobody is answered there yet.

    Raises SettingsError, before anything is loaded, where that is not possible.
    """
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        for family, kind, protocol, _, (address, _, *scope) in found:
            # asyncio answers without a delay (TCP_NODELAY) only where the protocol is named: without it every answer on
            # a connection that is kept would come 40 ms late.
            one = socket.socket(family, kind, protocol)
            sockets.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind((address, port, *scope))
            port = one.getsockname()[1]
    except OSError as error:
        for one in sockets:
            one.close()
        reason = f"nothing can be served at {host}, port {port}: {error.strerror}"
        raise SettingsError(f"{reason}; name another with --host or --port") from None
    return sockets


def run(app: FastAPI, sockets: list[socket.socket], settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM; what is being answered then is answered."""
    import uvicorn

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            """After SIGTERM it first says for a while that it will end, for others to turn elsewhere."""
            context = app.state.context
            if sig == signal.SIGTERM and settings.drain_seconds and not context.work.draining:
                logger.info("SIGTERM: ending in %g s", settings.drain_seconds)
                context.work.draining = True
                asyncio.get_running_loop().call_later(settings.drain_seconds, super().handle_exit, sig, frame)
                return
            super().handle_exit(sig, frame)

    sys.setswitchinterval(SWITCH)
    # Uvicorn ends by giving itself the signal again: the collection must be closed then, and the exit code be 0.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    config = uvicorn.Config(app, log_config=None, access_log=False, server_header=False)
    config.timeout_graceful_shutdown = round(settings.seconds)
    watch = threading.Thread(target=_end_when_stuck, args=(app, settings.stuck_seconds), daemon=True)
    watch.start()
    Server(config).run(sockets)


def _end_when_stuck(app: FastAPI, seconds: float) -> None:
    """End the process once a computation has been running for too long: no thread can be stopped from outside.

    /readyz has said so for a tenth of the time by then. Nothing acknowledged is lost. As long as the process itself was
    stopped does not count.
    """
    tick = min(1.0, seconds / 10)
    CLOCK.tick(0.0)
    while True:
        time.sleep(tick)
        CLOCK.tick(tick)
        oldest = app.state.context.oldest()
        if oldest > 1.1 * seconds:
            logger.critical("a computation has been running for %.0f s; ending with code %d", oldest, STUCK)
            logging.shutdown()
            os._exit(STUCK)
