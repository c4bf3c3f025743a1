"""What a place for pictures costs: a small bench, in a folder and on Milvus."""

import json

import numpy as np
import pytest
from milvus_server import SERVERS

from diptych.bench.store import draw_embeddings, format_figures


@pytest.fixture(params=["folder", *SERVERS])
def where(request, tmp_path):
    return tmp_path / "store" if request.param == "folder" else request.getfixturevalue(request.param).place("bench")


def test_a_place_is_filled_searched_and_emptied_again(diptych, where, artifact):
    asked = ("bench", "store", "--store", where, "--count", 300, "--model", artifact, "--json")
    found = diptych(*asked)
    assert found.code == 0, found.err
    assert found.json["count"] == 300
    assert found.json["recall"] > 0.95
    assert all(0 < half <= most for half, most in found.json["milliseconds"].values())
    assert set(found.json["milliseconds"]) == {"nearest", "tokens", "records", "whole", "filtered"}
    assert "recall@100" in format_figures(found.json)
    assert json.loads(diptych("index", "stats", "--store", where, "--json").out)["pictures"] == 0
    assert diptych(*asked).code == 0, "it is empty again"


def test_a_collection_with_pictures_is_left_alone(diptych, collection, artifact):
    found = diptych("bench", "store", "--store", collection.directory, "--model", artifact)
    assert found.code == 1


def test_embeddings_are_unit_vectors_and_the_same_every_time():
    made = draw_embeddings(50, 16)
    assert np.allclose(np.linalg.norm(made, axis=1), 1, atol=1e-6)
    assert np.array_equal(made, draw_embeddings(50, 16))
