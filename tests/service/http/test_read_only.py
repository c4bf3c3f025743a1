"""A collection that cannot be written is served, and a change is refused."""

import base64
import json
import os
import signal
import subprocess
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from started import until_ready


def test_a_collection_on_a_read_only_disk_is_served_for_reading(
    artifact, port, spawn, tmp_path, collection, photo_bytes
):
    collection.close()
    store, address = tmp_path / "disk", f"http://127.0.0.1:{port}"
    store.mkdir()
    for options in (["--bind", collection.directory], ["-o", "remount,bind,ro"]):
        if os.geteuid() or subprocess.run(["mount", *map(str, options), store], capture_output=True).returncode:
            pytest.skip("a read-only disk cannot be mounted here")
    try:
        process = spawn("serve", "--store", store, "--port", port, "--model", artifact, "--threads", 1)
        until_ready(address, process)
        with urlopen(f"{address}/v1/images") as answer:
            first = json.load(answer)["data"][0]["id"]
        search = json.dumps({"image": {"id": first}, "top": 3}).encode()
        with urlopen(Request(f"{address}/v1/search", search, {"Content-Type": "application/json"})) as answer:
            assert json.load(answer)["matches"][0]["id"] != ""
        body = json.dumps({"image": base64.b64encode(photo_bytes(77)).decode()}).encode()
        added = Request(f"{address}/v1/images", body, {"Content-Type": "application/json"})
        for change in (added, Request(f"{address}/v1/images/{first}", method="DELETE")):
            with pytest.raises(HTTPError) as refused, urlopen(change):
                pytest.fail("it was changed")
            error = json.load(refused.value)["error"]
            assert (refused.value.code, error["code"]) == (403, "read_only")
            assert "opened for reading only; nothing was changed" in error["message"]
        process.send_signal(signal.SIGTERM)
        assert f"{store} cannot be written: it is served for reading only" in process.communicate(timeout=30)[1]
        assert process.returncode == 0
    finally:
        subprocess.run(["umount", "-l", store], check=True)
