"""Pages as the site shows them: commands.md gets every option of every command, from the code."""

from collections.abc import Iterator
from typing import Any

from diptych.cli.main import build_commands
from diptych.command_tree import Commands

MARK = "<!-- options -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The text of a page, its mark replaced by a table of options for each command."""
    markdown = markdown.replace("```python no-run", "```python")  # a word for the tests, which ends the fence here
    return markdown.replace(MARK, "\n\n".join(list_options(build_commands()))) if MARK in markdown else markdown


def list_options(group: Commands, path: str = "diptych") -> Iterator[str]:
    """A heading and a table for each command of a group and of the groups below it."""
    if group.invoke_without_command:
        yield describe_command(group, path)
    for name in group.commands:
        command = group.get_command(None, name)
        name = f"{path} {name}"
        yield from list_options(command, name) if isinstance(command, Commands) else [describe_command(command, name)]


def describe_command(command: Any, path: str) -> str:
    """A command's heading, its purpose and a row for each of its arguments and options."""
    lines = [f"### `{path}`", "", command.help or "", "", "| | default | what it is |", "|---|---|---|"]
    for param in command.params:
        names = ", ".join(f"`{name}`" for name in [*param.opts, *param.secondary_opts] if name.startswith("-"))
        shown = param.show_default if isinstance(getattr(param, "show_default", None), str) else param.default
        default = "" if shown in (None, False, ()) or callable(shown) else str(shown)
        help = (getattr(param, "help", None) or "").replace("|", "\\|").replace("\n", " ")
        lines.append(f"| {names or f'`{param.name.upper()}`'} | {default} | {help} |")
    return "\n".join(lines)
