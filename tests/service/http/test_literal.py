"""A model of the literal form, served: the same routes, what is kept of a picture are its pixels."""

from pathlib import Path

import numpy as np
import pytest

from diptych.collection.collection import Collection
from diptych.scoring.scorer import Scorer
from diptych_runtime.decoder import panel_pixels

pytestmark = pytest.mark.slow  # for the export of its artifact


@pytest.fixture(scope="module")
def literal(literal_artifact: Path) -> Scorer:
    return Scorer.load(str(literal_artifact), provider="cpu", threads=1)


def test_every_route_answers_as_the_scorer_does(literal, photo_bytes, data_uri, running, tmp_path) -> None:
    pictures = [photo_bytes(seed) for seed in range(4)]
    uris = list(map(data_uri, pictures))
    raw = literal.predict([(pictures[0], one) for one in pictures], activation_fn=np.asarray).tolist()
    assert raw[1] == float(literal.predict([(pictures[1], pictures[0])], activation_fn=np.asarray)[0])
    with Collection.open(tmp_path / "store", literal, create=True) as stored:
        ids = [stored.add(picture)[0].id for picture in pictures]
        assert np.array_equal(stored.panel(ids[3])[0], panel_pixels(pictures[3], 32)), "it keeps the pixels of a panel"
        with running(stored, literal) as client:
            answer = client.post("/v1/score", json={"queries": uris[0], "documents": uris})
            assert answer.status_code == 200, answer.text
            assert [one["raw_score"] for one in answer.json()["data"]] == pytest.approx(raw, abs=1e-6)
            ranked = client.post("/v1/rerank", json={"query": uris[0], "documents": uris}).json()["results"]
            assert [one["index"] for one in ranked] == sorted(range(4), key=lambda place: (place > 0, -raw[place]))
            # The first stage is the embedding of each panel alone; the second looks at the stored pixels.
            found = client.post("/v1/search", json={"image": uris[0], "top": 4}).json()["matches"]
            scores = {one["id"]: one["raw_score"] for one in found}
            assert [scores[id] for id in ids] == pytest.approx(raw, abs=1e-6)
            assert client.post("/v1/explain", json={"images": uris[:2]}).json()["grid"] == [4, 4]
            assert client.get("/info").json()["embedding_dim"] == 10
