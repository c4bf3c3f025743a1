"""Requests as clients of vLLM, Cohere, infinity and Text Embeddings Inference make them, under their routes."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

ALIASES = {"/score": "/v1/score", "/rerank": "/v1/rerank", "/v2/rerank": "/v1/rerank"}


@pytest.fixture(scope="module")
def uris(data_uri, photo_bytes) -> list[str]:
    return [data_uri(photo_bytes(seed)) for seed in range(4)]


def part(uri: str) -> dict:
    return {"type": "image_url", "image_url": {"url": uri}}


def body_of(route: str, uris: list[str]) -> dict:
    return {"queries" if route == "/score" else "query": uris[0], "documents": uris[1:]}


def answered(client, route: str, body: dict) -> dict:
    answer = client.post(route, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(("route", "own"), ALIASES.items())
def test_an_alias_answers_what_the_route_does_that_it_stands_for(reader, uris, route, own):
    body = body_of(route, uris) | {"question": "copy"}
    there, here = (answered(reader, path, body) | {"id": None, "created": None} for path in (route, own))
    assert there == here
    counted = f'diptych_request_seconds_count{{method="POST",route="{route}",status="200"}}'
    assert counted in reader.get("/metrics").text


def test_vllm_s_client_scores_pictures_as_content_parts(reader, uris):
    asked = {
        **{"model": "tiny", "text_1": {"content": [part(uris[0])]}, "text_2": {"content": [*map(part, uris[1:])]}},
        **{"truncate_prompt_tokens": -1, "truncation_side": "right", "mm_processor_kwargs": {"max_pixels": 1000}},
        **{"priority": 0, "request_id": "mine", "use_activation": True},
    }
    expected = answered(reader, "/v1/score", body_of("/score", uris))
    answer = answered(reader, "/score", asked)
    told = ("object", "model", "usage", "data")
    assert [answer[name] for name in told] == [expected[name] for name in told]
    raw = answered(reader, "/score", asked | {"use_activation": False})["data"]
    assert [item["score"] for item in raw] == [item["raw_score"] for item in expected["data"]]


def test_vllm_s_and_infinity_s_clients_rank_by_content_parts_get_documents_back_and_logits_for_raw_scores(reader, uris):
    parts = {"query": {"content": [part(uris[0])]}, "documents": [{"content": [part(uri)]} for uri in uris[1:]]}
    ignored = {"max_tokens_per_query": 0, "max_tokens_per_doc": 0}
    every = answered(reader, "/rerank", {"model": "tiny", **parts, **ignored, "top_n": 0})["results"]
    assert every == answered(reader, "/v1/rerank", body_of("/rerank", uris))["results"], "0 means all"
    asked = {"model": "tiny", "query": uris[0], "documents": uris[1:], "top_n": 2, "return_documents": True}
    probable = answered(reader, "/rerank", asked | {"raw_scores": False})["results"]
    raw = answered(reader, "/rerank", asked | {"raw_scores": True})["results"]
    assert [item["document"] for item in raw] == [uris[1 + item["index"]] for item in probable]
    assert [item["relevance_score"] for item in raw] == [item["raw_score"] for item in probable]
    assert [item["relevance_score"] for item in probable] != [item["raw_score"] for item in probable]


@pytest.mark.parametrize("back", [False, True])
def test_the_client_of_text_embeddings_inference_sends_texts_and_gets_a_list(reader, uris, back):
    asked = {"query": uris[0], "texts": uris[1:], "truncate": True, "truncation_direction": "Right"}
    answer = answered(reader, "/rerank", asked | {"raw_scores": False, "return_text": back})
    expected = answered(reader, "/v1/rerank", {"query": uris[0], "documents": uris[1:]})["results"]
    text = lambda index: {"text": uris[1 + index]} if back else {}  # noqa: E731
    assert answer == [
        {"index": item["index"], "score": item["relevance_score"], **text(item["index"])} for item in expected
    ]
    raw = answered(reader, "/rerank", asked | {"raw_scores": True})
    assert [item["score"] for item in raw] == [item["raw_score"] for item in expected]


COHERE = """
import cohere, json, sys
url, given = json.load(sys.stdin)
for client, more in (cohere.Client, {"max_chunks_per_doc": 10}), (cohere.ClientV2, {"max_tokens_per_doc": 4096}):
    answer = client(api_key="any", base_url=url).rerank(**given, **more, top_n=2)
    print(json.dumps([[found.index, found.relevance_score] for found in answer.results]))
"""


def test_cohere_s_clients_rerank_pictures_as_they_do_texts(reader, uris):
    if find_spec("cohere") is None:
        pytest.skip("the package cohere is not installed")
    given = {"model": "tiny", "query": uris[1], "documents": [uris[place] for place in (2, 1, 3)]}
    asked = json.dumps([str(reader.base_url).rstrip("/"), given])
    command = [sys.executable, "-c", COHERE]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    wanted = answered(reader, "/v1/rerank", given | {"top_n": 2})["results"]
    told = [[found["index"], found["relevance_score"]] for found in wanted]
    assert [json.loads(line) for line in done.stdout.splitlines()] == [told, told]
    assert len(told) == 2
