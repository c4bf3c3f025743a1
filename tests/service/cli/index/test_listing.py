"""`diptych index list`."""

import json

import pytest


@pytest.fixture
def store(collection, photo_bytes):
    """The folder of a collection of 13 pictures, the last of which has no path."""
    collection.add(photo_bytes(30, (50, 40)), metadata={"label": "shoe"}, keep_originals=True)
    collection.close()
    return collection.directory


def test_the_pictures_are_listed_in_the_order_in_which_they_were_added(diptych, store, gallery):
    listed = diptych("index", "list", "--store", store)
    header, *lines = listed.out.splitlines()
    assert (listed.code, header.split()) == (0, ["id", "pixels", "added", "path"])
    assert [line.split()[-1] for line in lines] == [*map(str, sorted(gallery.rglob("*.jpg"))), "-"]
    assert "50 x 40" in lines[-1]
    found = diptych("index", "list", "--store", store, "--json").json
    assert [picture["id"] for picture in found["pictures"]] == [line.split()[0] for line in lines]
    assert (found["total"], found["pictures"][-1]["metadata"]) == (13, {"label": "shoe"})


def test_a_list_can_be_limited_to_folders_and_filtered(diptych, store, gallery):
    assert len(diptych("index", "list", "--store", store, "--limit", 2).out.splitlines()) == 3
    found = diptych("index", "list", "--store", store, "--filter", '{"label": "shoe"}', "--json").json
    assert ([picture["path"] for picture in found["pictures"]], found["total"]) == ([None], 13)
    (one,) = diptych("index", "list", gallery / "01.jpg", "--store", store, "--json").json["pictures"]
    assert one["path"] == str(gallery / "01.jpg")
    assert len(diptych("index", "list", gallery, "--limit", 5, "--store", store, "--json").json["pictures"]) == 5
    assert diptych("index", "list", gallery / "0", "--store", store, "--json").json["pictures"] == []
    none = diptych("index", "list", "--store", store, "--filter", '{"label": "boot"}')
    assert (none.code, none.out) == (0, "")
    assert f"0 of 13 pictures in {store}" in none.err


def test_a_field_of_any_name_is_found_or_refused(diptych, store, gallery, artifact, tmp_path):
    names = ["größe", "名前", "tags[0]", "back\\slash", "two\nlines", "\x7f"]
    table = tmp_path / "metadata.jsonl"
    table.write_text(json.dumps({"path": str(gallery / "01.jpg"), "metadata": dict.fromkeys(names, "x")}))
    diptych("index", "add", gallery / "01.jpg", "--store", store, "--metadata", table, "--model", artifact)

    def count(condition: object) -> int:
        found = diptych("index", "list", "--store", store, "--filter", json.dumps(condition), "--json")
        return len(found.json["pictures"])

    for name in names:
        assert count({name: "x"}) == count({name: {"$exists": True}}) == 1, name
        assert count({name: {"$ne": "x"}}) == count({"$not": {name: "x"}}) == count({name: {"$exists": False}}) == 12
    refused = diptych("index", "list", "--store", store, "--filter", '{"a\\"b": 1}')
    assert (refused.code, "expected the name of a field" in refused.err) == (2, True)
