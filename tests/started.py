"""A service that was started in a process of its own."""

import random
import socket
import subprocess
import time
from contextlib import suppress
from urllib.error import HTTPError, URLError
from urllib.request import urlopen


def free_port() -> int:
    """A port of this machine that nobody listens on.

    It is below those that outgoing connections get, so that none takes it while who listens there is started anew.
    """
    while True:
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", random.randint(20_000, 32_000)))
            return free.getsockname()[1]


def until_ready(address: str, process: subprocess.Popen[str]) -> None:
    """Wait until the service answers that it is ready; fails if its process ends or a minute is over."""
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        assert process.poll() is None, process.communicate()[1]
        try:
            with urlopen(f"{address}/readyz") as answer:
                assert answer.status == 200
                return
        except (HTTPError, URLError) as error:
            if isinstance(error, HTTPError):
                error.close()
            time.sleep(0.05)
    raise AssertionError("the service did not become ready within a minute")
