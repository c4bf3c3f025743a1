"""The machine's date jumps under a running service, as far as that can see: a library answers for the kernel."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from started import until_ready

from diptych import Collection
from diptych_runtime.kernel import KernelError
from diptych_runtime.kernel.build import find_compiler

HOUR = 3600
# The seconds in a file are added to what the kernel says the date is. The clock that waits go by is left alone.
JUMPING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *found) {
    static int (*asked)(clockid_t, struct timespec *);
    if (!asked) asked = dlsym(RTLD_NEXT, "clock_gettime");
    int status = asked(clock, found);
    FILE *file = clock == CLOCK_REALTIME ? fopen(getenv("JUMPED_SECONDS"), "r") : NULL;
    long seconds = 0;
    if (file) {
        if (fscanf(file, "%ld", &seconds) == 1) found->tv_sec += seconds;
        fclose(file);
    }
    return status;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    try:
        command = find_compiler()
    except KernelError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("clock")
    (folder / "clock.c").write_text(JUMPING)
    built = folder / "clock.so"
    subprocess.run([command, "-x", "c", "-shared", "-fPIC", "-o", built, folder / "clock.c", "-ldl"], check=True)
    return built


class Service:
    """A service to which the date is so many seconds ahead of the machine's."""

    def __init__(self, folder: Path, artifact: Path, port: int, environment: dict[str, str]) -> None:
        self.store, self.offset, self.address = folder / "store", folder / "offset", f"http://127.0.0.1:{port}"
        self.jump(0)
        command = [sys.executable, "-m", "diptych", "serve", "--create", "--store", self.store, "--model", artifact]
        self.process = subprocess.Popen(
            [*map(str, command), "--port", str(port), "--threads", "1"],
            env=environment | {"JUMPED_SECONDS": str(self.offset), "DIPTYCH_STUCK_SECONDS": "60"},
            stderr=subprocess.PIPE,
            text=True,
        )
        until_ready(self.address, self.process)

    def jump(self, seconds: int) -> None:
        """Let the date be so many seconds ahead from now on."""
        self.offset.with_name("next").write_text(str(seconds))
        self.offset.with_name("next").replace(self.offset)

    def ask(self, path: str, **body: Any) -> Any:
        """The answer; an error is raised."""
        data = json.dumps(body).encode() if body else None
        with urlopen(Request(self.address + path, data, {"Content-Type": "application/json"}), timeout=60) as answer:
            return json.load(answer)


@pytest.fixture
def service(tmp_path, artifact, port, environment, library) -> Iterator[Service]:
    started = Service(tmp_path, artifact, port, environment | {"LD_PRELOAD": str(library)})
    yield started
    started.process.kill()
    started.process.communicate()


def test_a_service_whose_date_jumps_answers_as_before_and_ends_in_order(service, scorer, photo_bytes):
    jumps = [HOUR, 0, -HOUR, 0, 24 * HOUR, -24 * HOUR, 0]
    pictures = [base64.b64encode(photo_bytes(seed)).decode() for seed in range(len(jumps) + 1)]
    asked = {"queries": pictures[0], "documents": pictures[1:]}
    scores, added, began = service.ask("/v1/score", **asked)["data"], [], datetime.now().astimezone()
    for picture, seconds in zip(pictures, [0, *jumps], strict=True):
        service.jump(seconds)
        (item,) = service.ask("/v1/images", image=picture)["data"]
        added.append(item["id"])
        ahead = (datetime.fromisoformat(item["added"]) - began).total_seconds()
        assert abs(ahead - seconds) < 120, "the date did not jump"
        assert service.ask("/v1/score", **asked)["data"] == scores
        assert service.ask("/readyz")["status"] == "ready"
        assert service.ask("/v1/search", image=picture)["candidates"][0]["id"] == item["id"]
        assert [item["id"] for item in service.ask("/v1/images")["data"]] == added
    service.process.send_signal(signal.SIGTERM)
    _, said = service.process.communicate(timeout=30)
    assert service.process.returncode == 0, said
    assert "ERROR" not in said
    assert "Traceback" not in said
    with Collection.open(service.store, scorer) as collection:
        assert collection.verify().healthy
