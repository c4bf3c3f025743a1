"""The tree of commands: typer builds each one from the signature of its function, and only when it is named."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar

from typer import Context, Option, Typer, TyperException
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_command, get_group

_NUMBERS = {"int_parsing": "a whole number", "float_parsing": "a number"}  # by pydantic's types of errors

T = TypeVar("T")
Run = Callable[..., int]  # its parameters are the command's, its docstring is the help, its value the exit code

Json = Annotated[bool, Option("--json", help="print one JSON document on standard output")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="no progress and no remarks, only results and errors")]


def several(parse: Callable[[str], T]) -> Callable[[str | Sequence[T]], tuple[T, ...]]:
    """Values with commas between them; none at all if the text is empty."""

    def parse_all(text: str | Sequence[T]) -> tuple[T, ...]:
        if not isinstance(text, str):
            return tuple(text)  # a default
        return tuple(parse(part.strip()) for part in text.split(",")) if text else ()

    return parse_all


def number(least: int, most: int | None = None) -> Callable[[str | int], int]:
    """A whole number of this range."""

    def parse(text: str | int) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"expected a whole number, got {text!r}") from None
        if value < least or (most is not None and value > most):
            limits = f"at least {least}" if most is None else f"from {least} to {most}"
            raise ValueError(f"expected a number {limits}, got {value}")
        return value

    return parse


def positive(what: str = "a number above 0", most: float = 1e12) -> Callable[[str | float], float]:
    """A number above 0, `most` at most; `what` says so in the error."""

    def parse(text: str | float) -> float:
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not 0 < value <= most:
            raise ValueError(f"expected {what}, got {text!r}")
        return value

    return parse


amount = positive()


# Contexts are Any below: typer's own classes take one of a module that it keeps to itself.


class Command(TyperCommand):
    """A command with help and errors as all of ours have them."""

    allow_extra_args = True  # which are refused below, in our words

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of a command line; raises a usage error."""
        with _named(ctx):
            rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            ctx.fail(f"expected no further word, got {' '.join(rest)}; {_see(ctx)}")
        return rest

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Write the line of usage."""
        formatter.write_usage(ctx.command_path, " ".join(self.collect_usage_pieces(ctx)), "usage: ")

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words after the command's name in the line of usage."""
        return _usage(self)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the lists of arguments and options."""
        _write_options(self, ctx, formatter)


class Commands(TyperGroup):
    """A group of commands, itself a command: `add` and `group` say what goes below it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.below: dict[str, Run | Commands] = {}

    def add(self, run: Run) -> None:
        """Add a command; it has the name of its function.

        Heavy imports belong inside the function: its module is imported for every `diptych --help`.
        """
        self.below[run.__name__] = run

    def group(self, run: Callable[..., object], *, alone: bool = False) -> Commands:
        """The group that `run` describes, made by whichever package asks first; `alone` it is a command, too."""
        below = self.below.get(run.__name__)
        if not isinstance(below, Commands):
            below = root(run, alone=alone, completion=False)
            self.below[run.__name__] = below
        return below

    def list_commands(self, ctx: Any) -> list[str]:
        """The names below this one, in the order in which they were added."""
        return list(self.below)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, built now if it is the first time; None if there is none."""
        below = self.below.get(cmd_name)
        if below is None or isinstance(below, Commands):
            return below
        if cmd_name not in self.commands:
            app = Typer(add_completion=False, rich_markup_mode=None)
            app.command(cmd_name, cls=Command)(below)
            self.commands[cmd_name] = get_command(app)
        return self.commands[cmd_name]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of a command line; raises a usage error."""
        if not args and not self.invoke_without_command and not ctx.resilient_parsing:
            ctx.fail(f"a command is required: {', '.join(self.below)}; {_see(ctx)}")
        with _named(ctx):
            return super(TyperGroup, self).parse_args(ctx, args)  # typer's own keeps the first word apart

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that the first word names, and the words after it; raises a usage error."""
        name, *rest = args
        command = self.get_command(ctx, name)
        if command is None and not ctx.resilient_parsing:
            ctx.fail(f"expected a command, got {name!r}; {_meant(get_close_matches(name, self.below)) or _see(ctx)}")
        return name, command, rest

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Write the line of usage."""
        formatter.write_usage(ctx.command_path, " ".join(self.collect_usage_pieces(ctx)), "usage: ")

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words after the group's name in the line of usage."""
        return [*_usage(self), "[COMMAND] ..." if self.invoke_without_command else "COMMAND ..."]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the lists of options and of commands."""
        with formatter.section("commands"):
            formatter.write_dl([(name, _summary(below)) for name, below in self.below.items()])
        _write_options(self, ctx, formatter)


def root(run: Callable[..., object], *, alone: bool = False, completion: bool = True) -> Commands:
    """A group that nothing is above, described by `run`, with the options that set up the completion of shells."""
    settings = {"help_option_names": ["-h", "--help"], "max_content_width": 120} if completion else None
    app = Typer(
        cls=Commands,
        callback=run,
        name=run.__name__,
        invoke_without_command=alone,
        add_completion=completion,
        context_settings=settings,
        rich_markup_mode=None,
    )
    made = get_command(app) if completion else get_group(app)
    assert isinstance(made, Commands)
    return made


def parse(commands: Commands, words: Sequence[str]) -> Any:
    """The context of the innermost command that the words name: `command`, and `params` as they give them.

    Raises a usage error.
    """
    context: Any = commands.make_context("diptych", list(words))
    while isinstance(context.command, Commands) and context.args:
        name, command, rest = context.command.resolve_command(context, context.args)
        context = command.make_context(name, rest, parent=context)
    return context


def explained(error: TyperException) -> str:
    """The text of a usage error: the value expected, the one that came, and the next step."""
    param, option = getattr(error, "param", None), getattr(error, "option_name", None)
    context = getattr(error, "ctx", None)
    if option is not None:
        if hasattr(error, "possibilities"):
            return f"there is no option {option}; {_meant(getattr(error, 'possibilities', None)) or _see(context)}"
        taken = next((one for one in context.command.params if option in one.opts), None) if context else None
        return f"{option} takes no value" if taken is None or taken.is_flag else f"{option} needs a value: {taken.help}"
    if param is None:
        return error.message
    name = "/".join(param.opts) if isinstance(param, TyperOption) else param.metavar
    if not error.message:
        return f"{name} is required: {param.help}"
    problems = error.__cause__.errors() if hasattr(error.__cause__, "errors") else None  # pyright: ignore
    if not problems:
        return f"{name}: {error.message}"
    kind, came = problems[0]["type"], problems[0]["input"]
    if choices := param.type_descriptor.choices:
        meant = _meant(get_close_matches(str(came), list(choices)))
        return f"{name}: expected {_or(choices)}, got {came!r}" + (f"; {meant}" if meant else "")
    if kind in _NUMBERS:
        return f"{name}: expected {_NUMBERS[kind]}, got {came!r}"
    return f"{name}: {problems[0]['msg'].removeprefix('Value error, ')}"


def _see(context: Context | None) -> str:
    return f"`{context.command_path if context else 'diptych'} --help` lists what there is"


def _meant(names: Sequence[str] | None) -> str:
    return f"did you mean {_or(names)}?" if names else ""


def _or(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def _usage(command: Any) -> list[str]:
    """The arguments of a command and the options that it requires."""
    arguments, required = [], []
    for param in command.params:
        shown = _shown(param)
        if not isinstance(param, TyperOption):
            arguments.append(shown if param.required else f"[{shown}]")
        elif param.required:
            required.append(f"{param.opts[0]} {shown}")
    return ["[OPTIONS]", *required, *arguments]


def _write_options(command: Any, ctx: Context, formatter: Any) -> None:
    """Write arguments and options, in sections of the names that they give as their panel."""
    sections: dict[str, list[tuple[str, str]]] = {"arguments": [], "options": []}
    for param in command.get_params(ctx):
        kind = "options" if isinstance(param, TyperOption) else "arguments"
        if record := param.get_help_record(ctx):
            name, text = record
            sections.setdefault(param.rich_help_panel or kind, []).append(
                (name if kind == "options" else _shown(param), _ours(text))
            )
    for title, records in sections.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def _shown(param: Any) -> str:
    return f"{param.metavar or ''}{'...' * (param.nargs == -1)}"


def _ours(text: str) -> str:
    """A text of help as ours are: what typer writes itself is a sentence, and defaults in words are in brackets."""
    text = re.sub(r"default: \((.*)\)", r"default: \1", text)
    return text[:1].lower() + text[1:-1] if text.endswith(".") else text


@contextmanager
def _named(ctx: Context) -> Iterator[None]:
    """Let the usage errors of a command say which it is; not all of typer's know."""
    try:
        yield
    except TyperException as error:
        if getattr(error, "ctx", ctx) is None:
            error.ctx = ctx  # pyright: ignore[reportAttributeAccessIssue]
        raise


def _summary(below: Run | Commands) -> str:
    """The first sentence of a command's help."""
    text = below.help if isinstance(below, Commands) else inspect.getdoc(below)
    return " ".join((text or "").partition("\n\n")[0].split()).removesuffix(".")
