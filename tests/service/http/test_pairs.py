"""Scores, rankings and embeddings over HTTP."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from refusals import check_refusal


@pytest.fixture
def uris(photo_bytes, data_uri) -> list[str]:
    return [data_uri(photo_bytes(seed)) for seed in range(4)]


def scored(reader, **body) -> list[dict]:
    answer = reader.post("/v1/score", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


@pytest.mark.parametrize(
    ("queries", "documents", "pairs"),
    [
        ("0", "1", [(0, 1)]),
        ("0", [1, 2, 3], [(0, 1), (0, 2), (0, 3)]),
        ([0], [1, 2], [(0, 1), (0, 2)]),
        ([0, 1], [2, 3], [(0, 2), (1, 3)]),
    ],
)
def test_queries_and_documents_are_paired_like_vllm_does(reader, scorer, uris, photo_bytes, queries, documents, pairs):
    def named(value):
        return uris[int(value)] if isinstance(value, str) else [uris[index] for index in value]

    answer = reader.post("/v1/score", json={"queries": named(queries), "documents": named(documents)}).json()
    expected = scorer.predict([(photo_bytes(a), photo_bytes(b)) for a, b in pairs], activation_fn=np.asarray)
    assert [item["index"] for item in answer["data"]] == list(range(len(pairs)))
    assert [item["raw_score"] for item in answer["data"]] == pytest.approx(expected.tolist(), abs=1e-6)
    relevance = scorer.runtime.relevance(np.array([item["raw_score"] for item in answer["data"]], np.float32))
    assert [item["score"] for item in answer["data"]] == [float(value) for value in relevance]
    assert (answer["object"], answer["model"]) == ("list", "tiny")
    assert answer["usage"]["pairs"] == len(pairs)


def test_two_queries_for_three_documents_are_refused(reader, uris):
    answer = reader.post("/v1/score", json={"queries": uris[:2], "documents": uris[1:]})
    check_refusal(answer, 422, "pairing_mismatch", "queries", "2 queries and 3 documents")


@pytest.mark.parametrize(
    ("path", "said", "options"),
    [
        ("/v1/score", {"queries": 0, "documents": [1, 2]}, {}),
        ("/v1/rerank", {"query": 0, "documents": [3, 1, 2]}, {"top_n": 2}),
        ("/v1/explain", {"images": [0, 1]}, {"links": 3, "matrix": True, "overlay": True}),
        ("/v1/embeddings", {"images": [0, 1]}, {"encoding_format": "base64"}),
    ],
)
def test_a_form_with_files_is_answered_as_json_is(reader, uris, photo_bytes, path, said, options):
    json = {name: [uris[n] for n in of] if isinstance(of, list) else uris[of] for name, of in said.items()}
    files = [(name, photo_bytes(n)) for name, of in said.items() for n in (of if isinstance(of, list) else [of])]
    fields = {name: str(value).lower() for name, value in options.items()}
    answers = [
        reader.post(path, json={**json, **options}),
        reader.post(path, files=files, data=fields),
    ]
    assert [answer.status_code for answer in answers] == [200, 200], answers[1].text
    by_json, by_form = ({**answer.json(), "id": None, "created": None} for answer in answers)
    assert by_json == by_form


def test_a_stored_picture_is_scored_from_its_tokens_even_when_its_file_is_gone(
    client, collection, uris, photo_bytes, tmp_path
):
    path = tmp_path / "elsewhere.jpg"
    path.write_bytes(photo_bytes(9))
    stored = {"id": collection.add(path)[0].id}
    before = scored(client, queries=uris[0], documents=stored)
    path.unlink()
    assert client.get(f"/v1/images/{stored['id']}/content").status_code == 404
    assert scored(client, queries=uris[0], documents=stored) == before
    unknown = client.post("/v1/score", json={"queries": uris[0], "documents": [stored, {"id": "0" * 32}]})
    check_refusal(unknown, 422, "unknown_image", "documents[1]")


def test_a_ranking_is_sorted_and_agrees_with_the_scores(reader, uris):
    scores = [item["raw_score"] for item in scored(reader, queries=uris[0], documents=uris)]
    answer = reader.post("/v1/rerank", json={"query": uris[0], "documents": uris}).json()
    assert set(answer) == {"id", "model", "question", "results", "usage"}
    order = [item["index"] for item in answer["results"]]
    assert order == sorted(range(4), key=lambda index: (index > 0, -scores[index])), "the query itself comes first"
    assert [item["raw_score"] for item in answer["results"]] == pytest.approx([scores[index] for index in order])
    assert all(0 <= item["relevance_score"] <= 1 and "document" not in item for item in answer["results"])
    assert [item["closer_look"] for item in answer["results"]] == [None] * 4, "as in /v1/score and /v1/search"


def test_a_ranking_is_cut_to_top_n_and_sends_documents_back_as_they_came(reader, shelf, uris):
    documents = [{"id": shelf.list(1)[0].id}, {"type": "image_url", "image_url": {"url": uris[1]}}, uris[2]]
    body = {"query": uris[0], "documents": documents, "top_n": 2, "return_documents": True, "model": "tiny"}
    results = reader.post("/v1/rerank", json=body).json()["results"]
    assert len(results) == 2
    assert [item["document"] for item in results] == [documents[item["index"]] for item in results]


def test_embeddings_are_unit_vectors_in_both_encodings(reader, scorer, uris, photo_bytes):
    plain = reader.post("/v1/embeddings", json={"input": uris[:2]}).json()
    packed = reader.post("/v1/embeddings", json={"input": uris[:2], "encoding_format": "base64"}).json()
    expected = scorer.panels([photo_bytes(0), photo_bytes(1)]).embeddings
    for index in range(2):
        assert plain["data"][index]["embedding"] == expected[index].astype(float).tolist()
        decoded = np.frombuffer(base64.b64decode(packed["data"][index]["embedding"]), "<f4")
        assert np.array_equal(decoded, expected[index])
    assert np.linalg.norm(plain["data"][0]["embedding"]) == pytest.approx(1, abs=1e-5)


def test_sent_and_stored_pictures_may_be_mixed_and_come_back_in_their_order(reader, shelf, uris, scorer, photo_bytes):
    stored = [{"id": record.id} for record in shelf.list(5)]
    mixed = reader.post("/v1/embeddings", json={"input": [uris[1], stored[3], uris[2], stored[0], stored[3]]}).json()
    expected = scorer.panels([photo_bytes(seed) for seed in (1, 3, 2, 0, 3)]).embeddings
    np.testing.assert_allclose([item["embedding"] for item in mixed["data"]], expected, atol=1e-5)


def test_an_explanation_has_the_score_and_the_links_and_on_request_matrix_and_overlay(
    reader, shelf, data_uri, photo_bytes
):
    stored, uri = {"id": shelf.list(1)[0].id}, data_uri(photo_bytes(9))
    answer = reader.post("/v1/explain", json={"images": [stored, uri], "links": 4}).json()
    (pair,) = scored(reader, queries=stored, documents=uri)
    assert (answer["relevance_score"], answer["raw_score"]) == (pair["score"], pair["raw_score"])
    assert (answer["grid"], len(answer["links"])) == ([4, 4], 4)
    assert {"attention", "overlay"}.isdisjoint(answer)
    full = reader.post("/v1/explain", json={"images": [uri, stored], "matrix": True, "overlay": True}).json()
    attention = np.array(full["attention"])
    assert attention.shape == (16, 16)
    assert full["crossing"] == pytest.approx(attention.sum(1).mean())
    first = answer["links"][0]
    assert full["links"][0] == {"patches": first["patches"][::-1], "share": first["share"]}
    (row, column), (other_row, other_column) = full["links"][0]["patches"]
    assert attention[4 * row + column, 4 * other_row + other_column] == pytest.approx(attention.max())
    assert full["overlay"].startswith("data:image/png;base64,iVBOR")
    for given in ({"json": {"images": [uri]}}, {"files": [("images", photo_bytes(1))]}):
        check_refusal(reader.post("/v1/explain", **given), 422, "invalid_request", "images")
    bad = reader.post("/v1/explain", json={"images": [uri, {"id": "nothing"}], "overlay": True})
    check_refusal(bad, 422, "unknown_image", "images[1]")


def test_the_same_file_is_the_same_sent_or_stored(reader, shelf, uris):
    stored = shelf.list(1)[0].id
    pairs = scored(reader, queries=[uris[0], {"id": stored}], documents=[uris[0], uris[0]])
    assert [(one["score"], one["verdict"]) for one in pairs] == [(1.0, "same")] * 2
    answer = reader.post("/v1/rerank", json={"query": uris[0], "documents": [uris[1], uris[0]]}).json()
    best, _ = answer["results"]
    assert (best["index"], best["relevance_score"], best["verdict"]) == (1, 1.0, "same")
    answer = reader.post("/v1/explain", json={"images": [uris[0], {"id": stored}]}).json()
    assert (answer["relevance_score"], answer["verdict"]) == (1.0, "same")
