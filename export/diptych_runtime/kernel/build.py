"""Builds the kernel with the C++ compiler at hand. Standard library only: the wheel's build runs it too."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"
FLAGS = ("-std=c++17", "-O3", "-ffp-contract=fast", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-psabi")
# Floats a vector and rows a tile, for each set of instructions: as many accumulators as there are registers for.
GENERIC = {"generic": ("-DLANES=4", "-DROWS=4")}
_AVX512 = ("-DLANES=16", "-DROWS=8", "-mavx512f", "-mfma", "-mprefer-vector-width=512")
X86 = {
    "avx512": _AVX512,
    "avx2": ("-DLANES=8", "-DROWS=6", "-mavx2", "-mfma"),
    "vnni": (*_AVX512, "-mavx512bw", "-mavx512vl", "-mavx512vnni", "-Wno-maybe-uninitialized"),
}
SOURCES = {"vnni": ("product_simd.cc", "correspondence_simd.cc")}  # of a set; else the attention
COMMON = ("relpos_attention.cc", "pair_nodes.cc")


class KernelError(Exception):
    """An error of building or using the kernel; the message gives the reason and the next step."""


def library_path() -> Path:
    """The path at which the compiled library lies if it was built."""
    return HERE / f"librelpos_attention{SUFFIX}"


def source_digest() -> str:
    """Of the sources and the way they are built, so that a library tells which it was built from."""
    digest = hashlib.sha256(repr((FLAGS, X86, GENERIC, SOURCES, COMMON)).encode())
    for path in sorted([*HERE.glob("*.cc"), *HERE.glob("*.h")]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def find_compiler() -> str:
    """The compiler that CXX names, or the system's. Raises KernelError where there is none."""
    for name in filter(None, (os.environ.get("CXX"), "c++", "g++", "clang++")):
        if found := shutil.which(name):
            return found
    raise KernelError("no C++ compiler was found (CXX, c++, g++, clang++); install g++ and build again")


def build_library(target: Path | None = None, *, extra: tuple[str, ...] = ()) -> Path:
    """Compile the library to `target`, by default where it is looked for; as a whole or not at all.

    `extra` are more compiler flags. Raises KernelError.
    """
    target, command = target or library_path(), find_compiler()
    sets = GENERIC | (X86 if platform.machine().lower() in ("x86_64", "amd64") else {})
    parts = [
        (source, f"-DSET={name}", *flags)
        for name, flags in sets.items()
        for source in SOURCES.get(name, ("attention_simd.cc",))
    ]
    parts += [(source, f'-DSOURCE_DIGEST="{source_digest()}"') for source in COMMON]
    with tempfile.TemporaryDirectory() as folder:
        objects = [f"{folder}/{number}.o" for number in range(len(parts))]

        def compile_part(part: tuple[str, ...], made: str) -> None:
            source, *flags = part
            _run_compiler(command, *FLAGS, *extra, *flags, "-c", str(HERE / source), "-o", made)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compile_part, parts, objects))
        made = Path(folder, target.name)
        _run_compiler(command, *FLAGS, *extra, "-shared", *objects, "-o", str(made))
        try:
            fresh, library = target.with_name(f".{target.name}.{os.getpid()}"), made.read_bytes()
            fresh.write_bytes(library + hashlib.sha256(library).digest())
            fresh.replace(target)
        except OSError as error:
            raise KernelError(f"{target} cannot be written ({error.strerror}); build it as who installed it") from None
    return target


def is_whole(library: bytes) -> bool:
    """True for the bytes of a complete library: they end with the SHA-256 of the rest, which no loader reads."""
    return hashlib.sha256(library[:-32]).digest() == library[-32:]


def _run_compiler(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:200])
        raise KernelError(f"{command[0]} failed: {first}")
