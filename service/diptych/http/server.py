"""The HTTP application under uvicorn, from the first line of its log to an orderly end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from ipaddress import ip_address
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

from diptych.errors import SettingsError
from diptych.log_format import RateLimit, VisibleFormatter
from diptych.signals import end_orderly

if TYPE_CHECKING:
    from fastapi import FastAPI

    from diptych.http.settings import Settings

logger = logging.getLogger(__name__)

# Seconds that Python lets a thread go on while others wait. The scheduler's come back from each chunk for microseconds;
# by default (0.005) they would often wait that long while another thread reads or writes a request's JSON.
SWITCH = 0.0005
STUCK = 70  # EX_SOFTWARE: what runs the service should start it again


def configure_log(form: str, *, quiet: bool = False) -> None:
    """Configure the log: to standard error, a line an event, as "text" or as "json"."""
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
        handler.setFormatter(VisibleFormatter("{asctime} {levelname:7} {message}", style="{"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    for name in ("uvicorn.error", "diptych.http.connections"):  # what anybody who reaches the port can bring about
        logging.getLogger(name).addFilter(RateLimit())
    root.setLevel(logging.WARNING if quiet else logging.INFO)


def bind_sockets(host: str, port: int) -> list[socket.socket]:
    """Bind sockets to this port (0 for any) on a host; they do not answer yet.

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


def is_loopback(one: socket.socket) -> bool:
    """True for a bound socket that only this machine can reach."""
    return ip_address(one.getsockname()[0].partition("%")[0]).is_loopback


def run(app: FastAPI, sockets: list[socket.socket], settings: Settings) -> None:
    """Serve until SIGINT (Ctrl-C), or a signal like SIGTERM (`end_orderly`); requests in progress are still answered.

    Either is how a service ends, and no error.
    """
    import uvicorn

    from diptych.http.connections import Connections, limit_connections, log_failure

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            """Have `log_failure` log the connections that cannot be accepted."""
            asyncio.get_running_loop().set_exception_handler(log_failure)
            await super().startup(sockets)

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            """After SIGTERM it first says for a while that it will end, for others to turn elsewhere."""
            health = app.state.context.health
            if sig == signal.SIGTERM and settings.drain_seconds and not health.draining:
                logger.info("SIGTERM: ending in %g s", settings.drain_seconds)
                health.draining = True
                asyncio.get_running_loop().call_later(settings.drain_seconds, self._end_reading, sig, frame)
                return
            self._end_reading(sig, frame)

        def _end_reading(self, sig: int, frame: FrameType | None) -> None:
            """Take and read no more requests."""
            asyncio.get_running_loop().call_soon_threadsafe(app.state.body_limits.end_reading)
            super().handle_exit(sig, frame)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """Take no more connections, and end those there are."""
            connections.ending = True
            await super().shutdown(sockets)

    sys.setswitchinterval(SWITCH)
    # Uvicorn ends by giving itself the signal again: the collection must be closed then, and the exit code be 0.
    end_orderly()
    connections = Connections(limit_connections())
    config = uvicorn.Config(
        app, http=cast(Any, connections.make_connection), log_config=None, access_log=False, server_header=False
    )
    config.timeout_graceful_shutdown = round(settings.seconds)
    watch = threading.Thread(target=_end_when_stuck, args=(app, settings.stuck_seconds), daemon=True)
    watch.start()
    server = Server(config)
    # After a second Ctrl-C uvicorn ends at once, and would log where that met it.
    logging.getLogger("uvicorn.error").addFilter(lambda record: not (server.force_exit and record.levelname == "ERROR"))
    with suppress(KeyboardInterrupt):  # which uvicorn raises at the end, after Ctrl-C
        server.run(sockets)


def _end_when_stuck(app: FastAPI, seconds: float) -> None:
    """End the process once a computation has been running for too long: no thread can be stopped from outside.

    /readyz has said so for a tenth of the time by then. Nothing acknowledged is lost. Only what this process sees of it
    counts: one that was stopped (SIGSTOP, `docker pause`) has not hung.
    """
    tick = min(1.0, seconds / 10)
    seen = 0.0
    while seen <= 1.1 * seconds:
        time.sleep(tick)
        seen = min(seen + tick, app.state.context.longest_running())
    logger.critical("a computation has been running for %.0f s; ending with code %d", seen, STUCK)
    logging.shutdown()
    os._exit(STUCK)
