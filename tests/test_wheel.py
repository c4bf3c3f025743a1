"""The distribution as others get it: built as a wheel, installed where nothing else is."""

import csv
import json
import os
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from diptych_runtime.kernel.build import KernelError, find_compiler, library_path
from diptych_runtime.manifest import Manifest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]  # it builds one, which one process does once
ROOT = Path(__file__).parents[1]
PACKAGES = ("diptych_model", "diptych_training", "diptych_export", "diptych_runtime", "diptych")
HOMES = dict(zip(PACKAGES, ("model", "training", "export", "export", "service"), strict=True))


def call(*command: str | Path, **options: object) -> str:
    """The standard output of a command; its error output where it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=environment, **options)  # pyright: ignore[reportCallIssue, reportArgumentType]
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def content(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_has_every_source_file_of_the_five_packages(content: set[str]) -> None:
    for package, home in HOMES.items():
        sources = {str(path.relative_to(ROOT / home)) for path in (ROOT / home / package).rglob("*.py")}
        assert len(sources) >= 5
        assert sources <= content
        assert f"{package}/py.typed" in content


def test_the_wheel_has_nothing_else_at_its_top_and_the_studies_neither(content: set[str]) -> None:
    assert (ROOT / "training/diptych_studies/__init__.py").is_file()
    tops = {name.partition("/")[0] for name in content}
    assert tops - set(PACKAGES) == {next(top for top in tops if top.endswith(".dist-info"))}
    assert not {name for name in content if "__pycache__" in name or name.endswith((".pyc", ".sqlite"))}


def test_the_wheel_has_the_page_the_bundled_models_with_all_their_files_and_the_network_of_the_closer_look(
    content: set[str],
) -> None:
    page = {f"diptych/http/page/{path.name}" for path in (ROOT / "service/diptych/http/page").iterdir()}
    assert "diptych/http/page/index.html" in page
    assert page <= content
    models = sorted(path for path in (ROOT / "export/diptych_runtime/models").iterdir() if path.is_dir())
    assert "photo" in [model.name for model in models]
    for model in models:
        assert {f"diptych_runtime/models/{model.name}/{name}" for name in Manifest.load(model).digests} <= content
    assert "diptych_runtime/closer_look/aligned.onnx" in content


def test_the_wheel_has_the_kernel_and_says_so_where_there_is_a_compiler_and_its_sources_anywhere(
    wheel: Path, content: set[str]
) -> None:
    kernel = {name for name in content if name.startswith("diptych_runtime/kernel/")}
    sources = [path for path in (ROOT / "export/diptych_runtime/kernel").iterdir() if path.suffix in (".cc", ".h")]
    assert len(sources) == 10
    assert {f"diptych_runtime/kernel/{path.name}" for path in sources} < kernel
    assert (f"diptych_runtime/kernel/{library_path().name}" in kernel) == _compiles()
    assert wheel.name.endswith("-py3-none-any.whl") != _compiles()


def test_the_wheel_brings_the_licence_the_extras_and_the_commands(wheel: Path, content: set[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with zipfile.ZipFile(wheel) as archive:
        (info,) = {name.partition("/")[0] for name in content if ".dist-info/" in name}
        metadata = archive.read(f"{info}/METADATA").decode()
        commands = archive.read(f"{info}/entry_points.txt").decode()
    assert f"{info}/licenses/LICENSE" in content
    assert "License-Expression: Apache-2.0" in metadata
    assert all(f"Provides-Extra: {extra}" in metadata for extra in project["optional-dependencies"])
    assert "diptych = diptych.__main__:run" in commands
    assert all(target in commands for target in project["entry-points"]["diptych.commands"].values())


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs' folder of an empty environment with `diptych[cpu]` in it."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    call(programs / "python", "-m", "pip", "install", "--quiet", f"{wheel}[cpu]")
    return programs


def test_an_empty_environment_gets_the_command_and_no_torch(installed: Path, tmp_path: Path) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert version in call(installed / "diptych", "--version", cwd=tmp_path)
    listed = json.loads(call(installed / "python", "-m", "pip", "list", "--format", "json", cwd=tmp_path))
    names = {item["name"].lower() for item in listed}
    assert {"diptych", "onnxruntime", "faiss-cpu"} <= names
    assert not {"torch", "onnxruntime-gpu", "onnx", "safetensors", "onnxscript"} & names
    assert "doctor" in call(installed / "diptych", "--help", cwd=tmp_path)
    doctor = json.loads(call(installed / "diptych", "doctor", "--json", cwd=tmp_path))
    assert doctor["runtime"]["attention_path"].startswith("kernel (" if _compiles() else "function body: no kernel")


def test_the_studies_are_refused_with_what_they_need(installed: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [installed / "diptych", "study", "mixers", "--steps", "1"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "they need a checkout of Diptych" in done.stderr
    assert "study" in call(installed / "diptych", "--help", cwd=tmp_path)


def test_the_bundled_model_scores_an_edited_copy_above_a_picture_of_another_kind(
    installed: Path, tmp_path: Path
) -> None:
    demo = tmp_path / "demo"
    call(installed / "diptych", "demo", demo, "--count", "40", "--quiet", cwd=tmp_path)
    with (demo / "truth.csv").open(newline="") as file:
        query, reference = next((row["query"], row["reference"]) for row in csv.DictReader(file) if row["reference"])
    kind = reference.partition("-")[0]
    stranger = next(path.name for path in sorted((demo / "photos").iterdir()) if not path.name.startswith(kind))

    def score(name: str) -> float:
        pair = (demo / "queries" / query, demo / "photos" / name)
        return json.loads(call(installed / "diptych", "score", *pair, "--json", cwd=tmp_path))["relevance_score"]

    assert 0 <= score(stranger) < score(reference) <= 1


def _compiles() -> bool:
    try:
        find_compiler()
    except KernelError:
        return False
    return True
