"""The documentation as a site: it builds strictly, asks no other host, and its API page has all of the library."""

import html
import importlib.util
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typed import command_names, options

import diptych.errors
import diptych_runtime.errors
from diptych import Collection, Scorer
from diptych_runtime.errors import DiptychError

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for name in ("mkdocs", "material", "mkdocstrings_handlers"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: diptych[docs]")
    folder = tmp_path_factory.mktemp("site")
    # --quiet would hide the warnings that --strict counts.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", "docs/site/mkdocs.yml", "-d", folder]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"a page that is not in nav, a link or a name that leads nowhere?\n{done.stderr}"
    return folder


def public(kind: type) -> list[str]:
    return [name for name, _ in inspect.getmembers(kind) if not name.startswith("_")]


def test_every_page_of_the_docs_is_there(site: Path) -> None:
    pages = [path.stem for path in (ROOT / "docs").glob("*.md")]
    assert len(pages) > 10
    for name in pages:
        assert (site / ("" if name == "index" else name) / "index.html").is_file()


def test_no_page_asks_another_host_for_anything(site: Path) -> None:
    loads = re.compile(r"<(?:script|img|iframe|source)[^>]* src=\"([^\"]+)|<link[^>]* href=\"([^\"]+)")
    found = [link for path in site.rglob("*.html") for pair in loads.findall(path.read_text("utf-8")) for link in pair]
    assert len(found) > 50
    assert not [link for link in found if re.match(r"(?:https?:)?//", link)]


def test_the_api_page_has_every_public_name_with_its_words(site: Path) -> None:
    text = (site / "api" / "index.html").read_text("utf-8")
    names = [f"diptych.{kind.__name__}.{name}" for kind in (Scorer, Collection) for name in public(kind)]
    names += ["diptych.Scorer", "diptych.Collection", "diptych.find_duplicates", "diptych_model.MSAC"]
    names += [
        f"{module.__name__}.{name}"
        for module in (diptych.errors, diptych_runtime.errors)
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, DiptychError) and kind.__module__ == module.__name__
    ]
    assert len(names) > 60
    assert not [name for name in names if f'id="{name}"' not in text]
    plain = html.unescape(re.sub(r"<[^>]+>", "", text))
    assert "Probabilities float32 (P,) in [0, 1] of P pairs" in plain
    assert "activation_fn: Activation | None = None" in plain


def test_the_page_of_commands_has_every_option_of_every_command(site: Path) -> None:
    text = html.unescape((site / "commands" / "index.html").read_text("utf-8"))
    sections = {re.sub(r"<[^>]+>", "", part.partition("</h3>")[0]): part for part in re.split(r"<h3[^>]*>", text)[1:]}
    names = list(command_names())
    assert len(names) > 40
    for name in names:
        heading = f"diptych {name}\N{PILCROW SIGN}"
        section = next(part for begin, part in sections.items() if begin.startswith(heading))
        assert not [option for option in options(name) if f"<code>{max(option.opts, key=len)}</code>" not in section], (
            name
        )


def test_examples_of_docstrings_are_code_and_no_quotations(site: Path) -> None:
    text = (site / "api" / "index.html").read_text("utf-8")
    assert text.count('<span class="gp">') > 10
    assert "<blockquote>" not in text
