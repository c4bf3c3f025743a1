"""What a place is called: a folder, or a collection on a Milvus server."""

from pathlib import Path

import pytest

from diptych.store.location import Address, parse_location


def test_whatever_is_no_address_is_a_folder():
    assert parse_location("store") == Path("store")
    assert parse_location(Path("/a/b")) == Path("/a/b")
    for odd in ("milvus/x", "C:/pictures", "C://pictures", "a:/b", "here/ab://c", "1a://b", "éa://b"):
        assert parse_location(odd) == Path(odd)


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("milvus://host/photos", "http://host:19530"),
        ("milvus://host:99/photos", "http://host:99"),
        ("milvuss://host/photos", "https://host:19530"),
        ("milvus+tls://[::1]:1/photos", "https://[::1]:1"),
        ("Milvus://host/photos", "http://host:19530"),
        (Path("MILVUSS://host/photos"), "https://host:19530"),
    ],
)
def test_an_address_names_its_server(text, server):
    found = parse_location(text)
    assert isinstance(found, Address)
    assert (found.server, found.collection) == (server, "photos")
    assert parse_location(found) is found


@pytest.mark.parametrize(
    "text",
    [
        "milvus://host",
        "milvus:///photos",
        "milvus://host/a/b",
        "milvus://host/1st",
        "milvus://host/photos?original=/x",
        "milvus://host/photos?consistency=weak",
        "milvus://host/photos_rebuilding",
        "milvus://host/photos_replaced",
        "milvus://root:s3℀cret@host/photos",
        "milvus://root:s3cret@[host/photos",
        "milvus://root:s3cret@host:none/photos",
        "milvsu://root:s3cret@host/photos",
        "http://root:s3cret@host:19530/photos",
    ],
)
def test_a_wrong_address_is_refused_without_its_password_and_makes_no_folder(text, diptych, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"expected .*milvus://") as caught:
        parse_location(text)
    found = diptych("index", "add", "--store", text, tmp_path)
    assert (found.code, "milvus://" in found.err) == (2, True)
    assert "s3" not in str(caught.value) + found.out + found.err
    assert list(tmp_path.iterdir()) == []


def test_an_address_has_options_and_a_password_that_is_used_and_never_shown(monkeypatch):
    found = parse_location("milvus://me:s%40cret@host/photos?originals=/mnt/o&consistency=strong")
    assert isinstance(found, Address)
    assert (found.originals, found.strong) == (Path("/mnt/o"), True)
    assert found.token == "me:s@cret"
    assert "cret" not in f"{found} {found!r}"
    monkeypatch.setenv("DIPTYCH_MILVUS_TOKEN", "from outside")
    assert parse_location("milvus://host/photos").token == "from outside"  # pyright: ignore[reportAttributeAccessIssue]
    assert found.token == parse_location("milvus://me:s%40cret@host/photos").token  # pyright: ignore[reportAttributeAccessIssue]


def test_the_command_line_refuses_a_wrong_address_and_one_where_a_folder_must_be(diptych):
    found = diptych("serve", "--collections", "milvus://host/photos")
    assert (found.code, "expected a folder" in found.err) == (2, True)
    for words in (("index", "sync", "photos"), ("serve", "--sync", "photos"), ("dedupe", "photos")):
        found = diptych(*words, "--store", "milvus://host/photos")
        assert (found.code, "expected a folder" in found.err) == (2, True)
    found = diptych("index", "backup", "--store", "milvus://host/photos", "copy")
    assert (found.code, "backed up by Milvus's own tool" in found.err) == (1, True)
