"""The machine's date jumps under a running service, as far as that can see: a library answers for the kernel."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
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


@pytest.fixture
def service(tmp_path, artifact, port, environment, library, spawn) -> subprocess.Popen[str]:
    """A service to which the date is as many seconds ahead of the machine's as the file `offset` says."""
    (tmp_path / "offset").write_text("0")
    environment |= {
        "LD_PRELOAD": str(library),
        "JUMPED_SECONDS": str(tmp_path / "offset"),
        "DIPTYCH_STUCK_SECONDS": "60",
    }
    words = ("--store", tmp_path / "store", "--model", artifact, "--port", port, "--threads", 1)
    process = spawn("serve", "--create", *words)
    until_ready(f"http://127.0.0.1:{port}", process)
    return process


def test_a_service_whose_date_jumps_answers_as_before_and_ends_in_order(service, scorer, photo_bytes, port, tmp_path):
    def ask(path: str, **body: Any) -> Any:
        data = json.dumps(body).encode() if body else None
        request = Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"})
        with urlopen(request, timeout=60) as answer:
            return json.load(answer)

    jumps = [HOUR, -HOUR, 0, 24 * HOUR, -24 * HOUR]
    pictures = [base64.b64encode(photo_bytes(seed)).decode() for seed in range(len(jumps) + 1)]
    asked = {"queries": pictures[0], "documents": pictures[1:]}
    scores, added, began = ask("/v1/score", **asked)["data"], [], datetime.now().astimezone()
    for picture, seconds in zip(pictures, [0, *jumps], strict=True):
        (tmp_path / "next").write_text(str(seconds))
        (tmp_path / "next").replace(tmp_path / "offset")
        (item,) = ask("/v1/images", image=picture)["data"]
        added.append(item["id"])
        ahead = (datetime.fromisoformat(item["added"]) - began).total_seconds()
        assert abs(ahead - seconds) < 120, "the date did not jump"
        assert ask("/v1/score", **asked)["data"] == scores
        assert ask("/readyz")["status"] == "ready"
        assert ask("/v1/search", image=picture)["candidates"][0]["id"] == item["id"]
        assert [item["id"] for item in ask("/v1/images")["data"]] == added
    service.send_signal(signal.SIGTERM)
    _, said = service.communicate(timeout=30)
    assert service.returncode == 0, said
    assert "ERROR" not in said
    assert "Traceback" not in said
    with Collection.open(tmp_path / "store", scorer) as collection:
        assert collection.verify().healthy
