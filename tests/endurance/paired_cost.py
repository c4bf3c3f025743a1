"""Processor time of two checkouts for the same requests: `python tests/endurance/paired_cost.py OLD NEW --pairs 6`.

Each pair starts `diptych serve` of both checkouts on one core, over a store that each has made of the same drawn
photos, and asks both at once; the processor time of all processes of each service is counted, user and system. What
else the machine does slows both alike. The commits before and after a change are checkouts of this one: `git worktree
add`.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
from soak import children, draw_cuts

ROUTES = ("/v1/rerank", "/v1/search")
STORED = 101
_TICKS = os.sysconf("SC_CLK_TCK")


def environment(checkout: Path, folder: Path) -> dict[str, str]:
    """That of a process which runs the packages of a checkout, with one thread; `folder` gets their commands, as an
    installation has them.
    """
    project = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installed = folder / f"{project['name']}.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    (installed / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
            for group, entries in project["entry-points"].items()
        )
    )
    packages = [folder, *(checkout.absolute() / name for name in ("model", "training", "export", "service"))]
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, packages)), "OMP_NUM_THREADS": "1"}


def processor_seconds(pid: int) -> float:
    """User and system time of a process and of all below it, with those that have ended."""
    total = 0
    for one in (pid, *children(pid)):
        with contextlib.suppress(OSError):  # it has just ended
            total += sum(map(int, Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return total / _TICKS


@contextlib.contextmanager
def serving(environment: dict[str, str], store: Path, model: str, core: int) -> Iterator[tuple[int, httpx.Client]]:
    """The service of a checkout on one core: its process and a client of it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["taskset", "-c", str(core), sys.executable, "-m", "diptych", "serve", "--store", str(store)]
    options = ["--port", str(port), "--model", model, "--threads", "1", "--quiet"]
    with subprocess.Popen([*command, *options], env=environment) as process:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=600) as client:
                while not _ready(client):
                    if process.poll() is not None:
                        raise RuntimeError(f"the service ended with {process.returncode}")
                    time.sleep(0.2)
                yield process.pid, client
        finally:
            process.terminate()


def _ready(client: httpx.Client) -> bool:
    try:
        return client.get("/readyz").status_code == 200
    except httpx.ConnectError:
        return False


def ask(client: httpx.Client, route: str, body: dict[str, object], clients: int, requests: int) -> None:
    """Send the same request so many times by each of the clients at once. Raises httpx.HTTPError."""
    failed: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(requests):
                client.post(route, json=body).raise_for_status()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def pair(
    checkouts: Sequence[dict[str, str]], stores: Sequence[Path], query: bytes, args: argparse.Namespace
) -> list[list[float]]:
    """Processor milliseconds of a request by route, of both checkouts that are asked at once."""
    found: list[list[float]] = []
    with contextlib.ExitStack() as stack:
        services = [
            stack.enter_context(serving(checkout, store, args.model, args.core))
            for checkout, store in zip(checkouts, stores, strict=True)
        ]
        sent = base64.b64encode(query).decode()
        listed = services[0][1].get("/v1/images", params={"limit": STORED - 1}).json()["data"]
        bodies: dict[str, dict[str, object]] = {
            "/v1/rerank": {"query": sent, "documents": [{"id": one["id"]} for one in listed]},
            "/v1/search": {"image": sent, "candidates": 100},
        }
        for route in ROUTES:
            for _, client in services:  # what is made at the first request is no part of it
                ask(client, route, bodies[route], 1, 1)
            before = [processor_seconds(pid) for pid, _ in services]
            asking = [
                threading.Thread(target=ask, args=(client, route, bodies[route], args.clients, args.requests))
                for _, client in services
            ]
            for thread in asking:
                thread.start()
            for thread in asking:
                thread.join()
            count = args.clients * args.requests
            found.append(
                [
                    1000 * (processor_seconds(pid) - earlier) / count
                    for (pid, _), earlier in zip(services, before, strict=True)
                ]
            )
    return found


def main() -> int:
    """Measure the pairs and print a row of a table for each route."""
    parser = argparse.ArgumentParser(description="Compare the processor time of two checkouts.")
    parser.add_argument("checkouts", nargs=2, type=Path, metavar="CHECKOUT", help="the old one and the new one")
    parser.add_argument("--model", default="photo-small")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--requests", type=int, default=30, help="of each client (default: 30)")
    parser.add_argument("--core", type=int, default=0)
    args = parser.parse_args()
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        photos = Path(folder, "photos")
        photos.mkdir()
        for number, picture in enumerate(draw_cuts(STORED, 0)):
            picture.save(photos / f"{number:03d}.jpg", quality=90)
        stores = [Path(folder, name) for name in ("old", "new")]
        checkouts = [environment(one, store / "installed") for one, store in zip(args.checkouts, stores, strict=True)]
        stores = [store / "store" for store in stores]
        for checkout, store in zip(checkouts, stores, strict=True):
            add = [sys.executable, "-m", "diptych", "index", "add", photos, "--store", store, "--model", args.model]
            subprocess.run([*add, "--quiet"], env=checkout, check=True)
        query = (photos / "000.jpg").read_bytes()
        for number in range(args.pairs):
            measured.append(pair(checkouts, stores, query, args))
            print(f"pair {number + 1}: {measured[-1]}", file=sys.stderr, flush=True)
    print("| | before | after | ratio, median of the pairs | lowest, highest |\n|---|---:|---:|---:|---:|")
    for place, route in enumerate(ROUTES):
        old, new = (statistics.median(one[place][side] for one in measured) for side in (0, 1))
        ratios = [one[place][1] / one[place][0] for one in measured]
        shown = f"{statistics.median(ratios):.3f} | {min(ratios):.3f}, {max(ratios):.3f}"
        print(f"| `{route}` | {old:.1f} ms | {new:.1f} ms | {shown} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
