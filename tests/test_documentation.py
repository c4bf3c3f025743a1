"""README.md and docs/ against the program: examples run, commands parse, routes exist, and nothing stays undocumented.

A ```python block is run, all blocks of a file in order and in one namespace, in a folder that holds `photos/` (eight
pictures), `queries/`, `truth.csv`, `query.jpg` (an edited copy of one of photos/), `a.jpg`, `b.jpg`, `shoe.jpg`,
`boot.jpg` and `pairs.csv` (image_a, image_b). A block that begins ```python no-run is only compiled. ```javascript is
run by Node. What asks http://127.0.0.1:8000, in these and in lines of curl, asks a service over photos/. In ```bash,
```sh, ```shell and ```console blocks (there, after `$ `) every `diptych` command is parsed by the real parser, and
every `make` target and every URL on this machine must exist.
"""

import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from exported import drawn_collection
from typed import command_names, parsed
from typer import Exit, TyperException

from diptych_runtime import runtime

ROOT = Path(__file__).parents[1]
SHELLS = {"bash", "sh", "shell", "console"}
ROUTE = re.compile(
    r"(?<![\w./-])(/(?:v1|v2)/[\w/{}-]+|/(?:healthz|readyz|info|metrics|score|rerank|docs|openapi\.json))(?![\w-])"
)
LOCAL = re.compile(r"https?://(?:127\.0\.0\.1|localhost)(?::\d+)?(/[^\s\"'?#|`)]*)?")
BROWSED = {"/", "/docs", "/openapi.json"}  # the page, and the interface's own description


@dataclass(frozen=True)
class Block:
    """A fenced block: its file, the line its text begins on, its language, what else the fence says, the text."""

    path: Path
    line: int
    language: str
    remarks: str
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"


def documents() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@cache
def blocks() -> tuple[Block, ...]:
    found = []
    fence = re.compile(r"^(?P<indent> *)```(?P<language>\w+)(?P<remarks>[^\n`]*)\n(?P<text>.*?)^ *```\s*$", re.M | re.S)
    for path in documents():
        source = path.read_text(encoding="utf-8")
        for match in fence.finditer(source):
            line = source.count("\n", 0, match.start("text")) + 1
            text = re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
            found.append(Block(path, line, match["language"], match["remarks"], text))
    return tuple(found)


SERVICE = "http://127.0.0.1:8000"  # where documents have it


def command_lines() -> Iterator[tuple[Block, str]]:
    """Every line that a reader is told to type, continued lines joined."""
    for block in blocks():
        if block.language in SHELLS:
            for line in block.text.replace("\\\n", " ").splitlines():
                typed = line.removeprefix("$ ") if line.startswith("$ ") or block.language != "console" else ""
                if typed.strip() and not typed.lstrip().startswith("#"):
                    yield block, typed


def calls(program: str) -> Iterator[tuple[Block, list[str]]]:
    """Every call of `program` in the command lines, as its words; what is piped, chained or redirected is cut off."""
    for block, line in command_lines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, "#"
        words: list[str] = []
        for word in [*lexer, ";"]:
            if set(word) <= set("|&;<>()"):
                start = next((i for i, part in enumerate(words) if Path(part).name == program), None)
                if start is not None:
                    yield block, words[start + 1 :]
                words = []
            else:
                words.append(word)


@cache
def everything() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in documents())


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    photos = drawn_collection(folder, 8)
    query = next((folder / "queries").glob("*-edited.jpg"))
    for name, source in zip(("a.jpg", "b.jpg", "shoe.jpg", "boot.jpg", "query.jpg"), [*photos[:4], query], strict=True):
        shutil.copy(source, folder / name)
    rows = "".join(f"photos/{a.name},photos/{b.name}\n" for a, b in pairwise(photos))
    (folder / "pairs.csv").write_text(f"image_a,image_b\n{rows}")
    return folder


@pytest.fixture(scope="module")
def interface(artifact: Path) -> dict[str, set[str]]:
    """The methods of every route."""
    from diptych import Scorer
    from diptych.http.app import create_app

    paths = create_app(None, Scorer.load(str(artifact))).openapi()["paths"]
    return {path: {method.upper() for method in methods} for path, methods in paths.items()}


@pytest.fixture(scope="module")
def service(pictures: Path, artifact: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service whose collection `default` has photos/."""
    from served import run_service

    from diptych import Scorer
    from diptych.collection.registry import Collections

    root = tmp_path_factory.mktemp("served") / "root"
    with Collections.open(root, Scorer.load(str(artifact), threads=1)) as collections:
        collections.create("default")
        with collections.borrow("default") as collection:
            collection.add(pictures / "photos")
    with run_service(root, str(artifact), 1, option="--collections") as (port, _):
        yield f"http://127.0.0.1:{port}"


def fits(path: str, route: str) -> bool:
    """Whether a path is this route, with or without its placeholders filled in."""
    return re.fullmatch(re.sub(r"\{[^}]+\}", "[^/]+", route), path.rstrip("/") or "/") is not None


def programs() -> list[Any]:
    """The documents with blocks of Python; those of dated reports, whose networks take long, are run by .ci/run."""
    found = dict.fromkeys(block.path for block in blocks() if block.language == "python")
    assert ROOT / "README.md" in found
    slow = pytest.mark.slow
    return [
        pytest.param(path, id=str(path.relative_to(ROOT)), marks=[slow] * (path.parent.name == "studies"))
        for path in found
    ]


@pytest.mark.parametrize("path", programs())
def test_the_python_examples_run(
    path: Path, pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    shutil.copytree(pictures, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # of `find_duplicates`
    # Two threads on a core that other tests have too wait for each other, and burn it meanwhile.
    monkeypatch.setattr(runtime, "thread_count", lambda: 1)
    namespace: dict[str, object] = {"__name__": "example"}
    for block in (block for block in blocks() if block.path == path and block.language == "python"):
        # Blank lines before it make a traceback name the line of the document.
        text = block.text
        if SERVICE in text:
            text = text.replace(SERVICE, request.getfixturevalue("service"))
        code = compile("\n" * (block.line - 1) + text, str(path), "exec")
        if "no-run" not in block.remarks:
            exec(code, namespace)


def test_the_javascript_examples_run(pictures: Path, service: str, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    found = [block for block in blocks() if block.language == "javascript"]
    assert found
    for block in found:
        program = tmp_path / "example.mjs"
        program.write_text(block.text.replace(SERVICE, service))
        done = subprocess.run([node, program], cwd=pictures, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{block}: {done.stderr}"
        assert done.stdout


def test_every_line_of_curl_runs(pictures: Path, service: str, tmp_path: Path) -> None:
    typed = [
        line.replace(SERVICE, service)
        for block, line in command_lines()
        if (line.startswith("curl ") and SERVICE in line) or re.match(r"\w+=\$\(", line)
    ]
    assert len(typed) > 25
    shutil.copytree(pictures, tmp_path, dirs_exist_ok=True)
    begin = 'set -e\ncurl() { echo "curl $*" >&2; command curl --silent --show-error --fail-with-body "$@"; }'
    script = "\n".join([begin, *typed])
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()[-2000:] + done.stdout.decode(errors="replace")[-2000:]
    assert (tmp_path / "same.jpg").read_bytes() == (tmp_path / "a.jpg").read_bytes()


def test_every_route_has_a_line_of_curl(interface: dict[str, set[str]]) -> None:
    # A route is meant by its own name before it is by one with a part that varies.
    known = sorted(interface, key=lambda route: "{" in route)
    shown = set()
    for _, words in calls("curl"):
        method = words[words.index("-X") + 1] if "-X" in words else "POST" if {"-F", "-d"} & set(words) else "GET"
        for found in filter(None, map(LOCAL.match, words)):
            shown.add((method, next((route for route in known if fits(found[1] or "/", route)), None)))
    assert not {(method, route) for route, methods in interface.items() for method in methods} - shown


def test_every_diptych_command_in_the_documents_is_understood() -> None:
    comparison = ROOT / "docs/comparison.md"
    rows = [line.strip("| ").split(" | ") for line in comparison.read_text().splitlines() if line.startswith("|")]
    cells = [(cell, re.findall(r"`diptych ([^`]+)`", cell)) for cell in (row[-1] for row in rows[2:])]
    assert len(cells) > 15
    assert not [cell for cell, commands in cells if not (commands or cell.startswith(("no", "`curl ")))]
    told = [(comparison, shlex.split(text)) for _, commands in cells for text in commands]
    for block, words in [*calls("diptych"), *told]:
        try:
            parsed(*words)
        except Exit:  # of --help and --version
            continue
        except TyperException as error:
            pytest.fail(f"{block}: diptych {shlex.join(words)}\n{error}")


def test_every_make_target_in_the_documents_exists_with_its_variables() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    variables = set(re.findall(r"^([A-Z]+) *\?=", makefile, re.MULTILINE))
    for block, words in calls("make"):
        for word in words:
            name, equals, _ = word.partition("=")
            assert name in (variables if equals else targets), f"{block}: make {shlex.join(words)}"


def test_every_route_in_the_documents_exists(interface: dict[str, set[str]]) -> None:
    told = {match[1] for match in ROUTE.finditer(everything())} | {
        match[1] or "/" for _, line in command_lines() for match in LOCAL.finditer(line)
    }
    assert told
    assert not {path for path in told if not any(fits(path, route) for route in interface.keys() | BROWSED)}


def test_every_subcommand_and_every_action_is_documented() -> None:
    known = [f"diptych {name}" for name in command_names()]
    assert len(known) >= 9
    assert not [name for name in known if not re.search(rf"{name}\b", everything())]


def test_a_first_installation_is_from_a_checkout_with_extras_that_there_are() -> None:
    """Diptych is on no index, where `pip install diptych` would get a stranger's package or none."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    told = [word for _, words in calls("pip") if words[0] == "install" for word in words[1:]]
    assert ".[cpu,heif]" in told
    for word in told:
        assert not word.startswith("diptych"), word
        if word.startswith("."):
            assert set(word.removeprefix(".[").removesuffix("]").split(",")) <= set(extras), word


def test_every_extra_is_documented() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {name.strip() for group in re.findall(r"\[([a-z, ]+)\]", everything()) for name in group.split(",")}
    told = named | set(re.findall(r"`([a-z]+)`", everything()))
    assert not set(extras) - told


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_to_a_heading_in_it(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", path.read_text(encoding="utf-8")):
        link = next(filter(None, target))
        if not re.match(r"[a-z]+:", link):
            file, _, heading = link.partition("#")
            leads_to = path.parent / file if file else path
            assert leads_to.exists(), f"{path.name} links to {link}"
            assert not heading or heading in anchors(leads_to), f"{path.name} links to {link}"


def anchors(path: Path) -> set[str]:
    """The headings of a page, as links name them."""
    text = re.sub(r"^ *```.*?^ *```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = [
        re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    ]
    return {re.sub(r"\s", "-", heading) for heading in headings}


def test_each_file_that_the_threat_model_names_as_its_proof_is_there() -> None:
    named = set(re.findall(r"`([\w/]+\.py)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8")))
    there = [path.as_posix() for top in ("tests", "service", "export", "model") for path in (ROOT / top).rglob("*.py")]
    assert len(named) > 15
    assert not [name for name in named if not any(path.endswith(f"/{name}") for path in there)]


def test_each_test_that_the_pages_of_faults_name_is_there() -> None:
    pages = [ROOT / "docs/faults.md", ROOT / "docs/studies/2026-11-faults.md"]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    named = {found for text in texts for found in re.findall(r"`([\w/]+\.py)(?:::(test_\w+))?`", text)}
    assert len(set(re.findall(r"`((?:service|endurance)/[\w/]+\.py)`", texts[0]))) > 10
    assert sum(bool(test) for _, test in named) > 60
    there = list((ROOT / "tests").rglob("*.py"))
    for file, test in sorted(named):
        found = [path for path in there if path.as_posix().endswith(f"/{file}")]
        assert found, f"the pages of faults name {file}"
        assert not test or any(f"def {test}(" in path.read_text(encoding="utf-8") for path in found), (
            f"{file} has no {test}"
        )
