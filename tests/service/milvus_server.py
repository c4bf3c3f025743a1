"""Milvus servers in processes of their own: the light one of the package milvus-lite, and the real one of its wheel."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pytest
from started import free_port

# Before any test has an output of its own, which pymilvus's log would hold on to and close with it.
with suppress(ImportError):
    import pymilvus  # noqa: F401  # pyright: ignore[reportMissingImports]

Kind = Literal["lite", "real"]

# The real server has an environment of its own, as it needs older packages; .ci/run makes it.
PYTHON = Path(__file__).parents[2] / ".venv-milvus/bin/python"
_REAL = """
import socket, sys
from milvus import MilvusServer

def bound(port):  # as Milvus itself listens: where connections of the server that was killed are still being ended
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        one.bind(("127.0.0.1", port))
    except OSError:
        return one.close()
    return one

server = MilvusServer()
server.config.try_bind_port = bound
server.config.update(proxy_port=int(sys.argv[1]), data_dir=sys.argv[2])
server.start()
server.server_proc.wait()
"""
_WAIT_SECONDS = 240.0

# For `params`: the names of fixtures, with what selects and skips them.
SERVERS = [
    pytest.param("lite", marks=pytest.mark.milvus),
    pytest.param(
        "real",
        marks=[
            pytest.mark.milvus,
            pytest.mark.slow,
            pytest.mark.skipif(not PYTHON.exists(), reason=f"there is no Milvus at {PYTHON}; .ci/run installs it"),
        ],
    ),
]


class MilvusServer:
    """A server on a free port with its data in a folder; `start` again after `kill` has what was acknowledged."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        """Skips the test where there is no such server."""
        pytest.importorskip("pymilvus", reason="pymilvus is not installed: pip install 'diptych[milvus]'")
        if kind == "lite":
            pytest.importorskip("milvus_lite", reason="milvus-lite is not installed: pip install milvus-lite")
        elif _taken(2380):
            pytest.skip("another Milvus runs here: the port 2380 of its etcd cannot be moved")
        self.kind, self.folder, self.port = kind, folder, free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start and wait until it answers."""
        from pymilvus import MilvusClient, MilvusException  # pyright: ignore[reportMissingImports]

        command = {
            "lite": [sys.executable, "-m", "milvus_lite", "server", "--host", "127.0.0.1", "--port", str(self.port)],
            "real": [str(PYTHON), "-c", _REAL, str(self.port), str(self.folder)],
        }[self.kind]
        if self.kind == "lite":
            # One worker: several write its log at the same time, which is then damaged (milvus-lite 3.2.2).
            command += ["--data-dir", str(self.folder), "--max-workers", "1"]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment["ROOTCOORD_DMLCHANNELNUM"] = "64"  # where collections share channels, a kill loses rows (2.3.5)
        with (self.folder.parent / "milvus.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, start_new_session=True, cwd=self.folder.parent
            )
        end = time.monotonic() + _WAIT_SECONDS
        while True:
            assert self.process.poll() is None, (self.folder.parent / "milvus.log").read_text(errors="replace")
            try:
                client = MilvusClient(f"http://127.0.0.1:{self.port}", timeout=2, dedicated=True)
                client.list_collections(timeout=2)  # pyright: ignore[reportUnusedCoroutine]
                client.close()
                return
            except MilvusException:
                assert time.monotonic() < end, "Milvus did not answer in time"
                time.sleep(0.1)

    def kill(self) -> None:
        """End the whole group of its processes at once, as a loss of power would."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None
            # That was the first of them; the others may take a little longer.
            end = time.monotonic() + 30
            while _taken(self.port) or (self.kind == "real" and _taken(2380)):
                assert time.monotonic() < end, "a process of Milvus goes on"
                time.sleep(0.02)

    def __enter__(self) -> MilvusServer:
        self.folder.mkdir()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def place(self, collection: str, **options: object) -> str:
        """The address of a collection on it."""
        asked = "&".join(f"{name}={value}" for name, value in options.items())
        return f"milvus://127.0.0.1:{self.port}/{collection}" + (f"?{asked}" if asked else "")


def _taken(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
