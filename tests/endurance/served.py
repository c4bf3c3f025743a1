"""`diptych serve` over a store, in a process of its own."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from diptych.bench.command import start_process

START_SECONDS = 120.0


@contextmanager
def run_service(
    stored: Path, model: str, threads: int, *, option: str = "--store", environment: Mapping[str, str] | None = None
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Run the service; gives its port, once it is ready, and the process. Fails if it does not become ready."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = stored.with_name("service.log")
    options = [option, stored, "--port", port, "--model", model, "--threads", threads]
    command = [sys.executable, "-P", "-m", "diptych", "serve", *options]
    with log.open("wb") as file, start_process(command, stdout=file, stderr=file, env=environment) as process:
        deadline = time.monotonic() + START_SECONDS
        while not _is_ready(port):
            running = process.poll() is None and time.monotonic() < deadline
            assert running, f"the service did not become ready: {log.read_text(errors='replace')[-1000:]}"
            time.sleep(0.1)
        yield port, process


def _is_ready(port: int) -> bool:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
