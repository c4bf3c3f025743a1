"""Clients that people have already, pointed at the service."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

COHERE = """
import cohere, json, sys
asked = json.load(sys.stdin)
client = getattr(cohere, asked["client"])(api_key="any", base_url=asked["url"])
given = {name: asked[name] for name in ("model", "query", "documents")} | asked["more"]
answer = client.rerank(**given, top_n=2)
print(json.dumps([[found.index, found.relevance_score] for found in answer.results]))
"""


@pytest.mark.parametrize(
    ("client", "more"), [("Client", {"max_chunks_per_doc": 10}), ("ClientV2", {"max_tokens_per_doc": 4096})]
)
def test_cohere_s_client_reranks_pictures_as_it_does_texts(client, more, reader, scorer, data_uri, photo_bytes):
    if find_spec("cohere") is None:
        pytest.skip("the package cohere is not installed")
    query, documents = data_uri(photo_bytes(1)), [data_uri(photo_bytes(seed)) for seed in (2, 1, 3)]
    asked = {"client": client, "url": str(reader.base_url).rstrip("/"), "model": scorer.runtime.name, "more": more}
    done = subprocess.run(
        [sys.executable, "-c", COHERE],
        input=json.dumps(asked | {"query": query, "documents": documents}),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    wanted = reader.post("/v1/rerank", json={"query": query, "documents": documents, "top_n": 2}).json()["results"]
    assert json.loads(done.stdout) == [[found["index"], found["relevance_score"]] for found in wanted]
    assert len(wanted) == 2
