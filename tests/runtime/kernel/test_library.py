"""The kernel's attention against its definition."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from problems import cases, instruction_sets, largest_difference

from diptych_runtime.kernel import KernelError, Library
from diptych_runtime.kernel.build import build_library, find_compiler


def test_every_set_of_instructions_computes_the_definition(library: Library) -> None:
    assert "generic" in instruction_sets(library)
    assert library.instructions == instruction_sets(library)[0]
    assert largest_difference(library, 150, seed=0) < 1e-5


@pytest.mark.slow
def test_a_thousand_problems_agree_strong_and_weak(library: Library) -> None:
    assert largest_difference(library, 800, seed=1) < 1e-5
    # Scores in the hundreds: one key takes everything, and what is far below it is nothing.
    assert largest_difference(library, 200, seed=2, strength=6.0) < 1e-3


def test_a_row_has_the_same_bits_in_any_batch(library: Library) -> None:
    for case in cases(20, seed=3):
        for name in instruction_sets(library):
            whole = library.attend(*case[:2], **case.sizes, instructions=name)
            for row in range(len(whole)):
                alone = library.attend(case.projected[row : row + 1], case.table, **case.sizes, instructions=name)
                assert np.array_equal(alone[0], whole[row])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_not_hidden(library: Library, value: float) -> None:
    rng = np.random.default_rng(4)
    projected, table = rng.standard_normal((1, 18, 12), np.float32), rng.standard_normal((1, 1, 3, 3), np.float32)
    projected[0, 7, 5] = value  # a key
    for name in instruction_sets(library):
        got = library.attend(projected, table, heads=1, panels=2, key_width=4, instructions=name)
        assert not np.isfinite(got).any(axis=-1).all()


@pytest.mark.parametrize(
    ("projected", "table", "sizes", "fault"),
    [
        ((1, 5, 6), (1, 1, 2, 2), {}, "make 4 positions, the input has 5"),
        ((1, 4, 6), (3, 1, 2, 2), {}, r"the table must be \(1 or 2, 1, rows, cols\), got \(3, 1, 2, 2\)"),
        ((1, 4, 7), (1, 2, 2, 2), {"heads": 2, "key_width": 1}, "width 7 does not divide by the heads"),
        ((1, 4, 4), (1, 1, 2, 2), {}, "leave every head a value"),
        ((1, 4, 6), (1, 1, 2, 2), {"heads": 0}, "must be positive"),
        ((1, 6, 6), (1, 1, 1, 3), {"panels": 2, "joined": True}, "2 panels make 2 positions, the input has 6"),
        ((1, 4, 3), (1, 1, 4, 1), {"panels": 2**62 + 1, "key_width": 1}, "make too many positions, the input has 4"),
        ((1, 4, 3), (1, 1, 4, 1), {"key_width": 2**63 - 1}, "leave every head a value"),
        ((1, 4, 3), (1, 2**20, 4, 1), {"heads": 2**62, "key_width": 1}, "leave every head a value"),
        ((1, 5, 3), (1, 1, 1, 2), {"panels": 5, "key_width": 1, "joined": True}, "make 0 positions, the input has 5"),
        ((1, 2, 3), (1, 1, 1, 3), {"panels": 2, "key_width": 1, "joined": True}, "make 2 positions, the input has 2"),
        ((1, 4, 6), (1, 1, 4), {}, r"expected projected \(B, T, C \(2 d_a \+ d_o\)\)"),
    ],
)
def test_shapes_that_do_not_fit_are_refused_in_words(library: Library, projected, table, sizes, fault) -> None:
    asked = {"heads": 1, "panels": 1, "key_width": 2} | sizes
    with pytest.raises(ValueError, match=fault):
        library.attend(np.zeros(projected), np.zeros(table), **asked)


SANITIZED = """
import sys
from pathlib import Path
from diptych_runtime.kernel import Library
from problems import largest_difference
assert largest_difference(Library(Path(sys.argv[1])), 100, seed=5) < 1e-5
"""


@pytest.mark.slow
def test_nothing_is_read_or_written_beside_the_tensors(tmp_path: Path) -> None:
    runtime = subprocess.run(
        [find_compiler(), "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    )
    if not Path(runtime.stdout.strip()).is_absolute():
        pytest.skip("the compiler has no address sanitizer")
    sanitizers = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g1")
    built = build_library(tmp_path / "kernel.so", extra=sanitizers)
    environment = os.environ | {
        "LD_PRELOAD": runtime.stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    done = subprocess.run(
        [sys.executable, "-c", SANITIZED, str(built)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_compiler_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "c++"
    broken.write_text("#!/bin/sh\necho 'x.cc:1: error: no such thing' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    with pytest.raises(KernelError, match=r"failed: x\.cc:1: error: no such thing"):
        build_library(tmp_path / "kernel.so")
    assert not (tmp_path / "kernel.so").exists()


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-40_000], lambda data: data[:60_000] + bytes(40) + data[60_040:]]
)
def test_a_damaged_library_is_refused_before_it_is_opened(damage, library, tmp_path):
    path = tmp_path / "damaged.so"
    path.write_bytes(damage(library.path.read_bytes()))
    with pytest.raises(KernelError, match=r"damaged\.so cannot be loaded \(damaged, .*build it again with"):
        Library(path)
