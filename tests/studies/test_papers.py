"""The page on the papers against the project: files, symbols, tests and commands exist, no number is missing, and the
tests named there fail where the code is wrong.
"""

import ast
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from typed import parsed
from typer import TyperException

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/studies/papers.md"
COLUMNS = ["place", "subject", "code", "test", "command"]
# The numbers that each paper gives, by a word of its heading.
NUMBERED = {
    "Barkan": [*(f"Eq. {n}" for n in range(1, 5)), "Definition 1", "Definition 2", "Lemma 1", "Figure 1", "Figure 2"],
    "Hilario": [*(f"Eq. {n}" for n in range(1, 12)), *(f"Figure {n}" for n in range(1, 5))],
    "Kim": [*(f"Figure {n}" for n in range(1, 6)), "Table 1", "Table 2"],
}
# Mistakes that make a row untrue: the paper, the place, what stands once in the file of its code, and what replaces it.
MUTATIONS = [
    ("Barkan", "2.1", "grid), self.H_Y)", "grid), self.H_Y.flip(1))"),
    ("Barkan", "5", "Scale(1, m, 1, d_a, d_a)", "Scale(1, 1, 1, d_a, d_a)"),
    ("Barkan", "5, BERT", 'return self.objective == "causal"', "return True"),
    ("Barkan", "5, BERT, pairs", "self.segment(segments)", "self.segment(0 * segments)"),
    ("Barkan", "6.1, x_seg, z_seg added", "self.segments(tokens_a, tokens_b)", "(tokens_a, tokens_b)"),
    ("Barkan", "6.1, x_seg, z_seg as channels", "self.z_seg = nn", "self.z_seg = self.x_seg if extra else nn"),
    ("Hilario", "Eq. 1", "attention_coefficients(q, k, bias) @ v", "attention_coefficients(k, q, bias) @ v"),
    ("Hilario", "Eq. 4", "q.shape[-1] ** -0.5 if", "1.0 if"),
    ("Hilario", "Figure 2", "y = self.scaled(y)", "y = y + 0 * self.scaled(y)"),
    ("XCiT", "XCA: dropout of attention", "y = self.attention_dropout((q", "y = ((q"),
    ("XCiT", "XCA: dropout of the projection", "return self.dropout(", "return ("),
]
# Runs pytest with a mistake in a module. It is made in the source as the module is imported: no file changes.
RUN_MUTATED = """
import sys
from importlib.machinery import SourceFileLoader

import pytest

mutated, old, new, *arguments = sys.argv[1:]
get_code = SourceFileLoader.get_code


def get_mutated_code(self, name):
    if name != mutated:
        return get_code(self, name)
    return self.source_to_code(self.get_data(self.path).replace(old.encode(), new.encode()), self.path)


SourceFileLoader.get_code = get_mutated_code
sys.exit(pytest.main(arguments))
"""


@dataclass(frozen=True)
class Row:
    """A row of a table of the page: the heading above it, and the cells of its columns."""

    paper: str
    place: str
    code: str
    test: str
    command: str

    def __str__(self) -> str:
        return f"{self.paper}, {self.place}"


@cache
def rows() -> tuple[Row, ...]:
    found, paper, columns = [], "", []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            paper, columns = line[3:], []
        elif line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if cells == COLUMNS or columns == COLUMNS:
                columns = COLUMNS
                if cells != COLUMNS and set(line) != set("|-"):
                    place, _, *rest = cells
                    found.append(Row(paper, place, *(cell.strip("`") for cell in rest)))
        else:
            columns = []
    return tuple(found)


def numbers(text: str) -> Iterator[str]:
    """The numbers of a place; `Figures 1 and 2` are two."""
    for kind, *each in re.findall(r"(Eq\.|Definition|Lemma|Figure|Table)s? (\d+)(?: and (\d+))?", text):
        yield from (f"{kind} {number}" for number in each if number)


def located(name: str, folder: str) -> tuple[Path, str]:
    """The file and the symbol of `path::symbol`; a path without a folder of the project is below `folder`."""
    path, _, symbol = name.partition("::")
    whole = ROOT / path if (ROOT / path.partition("/")[0]).is_dir() else ROOT / folder / path
    return whole, symbol


def name_module(path: Path) -> str:
    """The name by which a file of one of the project's packages is imported."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts[1:])


@pytest.mark.parametrize("row", rows(), ids=str)
def test_the_code_of_a_place_can_be_imported(row: Row) -> None:
    path, symbol = located(row.code, "model/diptych_model")
    assert path.is_file(), path
    found: object = import_module(name_module(path))
    for part in symbol.split("."):
        found = getattr(found, part)
    assert symbol
    assert callable(found)


@pytest.mark.parametrize("row", rows(), ids=str)
def test_the_test_of_a_place_is_there(row: Row) -> None:
    path, name = located(row.test, "tests/model")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert name.startswith("test_")


@pytest.mark.parametrize(("paper", "place", "old", "new"), MUTATIONS, ids=[f"{m[0]}, {m[1]}" for m in MUTATIONS])
def test_the_test_of_a_place_fails_where_its_code_is_wrong(paper: str, place: str, old: str, new: str) -> None:
    [row] = [row for row in rows() if paper in row.paper and row.place == place]
    (path, _), (test, name) = located(row.code, "model/diptych_model"), located(row.test, "tests/model")
    assert path.read_text(encoding="utf-8").count(old) == 1
    run = [sys.executable, "-B", "-c", RUN_MUTATED, name_module(path), old, new]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*run, "-q", "-x", "-p", "no:cacheprovider", f"{test}::{name}"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert ": AssertionError" in done.stdout, done.stdout


@pytest.mark.parametrize("command", sorted({row.command for row in rows() if row.command}))
def test_the_command_of_a_place_is_understood(command: str) -> None:
    program, *words = shlex.split(command)
    assert program == "diptych"
    try:
        parsed(*words)
    except TyperException as error:
        pytest.fail(f"{command}: {error}")


@pytest.mark.parametrize("paper", NUMBERED)
def test_every_number_of_a_paper_has_a_place(paper: str) -> None:
    told = {number for row in rows() if paper in row.paper for number in numbers(row.place)}
    unmade = PAGE.read_text(encoding="utf-8").partition("## What is not reproduced")[2]
    named = [line for line in unmade.splitlines() if paper in line]
    assert not set(NUMBERED[paper]) - told - {number for line in named for number in numbers(line)}
    assert told <= set(NUMBERED[paper])


def test_every_paper_has_places_and_what_is_numbered_is_not_all() -> None:
    assert len({row.paper for row in rows()}) == 5
    assert len(rows()) > 60
    sections = {row.place.partition(",")[0] for row in rows() if "Barkan" in row.paper}
    assert {"1", "2.1", "3", "4", "5", "6", "6.1"} <= sections
