import os
import subprocess
from pathlib import Path

import pytest

from diptych.pictures.walk import TRASH, FoundFile, Stamp, Tree, full_path, pictures_in, place_in, places_in


def test_files_are_found_by_ending_with_their_stamp(tmp_path):
    for name in ("b/2.JPG", "b/notes.txt", "b/.jpg", "a/9.webp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"12345")
    (tmp_path / "z.txt").touch()
    named = [tmp_path / "z.txt", tmp_path / "b", tmp_path / "none", tmp_path / "a", tmp_path / "a/9.webp"]
    found = [str(path.relative_to(tmp_path)) for path in pictures_in(named, lambda path, reason: pytest.fail(reason))]
    assert found == ["z.txt", "b/2.JPG", "none", "a/9.webp", "a/9.webp"], "files come as they are named"
    tree = Tree.below([tmp_path, tmp_path / "b"])
    assert list(tree.files) == [str(tmp_path / "a/9.webp"), str(tmp_path / "b/2.JPG")]
    status = (tmp_path / "a/9.webp").stat()
    stamp = Stamp(5, status.st_mtime_ns, status.st_ino)
    assert tree.files[str(tmp_path / "a/9.webp")] == FoundFile(stamp, status.st_dev, False, status.st_ctime_ns)
    assert (tree.refused, tree.closed) == ({}, {})
    tree = Tree(closed={"/p/a": "closed", "/p/b.jpg": "closed"})
    paths = ("/p/a/1.jpg", "/p/a/b/1.jpg", "/p/b.jpg", "/p/ab/1.jpg", "/p/b.jpgs", "/p/1.jpg")
    assert [tree.may_hold(path) for path in paths] == [True] * 3 + [False] * 3, "a closed folder hides what is below it"


@pytest.fixture
def odd(tmp_path, photo_bytes, monkeypatch) -> Path:
    """A folder with two pictures, a link to one of them, and everything that cannot be read."""
    folder = tmp_path / "odd"
    for name in ("1.jpg", "closed/2.jpg", "inner/3.jpg", f"{TRASH}/4.jpg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(photo_bytes(int(Path(name).stem)))
    (folder / "link.jpg").symlink_to("1.jpg")
    (folder / "nowhere.jpg").symlink_to("none.jpg")
    (folder / "again").symlink_to("inner")
    os.mkfifo(folder / "pipe.jpg")
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.jpg")).write_bytes(photo_bytes(5))
    scandir = os.scandir

    def refusing(path: str) -> object:
        if path == str(folder / "closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    return folder


def test_every_command_finds_the_same_files_and_names_the_same_that_cannot_be_read(diptych, odd, tmp_path, artifact):
    def run(*words: object) -> tuple[int, dict, set[str]]:
        result = diptych(*words, "--store", tmp_path / str(words[1]).replace("/", "-"), "--model", artifact, "--json")
        unread = [*result.json["refused"], *result.json.get("closed", [])]
        return result.code, result.json, {entry["reason"] for entry in unread}

    expected = {
        f"{odd}/nowhere.jpg is a link to a file that does not exist",
        f"{odd}/pipe.jpg is not a file",
        rf"{odd}/caf\udce9.jpg has a name that is not UTF-8; rename it",
        f"{odd}/closed cannot be listed: Permission denied",
    }
    code, added, reasons = run("index", "add", odd)
    assert (code, added["added"], added["already"], reasons) == (1, 2, 1, expected)
    code, synced, reasons = run("index", "sync", odd)
    assert (code, len(synced["new"]), reasons) == (1, 2, expected)
    code, found, reasons = run("dedupe", odd)
    assert (code, found["pictures"], reasons) == (1, 2, expected)


def test_a_folder_is_walked_through_once_for_all_that_may_lie_in_it(tmp_path, monkeypatch):
    for name in ("root/a", "root/b", "outside/c", "outside/d"):
        (tmp_path / name).mkdir(parents=True)
    walked, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda place: walked.append(Path(place)) or scandir(place))
    paths = [tmp_path / name for name in ("outside/c", "root/b", "outside/d", "outside/new/folder")]
    assert places_in(tmp_path / "root", paths) == {tmp_path / "root/b": tmp_path / "root"}
    assert walked == [tmp_path / "root", tmp_path / "root/a", tmp_path / "root/b"]
    assert place_in(tmp_path / "root", tmp_path / "root/a/new") == tmp_path / "root"
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    monkeypatch.chdir(tmp_path / "root")
    assert full_path("../link/./a.jpg") == str(tmp_path / "link" / "a.jpg"), "links are left as the user named them"


@pytest.fixture
def littered(tmp_path, photo_bytes) -> Path:
    """A folder with one picture, copies of it in a trash can and under a hidden name, and a thumbnail."""
    folder = tmp_path / "littered"
    for name in ("1.jpg", ".Trash-1000/files/1.jpg", "sub/._1.jpg", "sub/@eaDir/1.jpg/thumb.jpg", "sub/2.jpg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(photo_bytes(2 if name == "sub/2.jpg" else 1))
    (folder / "sub/.DS_Store").touch()
    return folder


@pytest.fixture
def seen(diptych, artifact, tmp_path):
    """`seen("dedupe", folder)` are the names of the pictures that a command takes up, and its JSON."""

    def run(*words: object, folder: Path) -> tuple[list[str], dict]:
        store = () if words[0] == "rerank" else ("--store", tmp_path / str(words[1]).replace("/", "-"))
        result = diptych(*words, *store, "--model", artifact, "--json")
        assert result.code == 0, result.err + result.out
        found = result.json
        if words[0] == "index":
            found |= diptych("index", "list", *store, "--json").json
        paths = [one["path"] for one in found.get("results") or found.get("pictures")]
        return sorted(path.removeprefix(f"{folder}/") for path in paths), found

    return run


@pytest.fixture
def dedupe(diptych, artifact, tmp_path):
    """`dedupe(folder, ...)` runs the command with the small model, by which only exact copies match."""
    return lambda *words: diptych(
        "dedupe", *words, "--store", tmp_path / "store", "--model", artifact, "--threshold", 1
    )


def test_every_command_leaves_out_what_systems_put_away_and_counts_it(seen, dedupe, littered):
    left_out = {".Trash-1000": 1, "hidden files": 1, "@eaDir": 1}
    for words in (("index", "add", littered), ("index", "sync", littered), ("rerank", littered / "1.jpg", littered)):
        found, data = seen(*words, folder=littered)
        assert (found, data["left_out"], data["skipped"]) == (["1.jpg", "sub/2.jpg"], left_out, [])
    result = dedupe(littered)
    assert "0 groups; " in result.out
    told = "3 pictures left out: 1 in .Trash-1000, 1 hidden files, 1 in @eaDir; --include-hidden takes them in"
    assert result.out.splitlines().count(told) == 1
    (littered / "1.jpg").unlink()
    (littered / "sub/2.jpg").unlink()
    result = dedupe(littered)
    assert (result.code, "--include-hidden takes them in" in result.err) == (1, True)


def test_what_is_asked_for_is_taken_in_and_what_is_excluded_is_not(seen, littered):
    every = ["1.jpg", ".Trash-1000/files/1.jpg", "sub/._1.jpg", "sub/2.jpg", "sub/@eaDir/1.jpg/thumb.jpg"]
    add = ("index", "sync", littered)
    found, data = seen(*add, "--exclude", "sub/", folder=littered)
    assert (found, data["left_out"]) == (["1.jpg"], {"--exclude": 3, ".Trash-1000": 1})
    found, data = seen(*add, "--include-hidden", "--exclude", "files,sub/[2]*", "--allow-removal", folder=littered)
    assert data["left_out"] == {"--exclude": 2}
    found, _ = seen("rerank", littered / "1.jpg", littered, "--include-hidden", folder=littered)
    assert found == sorted(every)
    named, data = seen("rerank", littered / "1.jpg", littered / ".Trash-1000", folder=littered)
    assert (named, data["left_out"]) == ([".Trash-1000/files/1.jpg"], {})


def test_folders_that_are_left_out_may_be_closed_and_are_counted_no_further_than_their_limit(littered, monkeypatch):
    scandir = os.scandir

    def refusing(path: str) -> object:
        if path.endswith("/files"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", refusing)
        tree = Tree.below([littered])
    assert (tree.closed, tree.omissions.left_out) == ({}, {"hidden files": 1, "@eaDir": 1})
    monkeypatch.setattr("diptych.pictures.walk._COUNTED", 3)
    omissions = Tree.below([littered]).omissions
    assert omissions.left_out_line() == (
        "at least 2 pictures left out: 1 in .Trash-1000, 1 hidden files; --include-hidden takes them in"
    )


@pytest.fixture
def nested(tmp_path):
    """`nested(name, number)` is the path of a folder of this name in a folder of this name, and so on."""
    top = tmp_path / "nested"
    top.mkdir()

    def make(name: str, number: int) -> Path:
        inner = os.open(top, os.O_RDONLY)
        for _ in range(number):
            os.mkdir(name, dir_fd=inner)
            outer, inner = inner, os.open(name, os.O_RDONLY, dir_fd=inner)
            os.close(outer)
        os.close(inner)
        return top.joinpath(*[name] * number)

    yield make
    subprocess.run(["rm", "-rf", top], check=True)  # pytest would go through it by recursion


def test_a_picture_below_a_thousand_and_a_half_of_folders_is_found(dedupe, diptych, artifact, nested, photo_bytes):
    deep = nested("d", 1500)
    top = next(folder for folder in deep.parents if folder.name == "nested")
    for path in (deep / "1.jpg", top / "2.jpg"):
        path.write_bytes(photo_bytes(1))
    synced = diptych("index", "sync", top, "--store", top.parent / "synced", "--model", artifact, "--json")
    assert synced.json["copies"] == 1
    found = dedupe(top, "--keep", "shortest", "--json").json
    assert [row["path"] for row in found["rows"]] == [str(top / "2.jpg"), str(deep / "1.jpg")]
    assert place_in(top, deep) == top
    journal = dedupe(top, "--keep", "shortest", "--delete", "--json").json["journal"]
    assert not (deep / "1.jpg").exists()
    assert diptych("dedupe", "--undo", journal).code == 0
    assert (deep / "1.jpg").read_bytes() == photo_bytes(1)


def test_a_path_longer_than_the_system_takes_is_named_and_the_walk_goes_on(
    dedupe, diptych, artifact, nested, tmp_path, photo_bytes
):
    nested("x" * 200, 25)
    top = tmp_path / "nested"
    (top / "z.jpg").write_bytes(photo_bytes(1))
    model = ("--store", tmp_path / "store", "--model", artifact, "--json")
    for result in (dedupe(top, "--json"), *(diptych("index", word, top, *model) for word in ("add", "sync"))):
        refused = [*result.json["refused"], *result.json.get("closed", [])]
        assert result.code == 1
        assert [entry["reason"].endswith(" cannot be listed: File name too long") for entry in refused] == [True]
        assert result.json.get("total", result.json.get("pictures")) == 1
