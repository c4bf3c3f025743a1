"""Several collections over HTTP: named in every request, made, listed and removed."""

from __future__ import annotations

import base64

import httpx
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from refusals import check_refusal
from scorers import wait_until

from diptych.collection.collection import Collection
from diptych.collection.registry import Collections
from diptych.http.settings import Settings
from diptych.scoring.scorer import Scorer
from diptych.store.sqlite.schema import DATABASE

PLACE = "collection"


def add(client: httpx.Client, data: bytes, **fields: str) -> str:
    answer = client.post("/v1/images", files={"image": data}, data=fields)
    assert answer.status_code == 201, answer.text
    return answer.json()["data"][0]["id"]


def figures(client: httpx.Client, name: str) -> dict[str, float]:
    families = text_string_to_metric_families(client.get("/metrics").text)
    return {
        one.labels.get("collection", ""): one.value for family in families for one in family.samples if one.name == name
    }


def test_a_collection_is_made_once_listed_and_removed_with_as_many_pictures_as_are_said(several, scorer, photo_bytes):
    with several("bags") as client:
        made, again = (client.post("/v1/collections", json={"name": "shoes"}) for _ in range(2))
        assert (made.status_code, again.status_code) == (201, 200)
        add(client, photo_bytes(1), collection="shoes")
        assert figures(client, "diptych_collection_pictures") == {"bags": 0, "shoes": 1}
        assert figures(client, "diptych_index_generation") == {"bags": 0, "shoes": 1}
        one = client.get("/v1/collections/shoes").json()
        assert one.pop("disk_bytes") > 0
        assert one == {
            **{"name": "shoes", "object": "collection", "pictures": 1, "generation": 1, "fault": None},
            **{"model": scorer.runtime.name, "revision": scorer.runtime.revision},
        }
        for query in ("", "?pictures=2"):
            check_refusal(client.delete(f"/v1/collections/shoes{query}"), 409, "collection_kept", PLACE)
        gone = client.delete("/v1/collections/shoes?pictures=1")
        assert gone.json() == {"name": "shoes", "object": "collection", "deleted": True, "pictures": 1}
        for answer in (client.delete("/v1/collections/shoes"), client.get("/v1/collections/shoes")):
            check_refusal(answer, 404, "unknown_collection", PLACE)
        listed = client.get("/v1/collections").json()
        assert (listed["object"], [one["name"] for one in listed["data"]]) == ("list", ["bags"])
        assert figures(client, "diptych_collection_pictures") == {"bags": 0}


def test_every_route_takes_the_name_of_a_collection_and_finds_nothing_in_another(several, photo_bytes, data_uri):
    uri = data_uri(photo_bytes(1))
    with several("bags", "shoes") as client:
        id = add(client, photo_bytes(1), collection="shoes")
        json = client.post("/v1/images", json={"image": data_uri(photo_bytes(2)), "collection": "shoes"})
        assert json.status_code == 201
        stored = {"id": id}
        bodies = {
            "/v1/search": {"image": stored},
            "/v1/score": {"queries": stored, "documents": uri},
            "/v1/rerank": {"query": stored, "documents": [uri]},
            "/v2/rerank": {"query": uri, "documents": [stored]},
            "/v1/explain": {"images": [stored, uri], "overlay": True},
            "/v1/embeddings": {"input": stored},
        }
        for path, body in bodies.items():
            answer = client.post(path, json={**body, "collection": "shoes"})
            assert answer.status_code == 200, path
            assert "overlay" not in body or base64.b64decode(answer.json()["overlay"][22:]).startswith(b"\x89PNG")
            assert client.post(path, json={**body, "collection": "bags"}).status_code == 422, path
            check_refusal(client.post(path, json=body), 422, "collection_name", PLACE)
            wrong = client.post(path, json={**body, "collection": "hats"})
            check_refusal(wrong, 404, "unknown_collection", PLACE, "there are bags, shoes")
            check_refusal(client.post(f"{path}?collection=shoes", json=body), 422, "invalid_request", PLACE)
        for name, count in (("shoes", 2), ("bags", 0)):
            form = client.post("/v1/search", files={"image": photo_bytes(1)}, data={"collection": name})
            assert len(form.json()["matches"]) == count
            assert len(client.get("/v1/images", params={"collection": name}).json()["data"]) == count
            lines = client.get("/v1/images/export", params={"collection": name}).text.splitlines()
            assert len(lines) == count
        for path in ("", "/content", "/thumbnail"):
            address = f"/v1/images/{id}{path}"
            assert client.get(address, params={"collection": "shoes"}).status_code == 200
            check_refusal(client.get(address, params={"collection": "bags"}), 404, "unknown_image")
            check_refusal(client.get(address), 422, "collection_name", PLACE)
        # What an answer links to is in the same collection.
        (item, _) = client.get("/v1/images", params={"collection": "shoes"}).json()["data"]
        found = client.post("/v1/search", files={"image": photo_bytes(1)}, data={"collection": "shoes"}).json()
        assert client.get(item["content"]).content == photo_bytes(1)
        for address in (item["thumbnail"], found["matches"][0]["thumbnail"], found["candidates"][0]["thumbnail"]):
            assert client.get(f"{address}&side=32").headers["content-type"] == "image/jpeg"
        check_refusal(client.delete(f"/v1/images/{id}", params={"collection": "bags"}), 404, "unknown_image")
        assert client.delete(f"/v1/images/{id}", params={"collection": "shoes"}).status_code == 200
        assert client.get("/v1/collections/shoes").json()["pictures"] == 1


def test_without_a_name_the_only_one_is_meant_or_else_that_called_default(several, photo_bytes, data_uri):
    uri = data_uri(photo_bytes(1))
    with several() as client:
        for name in ("shoes", "bags", "default"):
            assert client.post("/v1/score", json={"queries": uri, "documents": uri}).status_code == 200, "needs none"
            client.post("/v1/collections", json={"name": name})
            if name == "bags":
                answer = client.post("/v1/images", files={"image": photo_bytes(2)})
                check_refusal(answer, 422, "collection_name", PLACE)
                assert client.get("/info").json()["collection"] is None
                continue
            add(client, photo_bytes(1))
            assert client.get("/info").json()["collection"]["pictures"] == 1
        counts = {one["name"]: one["pictures"] for one in client.get("/info").json()["collections"]}
        assert counts == {"bags": 0, "default": 1, "shoes": 1}
        assert client.get("/info?collection=shoes").json()["collection"]["directory"].endswith("/shoes")
        check_refusal(client.get("/info?collection=hats"), 404, "unknown_collection", PLACE)


def test_what_is_no_name_is_refused(several, root):
    with several() as client:
        for name in ("", "../x", "Shoes", "a" * 64, "a\n", 7):
            check_refusal(client.post("/v1/collections", json={"name": name}), 422, "invalid_request", "name")
    assert [path.name for path in root.iterdir()] == ["service.lock"]
    assert [path.name for path in root.parent.iterdir()] == ["root"]


def test_with_one_store_its_name_is_default_and_none_is_made_or_removed(client, collection, photo_bytes):
    found = client.post("/v1/search", files={"image": photo_bytes(1)}, data={"collection": "default"}).json()
    assert found["matches"][0]["thumbnail"] == f"/v1/images/{found['matches'][0]['id']}/thumbnail"
    check_refusal(client.get("/v1/images?collection=shoes"), 404, "unknown_collection", PLACE)
    assert [one["name"] for one in client.get("/v1/collections").json()["data"]] == ["default"]
    for answer in (
        client.post("/v1/collections", json={"name": "shoes"}),
        client.post("/v1/collections", json={"name": "default"}),
        client.delete("/v1/collections/default?pictures=5"),
    ):
        error = check_refusal(answer, 501, "fixed_collections", said="diptych serve --collections ROOT")
        assert error["type"] == "invalid_request_error"
    assert len(collection) == 5


def test_a_damaged_collection_is_listed_with_its_fault_and_the_others_are_served(several, root, photo_bytes):
    with several("bags", "shoes") as client:
        for name in ("bags", "shoes"):
            add(client, photo_bytes(1), collection=name)
    whole = (root / "bags" / DATABASE).read_bytes()
    (root / "bags" / DATABASE).write_bytes(b"no database at all" + whole[18:])
    with several() as client:
        wait_until(lambda: "warming up" not in client.get("/readyz").text)
        ready = client.get("/readyz")
        assert ready.status_code == 200 or "the model scores" in ready.text
        assert ready.status_code != 200 or ready.json()["damaged"] == ["bags"]
        bags, shoes = client.get("/v1/collections").json()["data"]
        assert "file is not a database" in bags["fault"]
        assert (bags["pictures"], shoes["pictures"], shoes["fault"]) == (None, 1, None)
        assert client.get("/info?collection=bags").json()["collection"] is None
        assert figures(client, "diptych_collections_damaged") == {"": 1}
        assert figures(client, "diptych_collection_pictures") == {"shoes": 1}
        for answer in (
            client.post("/v1/search", files={"image": photo_bytes(1)}, data={"collection": "bags"}),
            client.post("/v1/images", files={"image": photo_bytes(2)}, data={"collection": "bags"}),
            client.get("/v1/images?collection=bags"),
            client.delete("/v1/collections/bags?pictures=1"),
            client.post("/v1/collections", json={"name": "bags"}),
        ):
            said = f"diptych index rebuild --store {root / 'bags'}"
            check_refusal(answer, 503, "damaged_collection", PLACE, said)
        found = client.post("/v1/search", files={"image": photo_bytes(1)}, data={"collection": "shoes"})
        assert len(found.json()["matches"]) == 1
        (root / "bags" / DATABASE).write_bytes(whole)
        assert client.post("/v1/collections", json={"name": "bags"}).status_code == 200
        assert client.get("/v1/collections/bags").json()["pictures"] == 1
        assert figures(client, "diptych_collections_damaged") == {"": 0}


def test_a_collection_that_another_request_removes_while_it_is_made_is_said(several, monkeypatch):
    summary = Collections.summary

    def beside(self, name):
        self.remove(name)
        return summary(self, name)

    with several() as client:
        with monkeypatch.context() as patch:
            patch.setattr(Collections, "summary", beside)
            made = client.post("/v1/collections", json={"name": "brief"})
        check_refusal(made, 409, "collection_changed", PLACE)
        assert client.post("/v1/collections", json={"name": "brief"}).status_code == 201


def test_every_collection_is_served_by_its_own_model(root, scorer, running, photo_bytes, data_uri):
    letters = Scorer.load("omniglot", provider="cpu", threads=1)
    pictures = [photo_bytes(1), photo_bytes(2)]
    owners, ids = {"letters": letters, "photos": scorer}, list[str]()
    for name, own in owners.items():
        with Collection.open(root / name, own, create=True) as collection:
            ids = [one.id for one in collection.add(pictures)]
    loaded: list[str] = []

    def load(name: str) -> Scorer:
        loaded.append(name)
        return Scorer.load(name, provider="cpu", threads=1)

    with (
        Collections.open(root, scorer, load=load) as collections,
        running(collections, scorer, Settings(pairs=7)) as client,
    ):
        known = [(one.runtime.name, one.runtime.revision) for one in (scorer, letters)]
        assert [(one["id"], one["revision"]) for one in client.get("/v1/models").json()["data"]] == known
        assert [one.scheduler.capacity for one in collections.scorers()] == [7, 7]
        listed = {one["name"]: one["model"] for one in client.get("/v1/collections").json()["data"]}
        assert listed == {name: own.runtime.name for name, own in owners.items()}
        one, other = map(data_uri, pictures)
        bodies = {
            "/v1/score": {"queries": one, "documents": other},
            "/v1/rerank": {"query": one, "documents": [other]},
            "/v1/explain": {"images": [one, other]},
            "/v1/search": {"image": one},
            "/v1/embeddings": {"input": one},
        }
        for name, own in owners.items():
            model, raw = own.runtime.name, float(own.predict([(pictures[0], pictures[1])], activation_fn=np.asarray)[0])
            named = {"collection": name, "model": model}
            answers = {path: client.post(path, json=body | named).json() for path, body in bodies.items()}
            assert {answer["model"] for answer in answers.values()} == {model}
            found = {match["id"]: match for match in answers["/v1/search"]["matches"]}
            assert set(found) == {*ids}
            raws = [answers["/v1/score"]["data"][0], answers["/v1/rerank"]["results"][0], answers["/v1/explain"]]
            assert [one["raw_score"] for one in (*raws, found[ids[1]])] == pytest.approx([raw] * 4, abs=1e-5)
            assert len(answers["/v1/embeddings"]["data"][0]["embedding"]) == own.runtime.embedding_dim
            info = client.get("/info", params={"collection": name}).json()
            assert (info["model"], info["embedding_dim"]) == (model, own.runtime.embedding_dim)
        wrong = {"image": one, "collection": "letters"}
        check_refusal(client.post("/v1/search", json={**wrong, "model": "photo"}), 404, "model_not_found", "model")
        asked = client.post("/v1/search", json={**wrong, "question": "copy"})
        assert (asked.json()["question"], asked.json()["model"]) == ("match", "omniglot")
    assert loaded == ["omniglot"]
