"""The sets of `diptych study marks`: what they may hold, that they are drawn alike, and the command's table."""

import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from diptych.cli.main import main
from diptych_runtime.runtime import Runtime
from diptych_studies.mark_sets import MARKS, SEEN_ELSEWHERE, WALKS, Settings, Source, prepare_set
from diptych_studies.marks import marks_text, measure_marks
from diptych_training.data.archives import GROUPED
from diptych_training.data.csv import read_table
from diptych_training.data.edits import picture_names
from diptych_training.errors import DataError
from diptych_training.evaluation.stages import Entrants

SMALL = Settings(references=70, queries=5, distractors=4, strangers=11, per_group=3)
COPIES = [name for name, mark in MARKS.items() if mark.protocol == "copies"]
RETRIEVAL = [name for name, mark in MARKS.items() if mark.protocol == "retrieval"]
GROUPS = {
    "abo_samples": {"same_lamp": 2, "same_sofa": 4},
    "boofcv_views": {"same_chair": 7, "same_alone": 1, "class_vacation": 3},
    "openimages_doors": {"class_openimages_doors": 30},
    "photos_cc0": {"class_landscape_photos": 2},
    "screens": {"class_shop_admin_screens": 20},
    "se_covers": {"same_cover_a": 2, "same_cover_b": 2, "same_cover_c": 1},
    "sfm_sets": {"same_opensfm_lund": 9, "same_skull": 5},
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, archives: Path, photo_bytes: Callable[..., bytes]) -> Path:
    """All archives, of few drawn pictures each."""
    folder = tmp_path_factory.mktemp("marked")
    seeds = iter(range(20_000, 30_000))
    for name in ("clothing", "flowers", "goods"):
        shutil.copy(archives / f"{name}.zip", folder)
    with zipfile.ZipFile(archives / "grocery.zip") as given, zipfile.ZipFile(folder / "grocery.zip", "w") as file:
        for name in given.namelist():
            data = given.read(name)
            # One of two classes that are held out is sold in a package.
            file.writestr(name, data.replace(b",food8,food8,0", b",food8,food9,1") if name.endswith(".csv") else data)
    for archive in GROUPED:
        with zipfile.ZipFile(folder / f"{archive}.zip", "w") as file:
            for group, count in GROUPS.get(archive, {"class_any": 12}).items():
                names = (
                    ["cover.jpg", "cover.source.jpg"] if archive == "se_covers" else [f"{i}.jpg" for i in range(count)]
                )
                for name in names[:count]:
                    file.writestr(f"{group}/{name}", photo_bytes(next(seeds), (48, 40)))
            if archive == "boofcv_views":
                file.writestr(SEEN_ELSEWHERE[0], photo_bytes(next(seeds), (48, 40)))
    with zipfile.ZipFile(folder / "emoji.zip", "w") as file:
        file.write(sticker(tmp_path_factory.mktemp("sticker")), "emoji/one.png")
    return folder


def sticker(folder: Path) -> Path:
    from PIL import Image

    Image.new("RGBA", (16, 16), (200, 30, 40, 255)).save(folder / "one.png")
    return folder / "one.png"


@pytest.fixture(scope="session")
def sets(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Path:
    sets = tmp_path_factory.mktemp("prepared") / "sets"
    for name in MARKS:
        prepare_set(name, Source(folder, SMALL), sets)
    return sets


def rows(table: Path) -> dict[str, str]:
    return {row["path"]: row["class"] for row in read_table(table, ["path", "class"])}


@pytest.mark.parametrize("name", COPIES)
def test_every_copy_has_one_match_and_no_query_lies_among_the_references(name: str, sets: Path) -> None:
    truth = read_table(sets / name / "queries" / "truth.csv", ["query", "reference"])
    references = picture_names(sets / "references")
    matched = [row["reference"] for row in truth if row["reference"]]
    assert len(matched) == len(set(matched)) == SMALL.queries
    assert set(matched) <= set(references) & set(rows(sets / "references" / "validation.csv"))
    assert len(references) == SMALL.references
    held = {(sets / "references" / path).read_bytes() for path in references}
    assert not any((sets / name / "queries" / row["query"]).read_bytes() in held for row in truth)


def test_distractors_have_no_match_and_what_they_are_made_from_is_no_reference(sets: Path) -> None:
    truth = read_table(sets / "hard-copies" / "queries" / "truth.csv", ["query", "reference"])
    assert sum(not row["reference"] for row in truth) == SMALL.distractors
    aside = rows(sets / "references" / "held-out.csv")
    assert len(aside) == SMALL.distractors
    assert not set(aside) & set(picture_names(sets / "references"))
    assert not set(aside) & set(rows(sets / "references" / "validation.csv"))


@pytest.mark.parametrize("name", RETRIEVAL)
def test_every_query_has_a_match_that_is_not_its_own_file(name: str, sets: Path) -> None:
    queries, gallery = (rows(sets / name / f"{table}.csv") for table in ("queries", "gallery"))
    assert queries
    for path, label in queries.items():
        assert any(label == other and path != stored for stored, other in gallery.items())
    assert all((sets / name / "photos" / path).is_file() for path in (*queries, *gallery))


def test_no_thing_has_more_queries_than_allowed_and_a_walk_is_only_its_middle(sets: Path) -> None:
    queries, gallery = (rows(sets / "things" / f"{table}.csv") for table in ("queries", "gallery"))
    asked = list(queries.values())
    assert max(asked.count(label) for label in asked) == SMALL.per_group
    assert list(gallery.values()).count("sfm_sets/same_skull") == 5
    assert sorted(path for path, label in gallery.items() if label == WALKS[0]) == [
        f"same_opensfm_lund/{i}.jpg" for i in (3, 4, 5)
    ]
    assert "boofcv_views/same_alone" not in gallery.values()
    strangers = [path for path, label in gallery.items() if path == label]
    assert len(strangers) == SMALL.strangers
    assert not set(strangers) & set(SEEN_ELSEWHERE)


def test_packages_and_produce_share_a_catalogue_and_no_class(sets: Path) -> None:
    packages, produce = (sets / f"catalogue-{sort}" for sort in ("packages", "produce"))
    assert rows(packages / "gallery.csv") == rows(produce / "gallery.csv")
    assert len(rows(packages / "gallery.csv")) == 12
    asked = [set(rows(sort / "queries.csv").values()) for sort in (packages, produce)]
    assert asked == [{"food8"}, {"food9"}]


def test_the_same_seed_draws_the_same_sets_and_another_seed_others(folder: Path, sets: Path, tmp_path: Path) -> None:
    other = Settings(**{**vars(SMALL), "seed": 21})
    for name in ("hard-copies", "covers", "things"):
        prepare_set(name, Source(folder, SMALL), tmp_path / "again")
        prepare_set(name, Source(folder, other), tmp_path / "other")
    for name in ("references", "hard-copies", "covers", "things"):
        first, again, others = (contents(place / name) for place in (sets, tmp_path / "again", tmp_path / "other"))
        assert first
        assert first == again
        assert first != others


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "set.json")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_a_set_is_prepared_once_and_refused_with_other_settings(folder: Path, tmp_path: Path) -> None:
    made = prepare_set("sides", Source(folder, SMALL), tmp_path)
    before = (made / "queries.csv").stat().st_mtime_ns
    assert prepare_set("sides", Source(folder, SMALL), tmp_path) == made
    assert (made / "queries.csv").stat().st_mtime_ns == before
    with pytest.raises(DataError, match=r"sides was prepared with the settings .*'seed': 20.* and .*'seed': 3"):
        prepare_set("sides", Source(folder, Settings(**{**vars(SMALL), "seed": 3})), tmp_path)


def test_a_set_that_cannot_be_made_leaves_nothing_behind(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"400 queries and 4 distractors need as many held-out pictures, and clothing"):
        prepare_set("easy-copies", Source(folder, Settings(**{**vars(SMALL), "queries": 400})), tmp_path / "sets")
    assert not list((tmp_path / "sets").iterdir())


@pytest.mark.slow
def test_all_sets_are_measured_by_the_question_they_ask(
    folder: Path, sets: Path, artifact: Path, tmp_path: Path
) -> None:
    asked: list[str] = []
    runtime = Runtime.open(artifact, threads=1)

    @contextmanager
    def enter(question: str) -> Iterator[Entrants]:
        asked.append(question)
        yield Entrants(runtime, {"other": runtime})

    shutil.copytree(sets, tmp_path / "sets")
    result = measure_marks(tmp_path, folder, "tiny", enter, settings=SMALL, candidates=7)
    assert asked == ["copy", "thing"]
    assert list(result["sets"]) == list(MARKS)
    assert json.loads((tmp_path / "marks.json").read_text()) == result
    for row in result["sets"].values():
        assert row["gain"][0] == pytest.approx(row["reranked"] - row["first_stage"])
        assert row["gain"][1] <= row["gain"][0] <= row["gain"][2]
        assert row["against"]["other"]["lead"][0] <= 0
        assert row["queries"] >= 1
    assert result["sets"]["hard-copies"]["measured"]["distractors"] == SMALL.distractors
    lines = marks_text(result).splitlines()
    assert len(lines) == 3 + 2 * len(MARKS)
    assert lines[-2] == f"model tiny {runtime.manifest.revision}"
    digests = {name: row["digest"] for name, row in result["sets"].items()}
    assert len(set(digests.values())) == len(MARKS)
    assert lines[-1] == "sets " + ", ".join(f"{name} {digest}" for name, digest in digests.items())
    (tmp_path / "sets" / "sides" / "photos" / "one-more.jpg").write_bytes(b"another")
    again = measure_marks(tmp_path, folder, "tiny", enter, only=["sides", "things"], settings=SMALL, candidates=7)
    assert again["sets"]["things"]["digest"] == digests["things"]
    assert again["sets"]["sides"]["digest"] != digests["sides"]
    assert lines[0].split()[:3] == ["set", "figure", "model"]


def test_the_command_of_a_set_measures_the_same_by_hand(
    folder: Path, artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DIPTYCH_DATA", str(folder))
    line = ["study", "marks", "--model", str(artifact), "--out", str(tmp_path), "--candidates", "5"]
    assert main([*line, "--only", "sides", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)["sets"]["sides"]
    assert main([*row["command"].split()[1:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == row["measured"]
    assert main([*line, "--only", "sides", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("set ")
    assert main([*line, "--only", "side"]) == 1
    assert "did you mean 'sides'" in capsys.readouterr().err
