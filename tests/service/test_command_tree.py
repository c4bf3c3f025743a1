"""How a command line is read, refused and completed."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import pytest
from typer import Option, TyperException

from diptych.command_tree import Commands, Json, Quiet, explained, number, parse, root, several


def paint(
    colour: Annotated[Literal["red", "green"], Option(help="which")] = "red",
    coats: Annotated[int, Option(parser=number(1, 9), metavar="N", help="how many")] = 1,
    rooms: Annotated[Sequence[str], Option(parser=several(str), metavar="A,B", help="where")] = (),
    doors: Annotated[int, Option(metavar="N", help="and of these")] = 0,
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
    commands = root(house)
    commands.add(paint)
    return commands


def test_a_command_has_the_parameters_and_the_code_of_its_function(commands):
    context = parse(commands, ["paint", "--coats", "3", "--rooms", "hall, bath", "--json"])
    assert context.params == {
        "colour": "red",
        "coats": 3,
        "rooms": ("hall", "bath"),
        "doors": 0,
        "height": 2.5,
        "as_json": True,
        "quiet": False,
    }
    with context:
        assert context.command.invoke(context) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "a command is required: paint; `house --help` lists what there is"),
        (["pain"], "expected a command, got 'pain'; did you mean paint?"),
        (["mow"], "expected a command, got 'mow'; `house --help` lists what there is"),
        (["paint", "--coat", "3"], "there is no option --coat; did you mean --coats?"),
        (["paint", "--coats"], "--coats needs a value: how many"),
        (["paint", "--coats", "10"], "--coats: expected a number from 1 to 9, got 10"),
        (["paint", "--doors", "two"], "--doors: expected a whole number, got 'two'"),
        (["paint", "--doors", "1.5"], "--doors: expected a whole number, got '1.5'"),
        (["paint", "--height", "high"], "--height: expected a number, got 'high'"),
        (["paint", "--colour", "gren"], "--colour: expected red or green, got 'gren'; did you mean green?"),
        (["paint", "hall"], "expected no further word, got hall; `house paint --help` lists what there is"),
        (["paint", "--json=yes"], "--json takes no value"),
    ],
)
def test_wrong_words_are_refused_with_what_was_expected_what_came_and_what_to_do(commands, words, said):
    with pytest.raises(TyperException) as refused:
        parse(commands, words)
    assert explained(refused.value).replace("diptych", "house") == said


def test_a_group_is_made_by_whoever_asks_first(commands):
    def rooms() -> None:
        """Rooms."""

    first = commands.group(rooms)
    first.add(paint)
    assert commands.group(rooms) is first
    assert parse(commands, ["rooms", "paint"]).params["coats"] == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("diptych dedu", {"dedupe"}),
        ("diptych index re", {"remove", "rebuild", "restore"}),
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


def test_the_script_for_a_shell_is_printed(tmp_path: Path):
    program = "import sys; from diptych.cli.main import main; sys.exit(main(['--show-completion', 'bash']))"
    asked = {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    found = subprocess.run([sys.executable, "-c", program], env={**os.environ, **asked}, capture_output=True, text=True)
    assert "complete_bash" in found.stdout
    assert list(tmp_path.iterdir()) == []
