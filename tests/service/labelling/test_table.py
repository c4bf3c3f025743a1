"""Labelled pairs out of a collection and back, as CSV."""

import csv
from io import StringIO

import pytest

from diptych import Collection
from diptych.console import open_text
from diptych.errors import LabellingError
from diptych.labelling.table import COLUMNS, import_labels, read_labels, write_labels
from diptych.store.records import Label

A, B = "a" * 32, "b" * 32


def text(labels) -> str:
    stream = StringIO()
    write_labels(labels, stream)
    return stream.getvalue()


def rows(*lines: str):
    return list(read_labels([line + "\n" for line in lines], "labels.csv"))


def said(collection: Collection):
    return [(one.pair, one.question, one.answer, one.added, one.path_a, one.path_b) for one in collection.labels()]


@pytest.fixture
def labelled(collection):
    a, b, c = (record.id for record in collection.list(3))
    collection.label(a, b, "same")
    collection.label(c, a, "cannot tell", question="thing")
    collection.label(b, c, "different")
    return collection


def test_labels_go_out_and_come_into_another_collection_with_their_times_once(labelled, scorer, tmp_path):
    table = text(labelled.labels())
    assert table.splitlines()[0] == ",".join(COLUMNS)
    with Collection.open(tmp_path / "other", scorer, create=True) as other:
        assert import_labels(other.store, read_labels(StringIO(table), "t.csv")) == (3, 0)
        assert import_labels(other.store, read_labels(StringIO(table), "t.csv")) == (0, 3)
        assert [row[:4] for row in said(other)] == [row[:4] for row in said(labelled)]
        for path in sorted({path for row in said(labelled) for path in row[4:6] if path}):
            other.add(path)
        assert said(other) == said(labelled)
    one = labelled.labels()[0]
    changed = text([Label(one.a, one.b, one.question, "different", one.added)])
    assert import_labels(labelled.store, read_labels(StringIO(changed), "t")) == (1, 0), "a changed answer is new"
    assert labelled.labels("copy")[-1].answer == "different"


def test_a_table_made_by_hand_names_files_and_answers_in_the_usual_ways(
    collection, gallery, tmp_path, photo_bytes, monkeypatch
):
    monkeypatch.chdir(gallery)
    (gallery / "new.jpg").write_bytes(photo_bytes(77))
    made = rows(
        "path_a,path_b,label,note",
        "01.jpg,02.jpg,1,a",
        "02.jpg,04.jpg,No,",
        "04.jpg,more/00.jpg,?,",
        "new.jpg,01.jpg,different,",
        "01.jpg,05.jpg,,",
    )
    assert import_labels(collection.store, made) == (4, 0)
    assert [(one.question, one.answer) for one in collection.labels()] == [
        ("copy", "same"),
        ("copy", "different"),
        ("copy", "cannot tell"),
        ("copy", "different"),
    ]
    assert [one.path_a is None or one.path_b is None for one in collection.labels()] == [False, False, False, True]
    (added,) = [one.id for one in collection.add(gallery / "new.jpg")]
    assert added in collection.labels()[-1].pair


def test_of_several_stored_pictures_of_a_path_the_file_there_is_meant(collection, gallery, photo_bytes):
    path, other = sorted(gallery.glob("*.jpg"))[:2]
    before = collection.list(100)
    path.write_bytes(photo_bytes(78))
    (now,) = [one.id for one in collection.add(path)]
    assert [one.path for one in (*before, collection.get(now))].count(str(path)) == 2
    table = ("image_a,image_b,answer", f"{path},{other},1")
    assert import_labels(collection.store, rows(*table)) == (1, 0)
    assert now in collection.labels()[0].pair
    path.unlink()
    with pytest.raises(LabellingError, match=r"the path of 2 pictures .*not exist"):
        import_labels(collection.store, rows(*table))


def test_a_table_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"image_a,image_b,answer\n/caf\xe9.jpg,/b.jpg,same\n")
    with (
        open_text(str(tmp_path / "t.csv"), newline="") as stream,
        pytest.raises(LabellingError, match=r"in UTF-8.*0xe9"),
    ):
        list(read_labels(stream, "t.csv"))


@pytest.mark.parametrize(
    "path", ["=HYPERLINK(1)", "+1", "-1", "@x", "\tx", "'quoted", "'=x", '/a,b/"c"\n.jpg', "/plain.jpg"]
)
def test_no_cell_is_taken_for_a_formula_and_every_path_comes_back(path):
    table = text([Label(A, B, "copy", "same", "2026-01-01T00:00:00+00:00", path, "/b.jpg")])
    cells = next(csv.reader(StringIO(table.partition("\n")[2])))
    assert cells[0][0] in "'/"
    (row,) = read_labels(StringIO(table), "t")
    assert (row.path_a, row.path_b, row.id_a, row.id_b, row.answer) == (path, "/b.jpg", A, B, "same")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (("a,b",), r"labels.csv needs the columns image_a, image_b and answer; it has a, b"),
        ((), r"it has none"),
        (
            ("image_a,image_b,answer", "1.jpg,2.jpg,maybe"),
            r"row 1 of labels.csv: expected an answer of same, different, cannot tell, or 1 or 0, got 'maybe'",
        ),
        (("image_a,image_b,answer", "1.jpg,2.jpg,1", "1.jpg,,1"), r"row 2 of labels.csv: expected two pictures"),
        (
            ("image_a,image_b,answer,question", "1.jpg,2.jpg,1,colour"),
            r"expected a question of copy, thing, got 'colour'",
        ),
        (("id_a,id_b,answer", f"{A},XYZ,1"), r"expected ids of 32 hexadecimal digits, got '.*XYZ'"),
        (("id_a,id_b,answer,added", f"{A},{B},1,yesterday"), r"expected a time as 2026"),
    ],
)
def test_a_table_that_cannot_be_understood_is_refused_with_its_row(lines, words):
    with pytest.raises(LabellingError, match=words):
        rows(*lines)


def test_of_a_table_with_a_wrong_row_nothing_is_taken(collection, gallery):
    one, two = sorted(gallery.glob("*.jpg"))[:2]
    for bad, words in (
        (gallery / "none.jpg", "not in the collection, and as a file: .*none.jpg does not exist"),
        (gallery, "a folder; expected a picture file"),
        ("a\0b.jpg", "cannot be read: embedded null byte"),
        ("/dev/zero", "not a regular file"),
        (one, "both pictures are the same file"),
    ):
        made = rows("image_a,image_b,answer", f"{one},{two},1", f"{one},{bad},1")
        with pytest.raises(LabellingError, match=f"row 2: .*{words}"):
            import_labels(collection.store, made)
    assert collection.labels() == []


def test_rows_that_contradict_each_other_are_refused_with_both_numbers_and_repeated_ones_count_once(
    collection, gallery, monkeypatch
):
    monkeypatch.chdir(gallery)
    head = "image_a,image_b,answer,question"
    repeated = rows(head, "01.jpg,02.jpg,1,", "02.jpg,01.jpg,same,copy", "01.jpg,02.jpg,0,thing", "01.jpg,02.jpg,1,")
    assert import_labels(collection.store, repeated) == (2, 0)
    assert import_labels(collection.store, repeated) == (0, 2)
    before = said(collection)
    contradicting = rows(head, "04.jpg,05.jpg,1,", "01.jpg,02.jpg,1,", "07.jpg,08.jpg,0,", "02.jpg,01.jpg,0,")
    with pytest.raises(LabellingError, match=r"rows 2 and 4 contradict each other: .* says same and the other diff"):
        import_labels(collection.store, contradicting)
    assert said(collection) == before, "nothing was taken"


def test_a_picture_is_found_by_its_name_in_another_normal_form(collection, gallery):
    (gallery / "01.jpg").rename(gallery / "Gro\u0308\u00dfe.jpg")
    stored = collection.add(gallery / "Gro\u0308\u00dfe.jpg")[0].id
    named = ("image_a,image_b,answer", f"{gallery}/Gr\u00f6\u00dfe.jpg,{gallery}/02.jpg,1")
    assert import_labels(collection.store, rows(*named)) == (1, 0)
    assert stored in collection.labels()[0].pair
