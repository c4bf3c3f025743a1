"""Which tests of endurance a change concerns, and whether the studies': `python tests/endurance/changed.py [COMMIT]`
prints them, a line each.

A test of endurance names in DEPENDS_ON the files and folders that it is about. It is concerned if one of these differs
from COMMIT, or the test itself does; all are concerned if what they share differs, or if the history is not to be had.
Without COMMIT it is where this branch left `origin/main`, or, on that branch itself, its last commit of a day before.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SHARED = ("pyproject.toml", "tests/conftest.py")  # the packages that are installed, and what every test is made of
DAY = 86_400
STUDIES = ROOT / "tests/studies"
STUDIES_DEPEND_ON = (
    *("model", "training", "export", "service/diptych/bench", "docs/studies/papers.md"),
    *(path.relative_to(ROOT).as_posix() for top in ("service/diptych", "tests") for path in (ROOT / top).glob("*.py")),
)


def list_tests() -> list[Path]:
    """Every test file of endurance, and the folder of the studies'."""
    return [*sorted(HERE.glob("test_*.py")), STUDIES]


def read_dependencies(test: Path) -> tuple[str, ...]:
    """The DEPENDS_ON of a test file, which is not run for it, or of the studies."""
    if test == STUDIES:
        return STUDIES_DEPEND_ON
    for node in ast.parse(test.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == ["DEPENDS_ON"]:
            return ast.literal_eval(node.value)
    raise ValueError(f"{test} names nothing in DEPENDS_ON")


def select_tests(changed: Iterable[str]) -> list[Path]:
    """The tests that depend on one of the changed files, given from the root of the checkout."""
    changed = set(changed)
    programs = {path.relative_to(ROOT).as_posix() for path in HERE.glob("*.py") if not path.name.startswith("test_")}
    if changed & {*SHARED, *programs}:
        return list_tests()

    def is_concerned(test: Path) -> bool:
        own = (test.relative_to(ROOT).as_posix(), *read_dependencies(test))
        return any(file == path or file.startswith(f"{path}/") for file in changed for path in own)

    return [test for test in list_tests() if is_concerned(test)]


def list_changes(commit: str | None) -> set[str] | None:
    """The files that differ from a commit, untracked ones too; None if git cannot tell."""
    try:
        commit = commit or _find_base()
        if not commit:
            return None
        new = _git("ls-files", "--others", "--exclude-standard")
        return {*_git("diff", "--name-only", "--no-renames", commit), *new}
    except (OSError, subprocess.CalledProcessError):
        return None


def _find_base() -> str:
    head = _git("rev-parse", "HEAD")[0]
    try:
        base = _git("merge-base", "HEAD", "origin/main")[0]
    except subprocess.CalledProcessError:
        base = head
    if base != head:
        return base
    time = int(_git("show", "--no-patch", "--format=%ct", "HEAD")[0])
    return "".join(_git("rev-list", "--first-parent", "--max-count=1", f"--before={time - DAY}", "HEAD"))


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


if __name__ == "__main__":
    changes = list_changes(sys.argv[1] if len(sys.argv) > 1 else None)
    print(*(test.relative_to(ROOT) for test in (list_tests() if changes is None else select_tests(changes))), sep="\n")
