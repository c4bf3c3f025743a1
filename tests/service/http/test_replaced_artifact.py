"""The artifact of a running service is replaced."""

from __future__ import annotations

import base64
import json
import shutil
import signal
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from started import until_ready


# Written over and removed it is in one process, in `tests/runtime/test_runtime.py`.
def test_a_service_answers_by_the_model_it_loaded_or_says_why_not_and_the_next_start_says_what_happened(
    artifact, artifact_of_two, port, spawn, tmp_path, photo_bytes
):
    served, address = tmp_path / "model", f"http://127.0.0.1:{port}"
    shutil.copytree(artifact, served)
    command = ("serve", "--create", "--store", tmp_path / "store", "--port", port, "--model", served, "--threads", 1)
    process = spawn(*command)
    until_ready(address, process)

    def ask(path: str, **body: Any) -> tuple[int, Any]:
        data = json.dumps(body).encode() if body else None
        try:
            with urlopen(Request(address + path, data, {"Content-Type": "application/json"}), timeout=60) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            with error:
                return error.code, json.load(error)

    pictures = [base64.b64encode(photo_bytes(seed)).decode() for seed in range(3)]
    asked = {"queries": pictures[0], "documents": pictures[1:]}
    assert ask("/v1/images", image=pictures[0])[0] == 201
    scores, info = ask("/v1/score", **asked)[1]["data"], ask("/info")[1]
    served.rename(served.with_name("old"))
    shutil.copytree(artifact_of_two, served)
    assert ask("/v1/score", **asked)[1]["data"] == scores
    assert ask("/info")[1]["revision"] == info["revision"]
    assert ask("/v1/images", image=pictures[1])[0] == 201
    status, answer = ask("/v1/explain", images=pictures[:2])
    assert status == 500
    assert "explain.onnx is damaged or was exchanged" in answer["error"]["message"]
    assert ask("/readyz")[0] == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    again = spawn(*command)
    assert again.wait(60) == 1
    said = again.communicate()[1]
    assert "Traceback" not in said
    assert "were embedded by another model" in said
