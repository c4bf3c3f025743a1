"""Text as bytes: what is read, what is held out, and what is refused."""

from pathlib import Path

import pytest

from diptych_studies.data.text import LEAST, Text, read_documentation, read_text
from diptych_training.errors import DataError


def lines(count: int, name: str = "line") -> bytes:
    return b"".join(f"{name} {i:06}\n".encode() for i in range(count))


def test_a_file_is_cut_into_blocks_of_which_every_tenth_is_held_out(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_bytes(lines(6000))
    text = read_text(path)
    assert (text.name, text.held_out_by) == ("book.txt", "block")
    assert len(text.train) + len(text.held_out) == path.stat().st_size
    assert len(text.held_out) == pytest.approx(0.1 * path.stat().st_size, rel=0.01)
    kept, held = set(text.train.split(b"\n")), set(text.held_out.split(b"\n"))
    # Only a line that a cut goes through may be on both sides, in pieces.
    assert not {line for line in kept & held if len(line) == len(b"line 000000")}


def test_a_folder_is_split_by_file_and_a_further_file_moves_no_other(tmp_path: Path) -> None:
    for i in range(40):
        (tmp_path / f"{i}").mkdir()
        (tmp_path / f"{i}" / "chapter.txt").write_bytes(lines(150, f"file{i:03}"))
    (tmp_path / ".hidden").write_bytes(b"\0")
    text = read_text(tmp_path)

    def held(text: Text) -> set[bytes]:
        assert not {line.split()[0] for line in text.train.split(b"\n") if line} & _firsts(text.held_out)
        return _firsts(text.held_out)

    def _firsts(data: bytes) -> set[bytes]:
        return {line.split()[0] for line in data.split(b"\n") if line}

    assert text.held_out_by == "file"
    before = held(text)
    assert 1 <= len(before) <= 20
    (tmp_path / "another.txt").write_bytes(lines(200, "another"))
    assert held(read_text(tmp_path)) - {b"another"} == before


def test_the_digest_tells_texts_and_splits_apart() -> None:
    train, held = b"a" * LEAST, b"b" * LEAST
    digests = {Text("x", *parts, "block").digest for parts in ((train, held), (held, train), (train, held + b"b"))}
    assert len(digests) == 3
    assert Text("another name", train, held, "file").digest == Text("x", train, held, "block").digest


def library(folder: Path) -> Path:
    for i in range(40):
        module = folder / (f"module{i}.py" if i % 3 else f"package{i}/inner{i}.py")
        module.parent.mkdir(parents=True, exist_ok=True)
        body = "\n".join(f'    def f{j}(self):\n        """Says m{i} {j}, as bytes {"x" * 40}."""' for j in range(90))
        module.write_text(f'"""Module m{i}."""\n# A comment of m{i}.\nclass C:\n    """The same in all."""\n{body}\n')
    return folder


def test_documentation_is_every_docstring_once_and_whole_modules_are_held_out(tmp_path: Path) -> None:
    folder = library(tmp_path)
    (folder / "test").mkdir()
    (folder / "test" / "test_it.py").write_text('"""A test says this."""')
    (folder / "broken.py").write_text("def (")
    modules = [i for i in range(40) if i % 3]
    for i in modules:
        (folder / f"_pymodule{i}.py").write_text(f'"""Beside module{i}."""')
    text = read_documentation(folder)
    both = text.train + text.held_out
    assert both.count(b"The same in all.") == 1
    assert all(both.count(f"Module m{i}.".encode()) == 1 for i in range(40))
    assert b"comment" not in both
    assert b"A test says" not in both
    for i in range(40):
        sides = [f"Says m{i} 0,".encode() in part for part in (text.train, text.held_out)]
        assert sorted(sides) == [False, True]
        assert [f"Says m{i} 89,".encode() in part for part in (text.train, text.held_out)] == sides
    for i in modules:
        assert (f"Beside module{i}.".encode() in text.train) == (f"Says m{i} 0,".encode() in text.train)
    assert text.held_out_by == "module"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "expected a text file or a folder of text files at .*book.txt"),
        (b" \n", "book.txt is empty"),
        (b"a\0b", "book.txt is no text: it holds a zero byte"),
        (b"too short", f"the training part has 8 bytes, at least {LEAST} are needed"),
    ],
)
def test_what_is_no_text_is_refused_by_name(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "book.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_text(path)
