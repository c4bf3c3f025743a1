"""How a command line is read, refused and completed."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from typed import command_names
from typer import Option, TyperException

from diptych.cli.main import build_commands
from diptych.command_tree import Commands, Json, Quiet, make_root, number, parse_words


def paint(
    colour: Annotated[Literal["red", "green"], Option(help="which")] = "red",
    coats: Annotated[int, Option(parser=number(1, 9), metavar="N", help="how many")] = 1,
    rooms: Annotated[Sequence[str], Option(metavar="A,B", help="where")] = ("hall",),
    doors: Annotated[int, Option(metavar="N", help="and of these")] = 0,
    layers: Annotated[Sequence[int], Option(parser=number(1, 9), metavar="N,N", help="of each")] = (1, 2),
    tools: Annotated[list[str] | None, Option("--tool", metavar="NAME", help="with what")] = None,
    size: Annotated[tuple[int, int], Option(metavar="W H", help="of a room")] = (3, 4),
    log: Annotated[Path | None, Option(metavar="FILE", help="where it is noted")] = None,
    height: Annotated[float, Option(metavar="M", help="in metres")] = 2.5,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Paint rooms.

    Exits with 1 if there is no paint.
    """
    return coats


def house() -> None:
    """Look after a house."""


@pytest.fixture
def commands() -> Commands:
    commands = make_root(house)
    commands.add(f"{__name__}:paint", "Paint rooms")
    return commands


def test_a_command_has_the_parameters_and_the_code_of_its_function(commands):
    context = parse_words(
        commands, ["paint", "--coats", "3", "--json", "--size", "5", "7", "--log", "paint-\udcff.txt"]
    )
    assert context.params == {
        "colour": "red",
        "coats": 3,
        "rooms": ("hall",),
        "doors": 0,
        "layers": (1, 2),
        "tools": None,
        "size": (5, 7),
        "log": Path("paint-\udcff.txt"),
        "height": 2.5,
        "as_json": True,
        "quiet": False,
    }
    with context:
        assert context.command.invoke(context) == 3


@pytest.mark.parametrize(
    ("words", "name", "values"),
    [
        (["--rooms", "hall, bath", "--rooms", "attic"], "rooms", ("hall", "bath", "attic")),
        (["--rooms", ""], "rooms", ()),
        (["--layers", "3,4", "--layers=5"], "layers", (3, 4, 5)),
        (["--tool", "brush", "--tool", "a,b"], "tools", ("brush", "a,b")),
    ],
)
def test_an_option_of_several_values_may_be_repeated_and_its_values_add_up(commands, words, name, values):
    assert parse_words(commands, ["paint", *words]).params[name] == values


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Missing command, one of paint."),
        (["pain"], "No such command 'pain'. Did you mean 'paint'?"),
        (["paint", "--coat", "3"], "No such option: --coat (Possible options: --coats)"),
        (["paint", "--coats"], "Option '--coats' requires an argument."),
        (["paint", "--coats", "10"], "Invalid value for '--coats': expected a number of at most 9, got 10"),
        (["paint", "--layers", "3", "--layers", "4,0"], "'--layers': expected a number of at least 1, got 0"),
        (["paint", "--doors", "1.5"], "'--doors': expected a whole number, got '1.5'"),
        (["paint", "--height", "high"], "'--height': expected a number, got 'high'"),
        (["paint", "--colour", "gren"], "'--colour': expected red or green, got 'gren'; did you mean green?"),
        (["decorate", "walls", "--coats", "2"], "it needs a ladder"),
    ],
)
def test_wrong_words_and_commands_that_are_not_installed_are_refused_with_the_reason(commands, words, said):
    if words != []:
        commands.refuse("decorate", "Decorate rooms", "it needs a ladder")
    with pytest.raises(TyperException) as refused:
        parse_words(commands, words)
    assert refused.value.format_message().endswith(said)


def test_a_group_is_made_by_whoever_asks_first_and_may_be_a_command_alone(commands):
    first = commands.group("rooms", "Count rooms", alone=f"{__name__}:paint")
    first.add(f"{__name__}:paint", "Paint rooms")
    assert commands.group("rooms", "Other rooms") is first
    context = parse_words(commands, ["rooms", "--coats", "3"])
    with context:
        assert context.command.invoke(context) == 3
    assert parse_words(commands, ["rooms", "paint"]).params["coats"] == 1


def test_the_summary_of_every_command_is_the_first_sentence_of_its_help():
    names = [name for name in command_names() if name]
    assert len(names) > 40
    for name in names:
        command: Any = build_commands()
        for word in name.split():
            command = command.get_command(None, word)
        assert f"{command.short_help}." == command.help.split("\n")[0], name


@pytest.mark.parametrize(
    ("words", "unneeded"),
    [
        (["--help"], {"diptych.cli.search", "diptych_studies.cli", "numpy", "logging", "sqlite3"}),
        (["search", "--wrong"], {"diptych.cli.score", "onnxruntime"}),
    ],
)
def test_help_and_wrong_words_import_no_other_commands_and_no_library_for_values_or_bars(words, unneeded):
    program = (
        "import sys; from diptych.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60)
    imported = set(found.stderr.split())
    assert "diptych.cli.commands" in imported
    assert not imported & (unneeded | {"pydantic", "rich"})


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("diptych dedu", {"dedupe"}),
        ("diptych search a.jpg --st", {"--store"}),
        ("diptych score --format ", {"csv", "tsv", "jsonl", "parquet"}),
    ],
)
def test_bash_completes_commands_options_and_choices(words: str, expected: set[str]):
    program = "import sys; from diptych.cli.main import main; sys.exit(main([]))"
    asked = {"_DIPTYCH_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    found = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **asked}, capture_output=True, text=True, timeout=60
    )
    assert found.stderr == ""
    assert set(found.stdout.split()) == expected
