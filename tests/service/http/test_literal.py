"""A model of the literal form, served: the same routes, what is kept of a picture are its pixels."""

from pathlib import Path

import numpy as np
import pytest

from diptych.collection.collection import Collection
from diptych.scoring.ranking import RankedDocument
from diptych.scoring.scorer import Scorer
from diptych_runtime.decoder import panel_pixels

pytestmark = pytest.mark.slow  # for the export of its artifact


@pytest.fixture(scope="module")
def literal(literal_artifact: Path) -> Scorer:
    return Scorer.load(str(literal_artifact), provider="cpu", threads=1)


@pytest.fixture
def files(tmp_path: Path, photo_bytes) -> list[Path]:
    paths = [tmp_path / f"{seed}.jpg" for seed in range(4)]
    for seed, path in enumerate(paths):
        path.write_bytes(photo_bytes(seed))
    return paths


def test_the_scorer_gives_one_score_for_both_orders(literal: Scorer, files: list[Path]) -> None:
    one, other = literal.predict([(files[0], files[1]), (files[1], files[0])], activation_fn=np.asarray)
    assert one == other
    ranked = literal.rank(files[0], files)
    assert sorted(one["corpus_id"] for one in ranked) == [0, 1, 2, 3]
    pixels = np.stack([panel_pixels(path, 32) for path in files[:2]])
    tokens = literal.encode_pixels(pixels).tokens
    assert np.array_equal(tokens, pixels)
    assert literal.logits(tokens[:1], tokens[1:])[0] == np.float32(one_of(ranked, 1))


def one_of(ranked: list[RankedDocument], place: int) -> float:
    return next(one["raw_score"] for one in ranked if one["corpus_id"] == place)


def test_every_route_answers_as_the_scorer_does(literal, files, photo_bytes, data_uri, running, tmp_path) -> None:
    uris = [data_uri(photo_bytes(seed)) for seed in range(4)]
    raw = {place: one_of(literal.rank(files[0], files), place) for place in range(4)}
    with Collection.open(tmp_path / "store", literal, create=True) as stored:
        ids = [stored.add(photo_bytes(seed), metadata={"seed": seed})[0].id for seed in range(4)]
        with running(stored, literal) as client:
            answer = client.post("/v1/score", json={"queries": uris[0], "documents": uris})
            assert answer.status_code == 200, answer.text
            scored = answer.json()["data"]
            assert [one["raw_score"] for one in scored] == pytest.approx(list(raw.values()), abs=1e-6)
            ranked = client.post("/v1/rerank", json={"query": uris[0], "documents": uris}).json()["results"]
            assert [one["index"] for one in ranked] == sorted(raw, key=lambda place: -raw[place])
            # The first stage is the embedding of each panel alone; the second looks at the stored pixels.
            found = client.post("/v1/search", json={"image": uris[0], "top": 4}).json()["matches"]
            assert {one["id"] for one in found} == set(ids)
            by_seed = {ids[seed]: score for seed, score in raw.items()}
            assert [one["raw_score"] for one in found] == pytest.approx([by_seed[one["id"]] for one in found], abs=1e-6)
            shown = client.post("/v1/explain", json={"images": uris[:2]}).json()
            assert shown["grid"] == [4, 4]
            assert client.get("/info").json()["embedding_dim"] == 10


def test_a_collection_keeps_the_pixels_of_a_panel(literal: Scorer, photo_bytes, tmp_path) -> None:
    with Collection.open(tmp_path / "store", literal, create=True) as stored:
        id = stored.add(photo_bytes(3))[0].id
        tokens, _ = stored.panel(id)
        assert np.array_equal(tokens, panel_pixels(photo_bytes(3), 32))
