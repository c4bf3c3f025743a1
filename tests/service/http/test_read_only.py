"""A collection that cannot be written is served, and a change is refused."""

import os
import signal
import subprocess

import httpx
import pytest
from refusals import check_refusal
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
        with httpx.Client(base_url=address, timeout=60) as client:
            first = client.get("/v1/images").json()["data"][0]["id"]
            assert client.post("/v1/search", json={"image": {"id": first}}).json()["matches"]
            added = client.post("/v1/images", files={"image": photo_bytes(77)})
            for refused in (added, client.delete(f"/v1/images/{first}")):
                check_refusal(refused, 403, "read_only", "collection", "opened for reading only; nothing was changed")
        process.send_signal(signal.SIGTERM)
        assert f"{store} cannot be written: it is served for reading only" in process.communicate(timeout=30)[1]
        assert process.returncode == 0
    finally:
        subprocess.run(["umount", "-l", store], check=True)
