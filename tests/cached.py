"""What is made once a machine for all tests, kept below `.cache` for the sources and packages that it is made of."""

import hashlib
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from filelock import FileLock

ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".cache/tests"
SUFFIXES = {".py", ".cc", ".h"}


def cached(
    name: str,
    target: Path,
    make: Callable[[Path], object],
    *,
    sources: Iterable[Path | str],
    packages: Iterable[str] = (),
) -> Path:
    """A copy at `target` of the folder that `make` makes, made once for these files, folders and packages.

    Of several processes one makes it, and the others wait. Where that fails, nothing is kept.
    """
    KEPT.mkdir(parents=True, exist_ok=True)
    folder = KEPT / f"{name}-{digest(tuple(sources), tuple(packages))}"
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=KEPT, prefix=f"{name}-") as fresh:
                make(Path(fresh, name))
                Path(fresh, name).replace(folder)
    return shutil.copytree(folder, target, dirs_exist_ok=True)


@cache
def digest(sources: tuple[Path | str, ...], packages: tuple[str, ...]) -> str:
    """The digest of code, given by files and folders relative to the root, and of versions."""
    found = hashlib.sha256(f"{platform.python_version()} {platform.machine()}".encode())
    for source in map(ROOT.joinpath, sources):
        files = sorted(source.rglob("*")) if source.is_dir() else [source]
        for path in (path for path in files if path.suffix in SUFFIXES):
            data = path.read_bytes()
            found.update(f"\n{path.relative_to(ROOT)} {len(data)}\n".encode() + data)
    for package in packages:
        found.update(f"\n{package} {_version(package)}".encode())
    return found.hexdigest()[:16]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
