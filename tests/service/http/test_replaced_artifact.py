"""The artifact of a running service is replaced."""

from __future__ import annotations

import shutil
import signal

import httpx
from started import until_ready


# Written over and removed it is in one process, in `tests/runtime/test_runtime.py`.
def test_a_service_answers_by_the_model_it_loaded_or_says_why_not_and_the_next_start_says_what_happened(
    artifact, artifact_of_two, port, spawn, tmp_path, photo_bytes, data_uri
):
    served, address = tmp_path / "model", f"http://127.0.0.1:{port}"
    shutil.copytree(artifact, served)
    command = ("serve", "--create", "--store", tmp_path / "store", "--port", port, "--model", served, "--threads", 1)
    process = spawn(*command)
    until_ready(address, process)
    pictures = [data_uri(photo_bytes(seed)) for seed in range(3)]
    asked = {"queries": pictures[0], "documents": pictures[1:]}
    with httpx.Client(base_url=address, timeout=60) as client:
        assert client.post("/v1/images", json={"image": pictures[0]}).status_code == 201
        scores, revision = client.post("/v1/score", json=asked).json()["data"], client.get("/info").json()["revision"]
        served.rename(served.with_name("old"))
        shutil.copytree(artifact_of_two, served)
        assert client.post("/v1/score", json=asked).json()["data"] == scores
        assert client.get("/info").json()["revision"] == revision
        assert client.post("/v1/images", json={"image": pictures[1]}).status_code == 201
        explained = client.post("/v1/explain", json={"images": pictures[:2]})
        assert explained.status_code == 500
        assert "explain.onnx is damaged or was exchanged" in explained.json()["error"]["message"]
        assert client.get("/readyz").status_code == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    again = spawn(*command)
    assert again.wait(60) == 1
    said = again.communicate()[1]
    assert "Traceback" not in said
    assert "were embedded by another model" in said
