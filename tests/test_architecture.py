"""The manners of the files, read from the source; the arrows between them are contracts (`[tool.importlinter]`)."""

import ast
import os
import re
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "diptych_model": ROOT / "model/diptych_model",
    "diptych_training": ROOT / "training/diptych_training",
    "diptych_studies": ROOT / "training/diptych_studies",
    "diptych_export": ROOT / "export/diptych_export",
    "diptych_runtime": ROOT / "export/diptych_runtime",
    "diptych": ROOT / "service/diptych",
}
HEAVY = {"torch", "safetensors", "onnx", "onnxscript", "torchvision", "timm", "kornia"}
# What a distribution brings under another name than its own, or with another's installation.
DISTRIBUTIONS = {
    "cv2": "opencv-python-headless",
    "pythonjsonlogger": "python-json-logger",
    "PIL": "pillow",
    "faiss": "faiss-cpu",
    "opentelemetry": "opentelemetry-api",
    "multipart": "python-multipart",
    "grpc": "pymilvus",
    "starlette": "fastapi",
    "anyio": "fastapi",
    "pydantic_core": "pydantic",
    "h11": "uvicorn",
}

PARTICIPLE = re.compile(
    r"\w+ed|held|laid|seen|made|kept|drawn|found|written|shown|given|taken|known|met|left|sent|built|begun|told|bound|"
    r"paid|spent|said|lost|worn|grown|thrown|chosen|hidden|broken|torn|meant|heard|sought|brought"
)


@dataclass(frozen=True)
class Import:
    """One imported module: its full dotted name, and whether importing the file imports it too."""

    name: str
    eager: bool

    @property
    def top(self) -> str:
        return self.name.partition(".")[0]


@dataclass(frozen=True)
class Module:
    name: str
    tree: ast.Module
    imports: tuple[Import, ...]

    @property
    def package(self) -> str:
        return self.name.partition(".")[0]


@cache
def modules() -> dict[str, Module]:
    found = {}
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found[name] = Module(name, tree, tuple(_imports(tree)))
    return found


def _imports(tree: ast.Module) -> Iterator[Import]:
    """Every import of a file; `from package import module` counts as that module where there is one."""
    for node, lazy in _statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, not lazy)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"a relative import in line {node.lineno}"
            base = node.module or ""
            package, _, rest = base.partition(".")
            folder = PACKAGES.get(package, ROOT) / rest.replace(".", "/")
            for alias in node.names:
                inner = package in PACKAGES and (
                    (folder / f"{alias.name}.py").exists() or (folder / alias.name).is_dir()
                )
                yield Import(f"{base}.{alias.name}" if inner else base, not lazy)


def _statements(node: ast.AST, lazy: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """All below a node but expressions, which hold no import, and whether each is run only when it is used."""
    for inner in ast.iter_child_nodes(node):
        if not isinstance(inner, ast.expr):
            yield inner, lazy
            yield from _statements(inner, lazy or _is_lazy(inner))


def _is_lazy(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def of(package: str) -> list[Module]:
    return [module for module in modules().values() if module.package == package]


def third_party() -> set[str]:
    ours = sys.stdlib_module_names | set(PACKAGES)
    return {item.top for module in modules().values() for item in module.imports} - ours


def test_the_arrows_between_packages_and_floors_hold() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(str(folder.parent) for folder in PACKAGES.values())},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


def test_every_package_was_collected_with_its_files() -> None:
    for package, folder in PACKAGES.items():
        assert len(of(package)) >= 5, f"{package} has {len(of(package))} modules"
        assert (folder / "__init__.py").is_file()
        assert (folder / "py.typed").is_file()
    assert sum(len(module.imports) for module in modules().values()) > 100
    assert {"torch", "numpy", "PIL", "onnxruntime", "faiss", "fastapi"} <= third_party()


def test_the_model_knows_torch_and_nothing_above_it() -> None:
    known = {"diptych_model", "torch", "jaxtyping", "numpy", "safetensors"} | sys.stdlib_module_names
    assert not [(m.name, item.name) for m in of("diptych_model") for item in m.imports if item.top not in known]


def test_what_measures_artifacts_runs_without_torch_and_exports_a_checkpoint_only_when_it_is_given_one() -> None:
    waiting, seen = [m.name for m in of("diptych_training") if ".evaluation" in m.name], set()
    assert len(waiting) > 5
    while waiting:
        name = waiting.pop()
        seen.add(name)
        eager = [item for item in modules()[name].imports if item.eager]
        assert not {item.top for item in eager} & (HEAVY | {"diptych_model"}), name
        waiting += [item.name for item in eager if item.name in modules() and item.name not in seen]


def test_whatever_is_imported_is_declared_and_the_service_needs_no_further_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    def names(requirements: list[str]) -> set[str]:
        return {requirement.partition("[")[0].split(">")[0].split("=")[0].split("<")[0] for requirement in requirements}

    def undeclared(imported: set[str], declared: set[str]) -> set[str]:
        return {top for top in imported if DISTRIBUTIONS.get(top, top).replace("_", "-") not in declared}

    extras = {extra: names(listed) for extra, listed in project["optional-dependencies"].items()}
    runs = names(project["dependencies"]) | {"onnxruntime"}
    assert not undeclared(third_party(), runs.union(*extras.values()))
    eager = {i.top for m in of("diptych") for i in m.imports if i.eager} - sys.stdlib_module_names - set(PACKAGES)
    assert not undeclared(eager, runs)
    assert "onnxruntime" in extras["cpu"]
    assert "onnxruntime" not in extras["gpu"]
    assert "onnxruntime-gpu" not in extras["cpu"]


def test_no_package_names_the_studies_but_where_their_command_is_registered() -> None:
    """By an import they would be a layer above, which is a contract; by name they could be loaded."""
    named = {
        module.name
        for module in modules().values()
        if module.package != "diptych_studies"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and str(node.value).startswith("diptych_studies")
    }
    assert named == {"diptych_training.cli"}


def test_no_function_has_more_than_80_lines() -> None:
    assert len(modules()) > 40
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                assert length <= 80, f"{module.name}.{node.name} has {length} lines"


def test_functions_are_named_by_verb_and_noun_and_their_first_sentence_is_short() -> None:
    functions = [
        node
        for module in modules().values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__")
    ]
    single = [node.name.strip("_") for node in functions if "_" not in node.name.strip("_")]
    participles = [name for name in single if PARTICIPLE.fullmatch(name)]
    documented = filter(None, map(ast.get_docstring, functions))
    words = [len(re.split(r"(?<=[.:;])\s", text)[0].split()) for text in documented]
    assert len(participles) <= 0.01 * len(functions), f"verb and noun say more than {', '.join(sorted(participles))}"
    assert len(single) <= 0.4 * len(functions)
    assert statistics.median(words) <= 11


def test_waits_and_deadlines_go_by_the_monotonic_clock():
    """A date that jumps changes nothing but the dates that are told."""
    asking = {path.name for path in (ROOT / "service").rglob("*.py") if "time.time()" in path.read_text()}
    assert asking == {"file_info.py", "context.py", "pairs.py"}


def test_no_module_is_called_common_or_utils() -> None:
    assert not {name.rpartition(".")[2] for name in modules()} & {"common", "utils", "util", "helpers", "misc"}


def test_help_of_the_whole_command_imports_nothing_heavy() -> None:
    program = (
        "import sys\nfrom diptych.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n    assert not end.code\n"
        "print('imported', *sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Usage: diptych" in done.stdout
    imported = set(done.stdout.rpartition("imported ")[2].split())
    assert "diptych_export" in imported
    assert not imported & (HEAVY | {"numpy", "PIL", "onnxruntime", "faiss", "fastapi", "pydantic", "uvicorn"})
