"""The bench of a place for pictures, in a folder and on Milvus."""

import pytest
from milvus_server import SERVERS

from diptych.bench.store import format_figures


@pytest.fixture(params=["folder", *SERVERS])
def where(request, tmp_path):
    return tmp_path / "bench" if request.param == "folder" else request.getfixturevalue(request.param).place("bench")


def test_a_place_is_filled_searched_and_emptied_again_and_one_with_pictures_left_alone(
    diptych, where, artifact, collection
):
    asked = ("bench", "store", "--store", where, "--count", 300, "--model", artifact, "--json")
    found = diptych(*asked)
    assert found.code == 0, found.err
    assert found.json["count"] == 300
    assert found.json["recall"] > 0.95
    assert all(0 < half <= most for half, most in found.json["milliseconds"].values())
    assert "recall@100" in format_figures(found.json)
    assert diptych("index", "stats", "--store", where, "--json").json["pictures"] == 0
    assert diptych(*asked).code == 0, "it is empty again"
    collection.close()
    assert diptych("bench", "store", "--store", collection.directory, "--model", artifact).code == 1
    assert diptych("index", "stats", "--store", collection.directory, "--json").json["pictures"] == 12
