"""The tree of commands: typer builds each one from the signature of its function, and only when it is named."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from typer import BadParameter, Option, Typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from diptych_runtime.paths import given_path

Json = Annotated[bool, Option("--json", help="print one JSON document on standard output", envvar="DIPTYCH_JSON")]
Quiet = Annotated[
    bool, Option("--quiet", "-q", help="no progress and no remarks, only results and errors", envvar="DIPTYCH_QUIET")
]

_MOST = 2**31 - 1


def number(least: int = -_MOST, most: int = _MOST) -> Callable[[str], int]:
    """A parser of whole numbers of this range."""

    def parse_number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"expected a whole number, got {text!r}") from None
        if not least <= value <= most:
            limit = f"at least {least}" if value < least else f"at most {most}"
            raise ValueError(f"expected a number of {limit}, got {value}")
        return value

    return parse_number


def positive(expected: str = "a number above 0", most: float = 1e12) -> Callable[[str], float]:
    """A parser of numbers above 0, `most` at most; `expected` names them in the error."""

    def parse_positive(text: str) -> float:
        value = _parse_real(text, expected)
        if not 0 < value <= most:
            raise ValueError(f"expected {expected}, got {text!r}")
        return value

    return parse_positive


amount = positive()


def one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """A parser of one word among some."""

    def parse_choice(text: str) -> str:
        if text not in choices:
            meant = get_close_matches(text, choices)
            suggestion = f"; did you mean {' or '.join(meant)}?" if meant else ""
            raise ValueError(f"expected {', '.join(choices[:-1])} or {choices[-1]}, got {text!r}{suggestion}")
        return text

    return parse_choice


def _parse_truth(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("1", "true", "yes", "on", "0", "false", "no", "off"):
        raise ValueError(f"expected 1, true, yes or on, or 0, false, no or off, got {text!r}")
    return word in ("1", "true", "yes", "on")


def _parse_real(text: str, expected: str = "a number") -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"expected {expected}, got {text!r}")
    return value


_PARSERS = {int: number(), float: _parse_real, bool: _parse_truth, Path: lambda text: Path(given_path(text))}


class _Reader:
    """The reader of values, in the place of typer's own, which imports pydantic for every command."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value of a parameter, read from its words. Raises BadParameter.

        A tuple and a list have a value a word, a Sequence has commas between its values. An option of a list or a
        Sequence may be repeated, and all its values count.
        """
        if value is None or value is param.default:
            return value
        kind = param.type_descriptor.annotation
        origin = get_origin(kind)
        several = origin in (list, tuple, Sequence)
        one = get_args(kind)[0] if several else kind
        parser = one_of(get_args(one)) if get_origin(one) is Literal else _PARSERS.get(one, one)
        read = param.type_descriptor.parameter_info.parser or parser
        try:
            if origin is Sequence:
                return tuple(read(word.strip()) for text in value if text for word in text.split(","))
            return tuple(map(read, value)) if several else read(value)
        except ValueError as error:
            raise BadParameter(str(error), ctx=ctx, param=param) from None


def _set_reader(params: list[Any]) -> list[Any]:
    for param in params:
        param.get_runtime_param = _Reader
        param.multiple = param.multiple or get_origin(param.type_descriptor.annotation) is Sequence
    return params


class _Lazy:
    """A command of typer that is loaded when it is named, from its function `run`, as "module:function".

    `refusal` is the reason why it cannot be run.
    """

    run = refusal = ""

    def get_params(self, ctx: Any) -> list[Any]:
        """The arguments and options, and that for help."""
        return _set_reader(super().get_params(ctx))  # pyright: ignore[reportAttributeAccessIssue]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of a command line; raises a usage error."""
        if self.refusal and not ctx.resilient_parsing:
            ctx.fail(self.refusal)
        return super().parse_args(ctx, args)  # pyright: ignore[reportAttributeAccessIssue]


class Command(_Lazy, TyperCommand):
    """A command that is loaded when it is named."""


class Commands(_Lazy, TyperGroup):
    """A group of commands, itself a command: `add` and `group` say what goes below it.

    A function is named as "module:function". Its parameters are the command's, its docstring is the help, and its value
    the exit code. For the help of the group the summary is enough, the first sentence of that docstring.
    """

    def add(self, run: str, summary: str, *, name: str = "", refusal: str = "") -> None:
        """Add a command; it has the name of its function."""
        name = name or run.partition(":")[2]
        self.commands[name] = command = Command(name, short_help=summary, rich_markup_mode=None)
        command.run, command.refusal = run, refusal

    def refuse(self, name: str, summary: str, reason: str) -> None:
        """Add a command that this installation lacks: whatever is asked of it, the answer is the reason."""
        self.add("", summary, name=name, refusal=reason)

    def group(self, name: str, summary: str, *, alone: str = "") -> Commands:
        """The group of this name, made by whichever package asks first; `alone` it is the command of this function."""
        group = self.commands.get(name)
        if not isinstance(group, Commands):
            settings: dict[str, Any] = {"short_help": summary, "help": f"{summary}.", "rich_markup_mode": None}
            group = self.commands[name] = Commands(name=name, invoke_without_command=bool(alone), **settings)
            group.run = alone
        return group

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with their summaries, for which none is loaded."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.short_help) for name, command in self.commands.items()])

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, loaded; None if there is none."""
        command: Any = self.commands.get(cmd_name)
        if command is not None and command.run:
            module, _, function = command.run.partition(":")
            app = Typer(add_completion=False, rich_markup_mode=None)
            app.command()(getattr(import_module(module), function))
            made: Any = get_command(app)
            command.params, command.callback, command.help = _set_reader(made.params), made.callback, made.help
            command.run = ""
        return command


def make_root(run: Callable[..., object]) -> Commands:
    """Make the topmost group, described by `run`, with the options for shell completion."""
    settings = {"help_option_names": ["-h", "--help"], "max_content_width": 120}
    app = Typer(cls=Commands, callback=run, name=run.__name__, context_settings=settings, rich_markup_mode=None)
    made = get_command(app)
    assert isinstance(made, Commands)
    return made


def parse_words(commands: Commands, words: Sequence[str]) -> Any:
    """Parse words to the context of the innermost command: `command`, and `params` as they give them.

    Raises a usage error.
    """
    context: Any = commands.make_context("diptych", list(words))
    while isinstance(context.command, Commands):
        group: Any = context.command
        if not (rest := [*context._protected_args, *context.args]):
            if not group.invoke_without_command:
                context.fail(f"Missing command, one of {', '.join(group.commands)}.")
            break
        name, command, rest = group.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
    return context
