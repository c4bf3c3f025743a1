"""Your own pictures, in the three ways they can be brought."""

import csv
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from small import SMALL

from diptych_model import PairConfig, PairNetwork, load_checkpoint, save_checkpoint
from diptych_training.errors import DataError
from diptych_training.learning.run import train
from diptych_training.recipe import recipe_from

CLASSES = ("anchor", "boat", "crane", "dock", "engine")
EACH = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, photo_bytes) -> Path:
    """A folder of five classes of six pictures each."""
    folder = tmp_path_factory.mktemp("own")
    for place, name in enumerate(CLASSES):
        (folder / name).mkdir()
        for number in range(EACH):
            (folder / name / f"{number}.jpg").write_bytes(photo_bytes(place * EACH + number, (40, 30)))
    return folder


def write(path: Path, rows: list[dict[str, str]]) -> str:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


@pytest.fixture(scope="module")
def classes_csv(folder: Path) -> str:
    rows = [{"path": f"{name}/{i}.jpg", "class": name} for name in CLASSES for i in range(EACH)]
    return write(folder / "list.csv", rows)


@pytest.fixture(scope="module")
def pairs_csv(folder: Path) -> str:
    chain = [(f"{name}/{i}.jpg", f"{name}/{i + 1}.jpg", "1") for name in CLASSES for i in range(EACH - 1)]
    apart = [(f"{a}/0.jpg", f"{b}/0.jpg", "no") for a, b in pairwise(CLASSES)]
    rows = [{"image_a": a, "image_b": b, "label": label} for a, b, label in chain + apart]
    return write(folder / "pairs.csv", rows)


def test_a_folder_and_a_csv_of_the_same_classes_are_the_same_task(opened, folder: Path, classes_csv: str) -> None:
    from_folder, from_csv = opened("classes", pictures=str(folder)), opened("classes", pictures=classes_csv)
    assert torch.equal(from_folder.pixels, from_csv.pixels)
    assert np.array_equal(from_folder.subject, from_csv.subject)
    assert np.array_equal(from_folder.held_out, from_csv.held_out)


@pytest.mark.parametrize("hold_out", ["classes", "pictures"])
def test_what_is_held_out_is_never_drawn(opened, drawn, folder: Path, hold_out: str) -> None:
    task = opened("classes", pictures=str(folder), hold_out=hold_out, queries=500)
    task.mine_negatives(lambda photos: np.random.default_rng(0).normal(size=(len(photos), 4)).astype(np.float32))
    assert 0 < task.held_out.sum() < len(task.held_out) / 2
    if hold_out == "classes":
        for subject in np.unique(task.subject):
            assert len(set(task.held_out[task.subject == subject])) == 1
    task.pixels[torch.from_numpy(task.held_out)] = 0
    task.pixels[torch.from_numpy(~task.held_out)] = 200
    assert (task.subject[task.neighbours] != task.subject[:, None]).all()
    part = drawn(task)
    assert (part.match ^ part.rival).all()
    assert part.match.any(1).all()
    assert (torch.cat([part.queries.pictures, part.references.pictures]).amax((1, 2, 3)) > 0.1).all()


def test_what_pairs_connect_is_one_thing_and_what_is_said_to_differ_comes_along(opened, drawn, pairs_csv: str) -> None:
    task = opened("pairs", table=pairs_csv, queries=500)
    assert len(np.unique(task.subject)) == len(CLASSES)
    # Every first picture of a class is said to differ from another's: it brings that one into the step.
    assert task.apart
    part = drawn(task)
    assert part.match.shape[1] > part.match.shape[0]


def test_the_validation_set_asks_with_what_is_held_out_and_not_for_itself(opened, folder: Path) -> None:
    task = opened("classes", pictures=str(folder))
    validation = task.validation()
    assert len(validation.queries) == task.held_out.sum()
    assert not validation.relevant[np.arange(len(validation.queries)), validation.itself].any()
    assert (validation.relevant.sum(1) == EACH - 1).all()


def test_every_unreadable_picture_is_named_in_one_error(opened, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.jpg").write_bytes(b"no picture")
    rows = [{"path": str(folder / "boat" / f"{i}.jpg"), "class": "boat"} for i in range(EACH)]
    rows += [{"path": "missing.jpg", "class": "dock"}, {"path": "broken.jpg", "class": "dock"}]
    with pytest.raises(DataError, match=r"2 of 8 pictures cannot be read(.|\n)*broken\.jpg(.|\n)*missing\.jpg"):
        opened("classes", pictures=write(tmp_path / "list.csv", rows))


@pytest.mark.parametrize(
    ("kind", "settings", "text", "message"),
    [
        ("classes", {}, "path,class\na.jpg,a\n", "pictures of 1 classes, and two at least are needed"),
        ("classes", {}, "path,class\na.jpg,a\nb.jpg,b\n", "2 pictures of 2 things are too few"),
        ("classes", {}, "path,class\na.jpg,a\nb.jpg,b\na.jpg,a\n", r"line 4: a\.jpg is listed twice"),
        ("classes", {}, None, "neither a folder nor a CSV"),
        ("classes", {"hold_out": "all"}, "", "hold_out must be one of classes, pictures, got 'all'"),
        ("pairs", {}, "image_a,image_b,label\na,b,maybe\n", "line 2: label must be 1 or 0, got 'maybe'"),
        ("pairs", {}, "image_a,image_b,label\na,b,0\n", "no pair .* with label 1"),
        ("pairs", {}, "image_a,image_b,label\na,b\n", "line 2: expected 3 fields, got fewer"),
        ("pairs", {}, "image_a,image_b,label\na,b,1\nb,c,1\nc,a,0\n", "line 4: c and a are said"),
    ],
)
def test_tables_that_cannot_be_learnt_from_are_refused(
    opened, tmp_path: Path, kind: str, settings: dict, text: str | None, message: str
) -> None:
    table = tmp_path / "table.csv"
    if text is not None:
        table.write_text(text)
    with pytest.raises((DataError, ValueError), match=message):
        opened(kind, **{"pictures" if kind == "classes" else "table": str(table)}, **settings)


def test_a_folder_may_hold_more_than_pictures_and_its_classes_folders_of_their_own(
    opened, folder: Path, tmp_path: Path, photo_bytes
) -> None:
    for name in ("boat", "dock"):
        (tmp_path / name / "inside").mkdir(parents=True)
        for number in range(5):
            place = tmp_path / name / ("inside" if number else "") / f"{number}.JPG"
            place.write_bytes(photo_bytes(len(name) * number, (40, 30)))
        (tmp_path / name / "Thumbs.db").write_bytes(b"x")
        (tmp_path / name / ".hidden.jpg").write_bytes(b"x")
    (tmp_path / ".checkpoints").mkdir()
    (tmp_path / ".checkpoints" / "a.jpg").write_bytes(b"x")
    task = opened("classes", pictures=str(tmp_path))
    assert len(task.names) == 10
    assert len(np.unique(task.subject)) == 2


def test_two_classes_are_enough_to_learn_from_and_too_few_to_hold_one_out(opened, drawn, folder: Path) -> None:
    rows = [{"path": f"{name}/{i}.jpg", "class": name} for name in CLASSES[:2] for i in range(EACH)]
    table = write(folder / "two.csv", rows)
    part = drawn(opened("classes", pictures=table, queries=2))
    assert part.rival.any(1).all()
    with pytest.raises(DataError, match="things are too few"):
        opened("classes", pictures=table, hold_out="classes")


def test_the_split_does_not_move_with_the_folder_or_the_order_of_the_rows(opened, folder: Path, pairs_csv: str) -> None:
    with Path(pairs_csv).open(newline="") as file:
        rows = list(csv.DictReader(file))
    moved = write(folder / "turned.csv", rows[::-1])
    one, other = opened("pairs", table=pairs_csv), opened("pairs", table=moved)
    assert {n for n, out in zip(one.names, one.held_out, strict=True) if out} == {
        n for n, out in zip(other.names, other.held_out, strict=True) if out
    }


def test_of_ones_own_pictures_alone_the_bank_stays_that_of_the_network_that_the_run_began_with(
    folder: Path, tmp_path: Path
) -> None:
    knowing = {"questions": ["copy", "thing"], "correspondence": True, "parts": 2, "bank": 3}
    network = PairNetwork(PairConfig.from_dict(SMALL["network"] | knowing))
    network.panel.embedding.bank.normal_()
    save_checkpoint(network, tmp_path / "start")
    values = {name: SMALL[name] for name in ("learning", "stages", "threads")} | {"network": {}, "mine_every": 1}
    values |= {"tasks": [{"kind": "classes", "pictures": str(folder), "queries": 4}], "start": str(tmp_path / "start")}
    train(recipe_from(values), tmp_path / "run", quiet=True)
    kept = load_checkpoint(tmp_path / "run" / "last")[0].panel.embedding.bank
    assert torch.equal(kept, network.panel.embedding.bank)
    alone = values | {"start": "", "network": SMALL["network"] | knowing}
    with pytest.raises(DataError, match="a bank of 3 pictures needs a task with archives, or the bank of another"):
        train(recipe_from(alone), tmp_path / "alone", quiet=True)
    retaining = values | {"learning": SMALL["learning"] | {"retain": 0.5}}
    with pytest.raises(DataError, match="retain compares photos of archives, and no task reads one: set it to 0"):
        train(recipe_from(retaining), tmp_path / "retaining", quiet=True)
