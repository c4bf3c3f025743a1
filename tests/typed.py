"""The command line as tests read it: its commands, and what words of it mean."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from typer.core import TyperOption

from diptych.cli.main import build_commands
from diptych.command_tree import Commands, parse_words

_commands = cache(build_commands)  # it is built for each command line otherwise, of which documents have hundreds


def parsed(*words: str) -> dict[str, Any]:
    """The parameters of the command that the words name; raises a usage error."""
    return parse_words(_commands(), words).params


def every_parameter(path: str) -> list[Any]:
    """The arguments and options of a command, but that for help."""
    command: Any = _commands()
    for name in path.split():
        command = command.get_command(None, name)
    return command.params


def options(path: str) -> list[TyperOption]:
    """The options of a command, but that for help."""
    return [param for param in every_parameter(path) if isinstance(param, TyperOption)]


def command_names(below: Commands | None = None, prefix: str = "") -> Iterator[str]:
    """Every command that runs, as it is typed."""
    group = _commands() if below is None else below
    if group.invoke_without_command:
        yield prefix
    for name, command in ((name, group.get_command(None, name)) for name in group.commands):
        path = f"{prefix} {name}".strip()
        if isinstance(command, Commands):
            yield from command_names(command, path)
        else:
            yield path
