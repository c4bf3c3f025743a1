"""Text as bytes for language models: anybody's files, and one corpus found wherever Python is."""

import ast
import hashlib
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from diptych_training.data.archives import split_of
from diptych_training.errors import DataError

LEAST, HELD_OUT = 4096, 0.15
_NOT_MODULES = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}


@dataclass(frozen=True)
class Text:
    """Bytes to learn from and bytes to be measured on; `held_out_by` names the rule that kept them apart."""

    name: str
    train: bytes
    held_out: bytes
    held_out_by: str

    def __post_init__(self) -> None:
        for part, data in (("training", self.train), ("held-out", self.held_out)):
            if len(data) < LEAST:
                raise DataError(
                    f"{self.name}: the {part} part has {len(data)} bytes, at least {LEAST} are needed: give more text"
                )

    @property
    def digest(self) -> str:
        """The SHA-256 of both parts, in hexadecimal."""
        return hashlib.sha256(hashlib.sha256(self.train).digest() + self.held_out).hexdigest()


def read_text(path: Path, *, blocks: int = 50) -> Text:
    """Read a text file, or a folder of text files, as bytes.

    A folder with at least ten files is split by file (about a seventh is held out, by the digest of its name), anything
    else into contiguous blocks, of which every tenth is held out. Raises `DataError` for what is absent, empty or no
    text.
    """
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if p.is_file() and not _is_hidden(p.relative_to(path)))
        if not found:
            raise DataError(f"{path} is a folder without files: put text files into it, or name one file")
        named = [(str(p.relative_to(path)), _read_file(p)) for p in found]
        if len(named) >= 10:
            return _by_name(path.name, named, "file")
    elif path.is_file():
        named = [(path.name, _read_file(path))]
    else:
        raise DataError(f"expected a text file or a folder of text files at {path}, which is neither")
    return _by_block(path.name, b"\n".join(data for _, data in named), blocks)


def read_documentation(folder: Path | None = None) -> Text:
    """Read the documentation strings of Python's standard library, each once.

    Modules are held out by their names' digest.

    Modules of one package, and one with an underscore and its namesake (decimal, _pydecimal), are on the same side.
    Another Python has other strings: results are compared on one machine, or by `Text.digest`.
    """
    folder = folder or Path(sysconfig.get_paths()["stdlib"])
    strings: dict[str, list[str]] = {}
    seen: set[str] = set()
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        if _NOT_MODULES & set(parts):
            continue
        for string in _read_docstrings(path):
            if string not in seen:
                seen.add(string)
                strings.setdefault(parts[0].lstrip("_").removeprefix("py"), []).append(string)
    if not strings:
        raise DataError(
            f"no sources of the standard library with documentation strings in {folder}: "
            "this Python was installed without them; give a text file instead"
        )
    named = [(module, "\n\n".join(found).encode("utf-8", "replace")) for module, found in sorted(strings.items())]
    return _by_name("documentation strings of Python's standard library", named, "module")


def _read_docstrings(path: Path) -> Iterator[str]:
    try:
        with warnings.catch_warnings():
            # Some old sources have escapes that later versions warn of.
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            string = ast.get_docstring(node)
            if string:
                yield string


def _by_name(name: str, named: Sequence[tuple[str, bytes]], what: str) -> Text:
    parts: dict[str, list[bytes]] = {"train": [], "validation": []}
    for key, data in named:
        parts[split_of(f"text {key}", validation=HELD_OUT, test=0.0)].append(data)
    return Text(name, b"\n\n".join(parts["train"]), b"\n\n".join(parts["validation"]), what)


def _by_block(name: str, data: bytes, blocks: int) -> Text:
    ends = [len(data) * i // blocks for i in range(blocks + 1)]
    cut = [data[start:end] for start, end in pairwise(ends)]
    train = b"".join(block for i, block in enumerate(cut) if i % 10 != 9)
    return Text(name, train, b"".join(cut[9::10]), "block")


def _read_file(path: Path) -> bytes:
    data = path.read_bytes()
    if b"\0" in data:
        raise DataError(f"{path} is no text: it holds a zero byte; leave it out")
    if not data.strip():
        raise DataError(f"{path} is empty")
    return data


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
