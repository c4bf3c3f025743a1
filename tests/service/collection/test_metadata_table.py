"""Tables of metadata for picture files: a line for each, in CSV or JSON."""

import pytest

from diptych.collection.metadata_table import read_metadata
from diptych_runtime.errors import ArgumentError


def test_a_csv_has_numbers_truth_values_and_texts_and_lines_of_json_have_metadata_beside_the_path_or_in_them(tmp_path):
    (tmp_path / "table.csv").write_text(
        '\ufefflabel,path,price,sold,code,note\nshoe,a.jpg,20,true,007,\nboot,sub/../b.jpg,-1.5,False,1e5,"x, y"\n',
        "utf-8",
    )
    assert read_metadata(tmp_path / "table.csv") == {
        str(tmp_path / "a.jpg"): {"label": "shoe", "price": 20, "sold": True, "code": "007"},
        str(tmp_path / "b.jpg"): {"label": "boot", "price": -1.5, "sold": "False", "code": "1e5", "note": "x, y"},
    }
    (tmp_path / "table.jsonl").write_text(
        '{"path": "/photos/a.jpg", "id": "1", "metadata": {"tags": ["x"]}}\n\n'
        '{"file_name": "b.jpg", "label": "boot"}\n'
        '{"path": null, "id": "2", "metadata": {}}\n'
    )
    found = {"/photos/a.jpg": {"tags": ["x"]}, str(tmp_path / "b.jpg"): {"label": "boot"}}
    assert read_metadata(tmp_path / "table.jsonl") == found


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("table.txt", "", r"ends in \.csv or \.jsonl, got .*table\.txt"),
        ("table.csv", "", "line 0: expected columns of different names, path or file_name among them, got none"),
        ("table.csv", "image,label\na.jpg,x\n", "path or file_name among them, got image, label"),
        ("table.csv", "path,label,label\na.jpg,x,\n", "expected columns of different names"),
        ("table.csv", "path,label\na.jpg,x,y\n", "line 2: more cells than the header has columns"),
        ("table.csv", "path,label\n,x\n", "line 2: no path"),
        ("table.csv", "path,label\na.jpg,x\n./a.jpg,y\n", r"line 3: \./a\.jpg is named twice"),
        ("table.csv", 'path,label\na.jpg,"x\n', "line 2: unexpected end of data"),
        ("table.csv", f"path,label\na.jpg,{'1' * 5000}\n", "line 2: Exceeds the limit"),
        ("table.jsonl", f'{{"path": "a.jpg", "label": {"1" * 5000}}}\n', "line 1: Exceeds the limit"),
        ("table.jsonl", "[1]\n", "line 1: expected a JSON object with path or file_name"),
        ("table.jsonl", '\n{"path": "a.jpg"\n', "line 2: Expecting"),
        ("table.jsonl", '{"path": 7}\n', "line 1: expected the name of a file in path, got 7"),
        ("table.jsonl", '{"path": "a.jpg", "metadata": "x"}\n', "metadata must be a dict of JSON values, got str"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(ArgumentError, match=words):
        read_metadata(tmp_path / name)


def test_another_encoding_and_another_normal_form(tmp_path):
    (tmp_path / "table.csv").write_bytes("path,label\na.jpg,é\n".encode("latin-1"))
    with pytest.raises(ArgumentError, match=r"table\.csv is not UTF-8"):
        read_metadata(tmp_path / "table.csv")
    (tmp_path / "Gro\u0308\u00dfe.jpg").touch()
    (tmp_path / "table.jsonl").write_text('{"path": "Gr\u00f6\u00dfe.jpg", "label": "x"}\n', "utf-8")
    assert read_metadata(tmp_path / "table.jsonl") == {str(tmp_path / "Gro\u0308\u00dfe.jpg"): {"label": "x"}}
