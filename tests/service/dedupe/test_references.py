"""`dedupe --reference`: folders that are compared with and never touched."""

from diptych.pictures.walk import TRASH

ORIGINALS = {"a/1.jpg", "a/2.jpg", "a/3.jpg"}


def test_nothing_in_a_reference_folder_is_touched_and_what_it_has_elsewhere_goes(dedupe, diptych, photos, bytes_of):
    reference = photos / "a"
    times = {path: (path.stat().st_mtime_ns, path.stat().st_ctime_ns) for path in (reference, *reference.iterdir())}
    before = bytes_of(photos)
    found = dedupe(photos, "--reference", reference, "--keep", "newest")
    assert "6 pictures, 3 of them in reference folders: 6 new" in found.err
    done = dedupe(photos, "--reference", reference, "--keep", "newest", "--delete", "--json").json
    assert (done["done"], done["left"], done["references"]) == (3, [], 3)
    assert {name for name in bytes_of(photos) if TRASH not in name} == ORIGINALS
    assert {path: (path.stat().st_mtime_ns, path.stat().st_ctime_ns) for path in times} == times
    assert diptych("dedupe", "--undo", done["journal"]).code == 0
    assert {name: data for name, data in bytes_of(photos).items() if TRASH not in name} == before


def test_what_lies_in_a_reference_cannot_be_listed_for_removal(dedupe, photos, tmp_path):
    (tmp_path / "list.txt").write_text(f"{photos}/a/1.jpg\n")
    words = ("--reference", photos / "a", "--delete", "--selection", tmp_path / "list.txt")
    listed = dedupe(photos, *words)
    assert (listed.code, f"{photos}/a/1.jpg is listed and lies in the reference folder" in listed.err) == (1, True)
    assert (photos / "a/1.jpg").exists()


def test_nothing_is_written_into_a_reference(dedupe, diptych, photos, tmp_path, artifact, bytes_of):
    reference, link = photos / "a", tmp_path / "link.csv"
    link.symlink_to(reference / "groups.csv")
    (tmp_path / "by a link").symlink_to(reference)
    before = bytes_of(photos)
    for words in (
        ("-o", reference / "groups.csv"),
        ("-o", link),
        ("-o", tmp_path / "by a link" / "groups.csv"),
        ("--report", reference / "report.html"),
    ):
        found = dedupe(photos / "b", "--reference", reference, *words)
        assert found.code == 1
        assert f"lies in {reference}, a reference, where nothing is written" in found.err
    words = ("--model", artifact, "--store", reference / "store")
    found = diptych("dedupe", photos / "b", "--reference", reference, *words)
    assert (found.code, f"--store {reference}/store lies in {reference}" in found.err) == (1, True)
    assert bytes_of(photos) == before


def test_a_reference_without_a_picture_is_remarked_upon(dedupe, photos, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "link.jpg").symlink_to(photos / "a" / "1.jpg")
    found = dedupe(photos, "--reference", tmp_path / "empty", "--reference", photos / "a")
    assert found.code == 0
    said = f"there is no picture in the reference folder {tmp_path}/empty; if its disk is not mounted, mount it"
    assert (said in found.err, found.err.count("no picture in the reference folder")) == (True, 1)


def test_a_folder_with_an_empty_name_is_none(diptych, photos):
    for words in (["", photos], [photos, "--reference", ""], [photos, "--move-to", ""], [photos, "--store", ""]):
        found = diptych("dedupe", *words)
        assert (found.code, "expected the name of a folder, got an empty one" in found.err) == (2, True)
