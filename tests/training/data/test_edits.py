import csv
import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typed import parsed

from diptych.cli.main import main
from diptych_training.data import canvas
from diptych_training.data.edits import (
    EDITS,
    REPERTOIRES,
    Props,
    edit_hard,
    edit_picture,
    hard_edits,
    picture_names,
    props,
    read_stickers,
    write_queries,
)
from diptych_training.data.edits.repertoires import BEFORE_SMALLER, LIMITS, SMALLER, draw_names
from diptych_training.errors import DataError

HARD = hard_edits(Props())


def test_what_trains_and_what_measures_may_both_use_leaves_nothing_to_chance() -> None:
    # That neither repertoire imports the other is a contract of the imports.
    source = Path(canvas.__file__).read_text()
    assert "rng" not in source
    assert "random" not in source


@pytest.fixture
def folder(tmp_path: Path, photo_bytes) -> Path:
    for i in range(6):
        (tmp_path / "photos" / "deep").mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / ("deep" if i % 2 else ".") / f"{i}.jpg").write_bytes(photo_bytes(i, (120, 90)))
    (tmp_path / "photos" / "notes.txt").write_text("not a picture")
    return tmp_path / "photos"


@pytest.fixture
def others(tmp_path: Path, photo_bytes) -> Callable[[str], Path]:
    """Makes a folder of this name with five pictures that are not among those of `folder`."""

    def make(name: str) -> Path:
        (tmp_path / name).mkdir()
        for i in range(5):
            (tmp_path / name / f"{i}.jpg").write_bytes(photo_bytes(100 + i, (90, 90)))
        return tmp_path / name

    return make


@pytest.fixture
def emoji(tmp_path: Path, photo_bytes) -> Path:
    with zipfile.ZipFile(tmp_path / "emoji.zip", "w") as file:
        for i in range(3):
            file.writestr(f"emoji/{i}.png", photo_bytes(i, (32, 32), "PNG"))
            file.writestr(f"__MACOSX/emoji/._{i}.png", b"a resource fork")
        file.writestr("LICENSE", "free")
    return tmp_path / "emoji.zip"


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", EDITS)
def test_every_edit_gives_another_rgb_picture_and_leaves_the_photo_alone(name: str, photo) -> None:
    picture = photo(3, (160, 120))
    before = picture.tobytes()
    changed = EDITS[name](picture, np.random.default_rng(0))
    assert changed.mode == "RGB"
    assert changed.size != picture.size or changed.tobytes() != before
    assert picture.tobytes() == before


def test_one_to_three_different_edits_are_applied_and_named(photo) -> None:
    rng = np.random.default_rng(0)
    chosen = [edit_picture(photo(1), rng)[1] for _ in range(40)]
    assert {len(names) for names in chosen} == {1, 2, 3}
    assert all(len(set(names)) == len(names) for names in chosen)
    assert {name for names in chosen for name in names} == set(EDITS)


def test_queries_and_their_truth_are_written_and_the_same_seed_writes_the_same(folder: Path, tmp_path: Path) -> None:
    truth = write_queries(folder, tmp_path / "one", count=4, seed=3)
    write_queries(folder, tmp_path / "two", count=4, seed=3)
    with (tmp_path / "one" / "truth.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == truth
    assert len({row["reference"] for row in truth}) == 4
    for row in truth:
        assert (folder / row["reference"]).is_file()
        assert (tmp_path / "one" / row["query"]).read_bytes() == (tmp_path / "two" / row["query"]).read_bytes()
        Image.open(tmp_path / "one" / row["query"]).load()


def test_queries_are_chosen_only_among_the_photos_named(folder: Path, tmp_path: Path) -> None:
    truth = write_queries(folder, tmp_path / "out", count=2, among=["0.jpg", "deep/1.jpg"])
    assert {row["reference"] for row in truth} == {"0.jpg", "deep/1.jpg"}


def test_only_pictures_are_listed_relative_to_the_folder(folder: Path) -> None:
    assert picture_names(folder) == ["0.jpg", "2.jpg", "4.jpg", "deep/1.jpg", "deep/3.jpg", "deep/5.jpg"]


def test_too_few_photos_a_full_folder_and_no_folder_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="7 queries need as many photos to choose from, got 6"):
        write_queries(folder, tmp_path / "out", count=7)
    with pytest.raises(DataError, match="is not empty"):
        write_queries(folder, folder, count=2)
    with pytest.raises(DataError, match="expected a folder of pictures"):
        picture_names(tmp_path / "nowhere")


def test_the_easy_repertoire_draws_what_it_always_did(photo) -> None:
    rng, said, seen = np.random.default_rng(7), [], hashlib.sha256()
    for i in range(12):
        picture, names = edit_picture(photo(i, (96, 64)), rng)
        said.append("+".join(names))
        seen.update(repr(picture.size).encode())
    assert list(EDITS) == ["crop", "flip", "rotate", "colour", "jpeg", "overlay", "border"]
    assert said[:4] == ["crop", "jpeg+rotate", "flip+border+rotate", "border"]
    assert seen.hexdigest()[:12] == "1968a9e902d6"


@pytest.mark.parametrize("size", [(157, 101), (60, 241), (24, 720), (24, 24)])
@pytest.mark.parametrize("name", HARD)
def test_every_hard_edit_gives_an_rgb_picture_of_sane_size_the_same_for_the_same_numbers(
    name: str, size: tuple[int, int], photo
) -> None:
    picture = photo(3, size)
    before = picture.tobytes()
    for seed in range(5):
        changed, again = (HARD[name](picture, np.random.default_rng(seed)) for _ in range(2))
        assert changed.mode == "RGB"
        assert min(changed.size) >= 8
        assert max(changed.size) <= 5 * max(size) + 400
        assert changed.size != picture.size or changed.tobytes() != before
        assert changed.size == again.size
        assert changed.tobytes() == again.tobytes()
    assert picture.tobytes() == before


def test_the_hard_repertoire_has_the_easy_one_and_thirty_further_edits() -> None:
    assert list(HARD)[: len(EDITS)] == list(EDITS)
    assert len(HARD) == len(EDITS) + 30
    assert {name for group, _ in LIMITS for name in group} | set(SMALLER) | set(BEFORE_SMALLER) <= set(HARD)


def test_one_to_five_different_hard_edits_are_drawn_within_the_limits_and_all_of_them_in_time() -> None:
    rng = np.random.default_rng(0)
    drawn = [draw_names(rng, list(HARD)) for _ in range(1000)]
    counts = [len(names) for names in drawn]
    assert min(counts.count(n) for n in range(1, 6)) > 100
    assert max(counts) == 5
    assert {name for names in drawn for name in names} == set(HARD)
    for names in drawn:
        assert len(set(names)) == len(names)
        assert all(len(set(names) & set(group)) <= most for group, most in LIMITS)
        at = [i for i, name in enumerate(names) if name in SMALLER]
        assert not [name for name in names[at[0] :] if name in BEFORE_SMALLER] if at else True


@pytest.mark.parametrize("size", [(8, 8), (8, 500), (1100, 700), (160, 120)])
def test_hard_edits_together_keep_every_side_between_24_and_720_pixels(size: tuple[int, int], photo) -> None:
    rng = np.random.default_rng(1)
    for i in range(12):
        picture, names = edit_hard(photo(i, size), rng, Props())
        assert picture.mode == "RGB"
        assert 24 <= min(picture.size) <= max(picture.size) <= 720, names


def test_a_paste_in_shows_the_whole_picture_at_30_to_70_percent_of_the_side_of_another(tmp_path: Path) -> None:
    Image.new("RGB", (300, 200), (0, 0, 255)).save(tmp_path / "blue.png")
    edit = hard_edits(Props([tmp_path / "blue.png"]))["paste_in"]
    shares = []
    for seed in range(60):
        scene = edit(Image.new("RGB", (120, 120), (255, 0, 0)), np.random.default_rng(seed))
        red = np.asarray(scene)[..., 0] > 128
        shares.append(float(np.sqrt(red.sum()) / min(scene.size)))
    assert 0.28 < min(shares) < 0.4
    assert 0.6 < max(shares) < 0.78


def test_the_same_seed_writes_the_same_hard_files_and_another_seed_others(
    folder: Path, others: Callable[[str], Path], emoji: Path, tmp_path: Path
) -> None:
    given = {"repertoire": "hard", "backgrounds": others("scenes"), "emoji": emoji}
    for name, seed in (("one", 3), ("two", 3), ("three", 4)):
        write_queries(folder, tmp_path / name, count=6, seed=seed, **given)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert files(tmp_path / "one") != files(tmp_path / "three")
    with (tmp_path / "one" / "truth.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(set(row["edits"].split("+")) <= set(HARD) for row in rows)
    assert all((tmp_path / "one" / row["query"]).read_bytes().startswith(b"\xff\xd8\xff") for row in rows)


@pytest.mark.parametrize("repertoire", REPERTOIRES)
def test_distractors_have_an_empty_reference_and_change_none_of_the_other_queries(
    folder: Path, others: Callable[[str], Path], tmp_path: Path, repertoire: str
) -> None:
    more = others("more")
    alone = write_queries(folder, tmp_path / "alone", count=3, seed=2, repertoire=repertoire)
    truth = write_queries(
        folder, tmp_path / "both", count=3, seed=2, repertoire=repertoire, distractors=4, distractors_from=more
    )
    assert truth[:3] == alone
    assert [row["reference"] for row in truth[3:]] == [""] * 4
    assert all(row["edits"] for row in truth)
    assert len({row["query"] for row in truth}) == 7
    both, before = files(tmp_path / "both"), files(tmp_path / "alone")
    assert {row["query"] for row in truth} | {"truth.csv"} == set(both)
    assert all(both[row["query"]] == before[row["query"]] for row in alone)


def test_what_is_pasted_into_is_one_of_the_backgrounds_and_never_a_reference(
    folder: Path, others: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, given = [], others("scenes")

    def watch(source: Path, **options: int) -> Image.Image:
        opened.append(source)
        return Image.open(source).convert("RGB")

    monkeypatch.setattr(props, "open_picture", watch)
    for seed in range(6):
        write_queries(folder, tmp_path / str(seed), count=6, seed=seed, repertoire="hard", backgrounds=given)
    assert len(opened) > 10
    assert {path.parent for path in opened} == {given}


def test_folders_that_share_a_picture_are_refused_whichever_way_they_do(
    folder: Path, others: Callable[[str], Path], tmp_path: Path
) -> None:
    linked = others("linked")
    (linked / "link.jpg").symlink_to(folder / "0.jpg")
    for shared in (folder, folder / "deep", folder.parent, linked):
        with pytest.raises(DataError, match=r"no picture of the references among the distractors, got .* name another"):
            write_queries(folder, tmp_path / "out", count=2, distractors=1, distractors_from=shared)
        with pytest.raises(DataError, match=r"no picture of the references among the backgrounds, got .* name another"):
            write_queries(folder, tmp_path / "out", count=2, repertoire="hard", backgrounds=shared)
    more = others("more")
    with pytest.raises(DataError, match="no picture of the distractors among the backgrounds"):
        write_queries(
            folder,
            tmp_path / "out",
            count=2,
            repertoire="hard",
            distractors=1,
            distractors_from=more,
            backgrounds=more,
        )
    assert not (tmp_path / "out").exists()


def test_distractors_need_a_number_and_enough_pictures(
    folder: Path, others: Callable[[str], Path], tmp_path: Path
) -> None:
    more = others("more")
    with pytest.raises(DataError, match="6 distractors need as many pictures to choose from, got 5"):
        write_queries(folder, tmp_path / "out", count=2, distractors=6, distractors_from=more)
    with pytest.raises(DataError, match=r"a number and a folder of pictures .* got 2 distractors from no folder"):
        write_queries(folder, tmp_path / "out", count=2, distractors=2)
    with pytest.raises(DataError, match=r"a number and a folder of pictures .* got 0 distractors from"):
        write_queries(folder, tmp_path / "out", count=2, distractors_from=more)
    with pytest.raises(DataError, match="distractors of 0 or more, got -1"):
        write_queries(folder, tmp_path / "out", count=2, distractors=-1, distractors_from=more)


def test_a_repertoire_unknown_or_without_use_for_what_is_given_is_refused(
    folder: Path, others: Callable[[str], Path], emoji: Path, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="no repertoire is called 'harder'; known are easy, hard"):
        write_queries(folder, tmp_path / "out", count=2, repertoire="harder")
    with pytest.raises(DataError, match="easy uses no backgrounds and no emoji; choose the repertoire hard"):
        write_queries(folder, tmp_path / "out", count=2, backgrounds=others("scenes"), emoji=emoji)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"expected backgrounds in .*empty, got no picture"):
        write_queries(folder, tmp_path / "out", count=2, repertoire="hard", backgrounds=tmp_path / "empty")


def test_stickers_are_the_png_files_of_an_archive_here_or_in_the_data_folder(
    emoji: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, photo_bytes
) -> None:
    assert len(read_stickers(emoji)) == 3
    assert Props(stickers=read_stickers(emoji)).sticker(np.random.default_rng(0)).mode == "RGBA"
    monkeypatch.setenv("DIPTYCH_DATA", str(tmp_path))
    assert read_stickers(Path("emoji.zip")) == read_stickers(emoji)
    with pytest.raises(DataError, match=r"PNG files at none.zip or of this name in DIPTYCH_DATA, got no file"):
        read_stickers(Path("none.zip"))
    (tmp_path / "text.zip").write_text("not an archive")
    with pytest.raises(DataError, match=r"expected a ZIP archive of PNG files, got .*text.zip: it is damaged"):
        read_stickers(tmp_path / "text.zip")
    for name, content, said in (
        ("a.txt", b"a", "expected PNG files in .*, got none"),
        ("a.png", b"a", "a.png is damaged"),
    ):
        with zipfile.ZipFile(tmp_path / "odd.zip", "w") as file:
            file.writestr(name, content)
        with pytest.raises(DataError, match=said):
            read_stickers(tmp_path / "odd.zip")


def test_the_command_writes_hard_queries_with_distractors_and_knows_the_repertoires(
    folder: Path, others: Callable[[str], Path], emoji: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = parsed("edit", "photos", "-o", "queries")
    assert (typed["repertoire"], typed["distractors"]) == ("easy", 0)
    line = ["edit", str(folder), "-o", str(tmp_path / "out"), "--count", "4", "--repertoire", "hard", "--json"]
    line += ["--distractors", "2", "--distractors-from", str(others("more")), "--emoji", str(emoji)]
    assert main([*line, "--backgrounds", str(others("scenes"))]) == 0
    written = json.loads(capsys.readouterr().out)
    assert (written["queries"], written["distractors"]) == (6, 2)
    with Path(written["truth"]).open(newline="") as file:
        assert [bool(row["reference"]) for row in csv.DictReader(file)] == [True] * 4 + [False] * 2
    for name in REPERTOIRES:
        assert parsed("edit", "photos", "-o", "queries", "--repertoire", name)["repertoire"] == name
