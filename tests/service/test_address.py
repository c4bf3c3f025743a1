"""What a place is called: a folder, or a collection on a Milvus server."""

from pathlib import Path

import pytest

from diptych.address import Address, place


def test_whatever_is_no_address_is_a_folder():
    assert place("store") == Path("store")
    assert place(Path("/a/b")) == Path("/a/b")
    assert place("milvus/x") == Path("milvus/x")


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("milvus://host/photos", "http://host:19530"),
        ("milvus://host:99/photos", "http://host:99"),
        ("milvuss://host/photos", "https://host:19530"),
        ("milvus+tls://[::1]:1/photos", "https://[::1]:1"),
    ],
)
def test_an_address_names_its_server(text, server):
    found = place(text)
    assert isinstance(found, Address)
    assert (found.server, found.collection) == (server, "photos")
    assert place(found) is found


def test_an_address_has_options_and_no_others():
    found = place("milvus://host/photos?originals=/mnt/o&consistency=strong")
    assert isinstance(found, Address)
    assert (found.originals, found.strong) == (Path("/mnt/o"), True)
    for wrong, said in [
        ("milvus://host/photos?original=/x", "'original' is none of its options"),
        ("milvus://host/photos?consistency=weak", "bounded or strong, got 'weak'"),
        ("milvus://host", "expected milvus://"),
        ("milvus:///photos", "expected milvus://"),
        ("milvus://host/a/b", "letters, digits and _"),
        ("milvus://host/1st", "no digit first"),
        ("milvus://host:none/photos", "a port from 1 to 65535"),
    ]:
        with pytest.raises(ValueError, match=said):
            place(wrong)


def test_a_password_is_used_and_never_shown(monkeypatch):
    found = place("milvus://me:s%40cret@host/photos")
    assert isinstance(found, Address)
    assert found.token == "me:s@cret"
    assert "cret" not in f"{found} {found!r}"
    monkeypatch.setenv("DIPTYCH_MILVUS_TOKEN", "from outside")
    assert place("milvus://host/photos").token == "from outside"  # pyright: ignore[reportAttributeAccessIssue]
    assert found.token == place("milvus://me:s%40cret@host/photos").token  # pyright: ignore[reportAttributeAccessIssue]


def test_the_command_line_refuses_a_wrong_address_and_one_where_a_folder_must_be(diptych):
    found = diptych("index", "stats", "--store", "milvus://host")
    assert (found.code, "expected milvus://" in found.err) == (2, True)
    found = diptych("serve", "--collections", "milvus://host/photos")
    assert (found.code, "expected a folder" in found.err) == (2, True)
    for words in (("index", "sync", "photos"), ("serve", "--sync", "photos"), ("dedupe", "photos")):
        found = diptych(*words, "--store", "milvus://host/photos")
        assert (found.code, "expected a folder" in found.err) == (2, True)
    found = diptych("index", "backup", "--store", "milvus://host/photos", "copy")
    assert (found.code, "backed up by Milvus's own tool" in found.err) == (1, True)
