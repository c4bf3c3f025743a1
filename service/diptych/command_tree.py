"""The tree of commands: typer builds each one from the signature of its function, and only when it is named."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from typer import BadParameter, Context, Option, Typer, TyperException
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_command, get_group

from diptych_runtime.paths import given_path

Json = Annotated[bool, Option("--json", help="print one JSON document on standard output", envvar="DIPTYCH_JSON")]
Quiet = Annotated[
    bool, Option("--quiet", "-q", help="no progress and no remarks, only results and errors", envvar="DIPTYCH_QUIET")
]


_MOST = 2**31 - 1


def number(least: int | None = None, most: int | None = None) -> Callable[[str], int]:
    """A whole number of this range."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"expected a whole number, got {text!r}") from None
        top = _MOST if most is None else most
        if (least is not None and value < least) or not -_MOST <= value <= top:
            limits = f"at least {least}" if most is None and value <= top else f"from {least or 0} to {top}"
            raise ValueError(f"expected a number {limits}, got {value}")
        return value

    return parse


def positive(expected: str = "a number above 0", most: float = 1e12) -> Callable[[str], float]:
    """A number above 0, `most` at most; `expected` names it in the error."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not 0 < value <= most:
            raise ValueError(f"expected {expected}, got {text!r}")
        return value

    return parse


amount = positive()


def one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """A word among some."""

    def parse(text: str) -> str:
        if text not in choices:
            meant = _meant(get_close_matches(text, choices))
            raise ValueError(f"expected {_or(choices)}, got {text!r}" + (f"; {meant}" if meant else ""))
        return text

    return parse


def _truth(text: str) -> bool:
    """The value of a flag in the environment."""
    word = text.strip().lower()
    if word not in ("1", "true", "yes", "on", "0", "false", "no", "off"):
        raise ValueError(f"expected 1, true, yes or on, or 0, false, no or off, got {text!r}")
    return word in ("1", "true", "yes", "on")


def _path(text: str) -> Path:
    return Path(given_path(text))


def _real(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"expected a number, got {text!r}")
    return value


class _Reader:
    """The reader of values, in the place of typer's own, which imports pydantic for every command and its help.

    Raises BadParameter for a value that cannot be read.
    """

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value of a parameter, read from its words.

        A tuple and a list have a value a word, a Sequence has commas between its values. An option of a list or a
        Sequence may be repeated, and all its values count.
        """
        if value is None or value is param.default:
            return value
        annotation = param.type_descriptor.annotation
        origin = get_origin(annotation)
        several = origin in (list, tuple, Sequence)
        read = param.type_descriptor.parameter_info.parser or self._read(
            get_args(annotation)[0] if several else annotation
        )
        try:
            if origin is Sequence:
                return tuple(read(word.strip()) for text in value if text for word in text.split(","))
            return tuple(map(read, value)) if several else read(value)
        except ValueError as error:
            raise BadParameter(str(error), ctx=ctx, param=param) from None

    def _read(self, annotation: Any) -> Callable[[str], Any]:
        if get_origin(annotation) is Literal:
            return one_of(get_args(annotation))
        return {int: number(), float: _real, bool: _truth, Path: _path}.get(annotation, annotation)


def _is_sequence(param: Any) -> bool:
    return get_origin(param.type_descriptor.annotation) is Sequence


# Contexts are Any below: typer's own classes take one of a module that it keeps to itself.


class _Shared:
    """The help and the reading of values that commands and groups of commands have in common."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The arguments and options, and that for help."""
        params = super().get_params(ctx)  # pyright: ignore[reportAttributeAccessIssue]
        for param in params:
            param.get_runtime_param = _Reader
            param.multiple = getattr(param, "multiple", False) or _is_sequence(param)
        return params

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Write the line of usage."""
        formatter.write_usage(ctx.command_path, " ".join(self.collect_usage_pieces(ctx)), "usage: ")

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The arguments of the command and the options that it requires."""
        arguments, required = [], []
        for param in self.params:  # pyright: ignore[reportAttributeAccessIssue]
            shown = _shown(param)
            if not isinstance(param, TyperOption):
                arguments.append(shown if param.required else f"[{shown}]")
            elif param.required:
                required.append(f"{param.opts[0]} {shown}")
        return ["[OPTIONS]", *required, *arguments]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, in sections of the names that they give as their panel."""
        sections: dict[str, list[tuple[str, str]]] = {"arguments": [], "options": []}
        for param in self.get_params(ctx):
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


class Command(_Shared, TyperCommand):
    """A command with help and errors as all of ours have them."""

    allow_extra_args = True  # which are refused below, in our words

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of a command line; raises a usage error."""
        with _named(ctx):
            rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            ctx.fail(f"expected no further word, got {' '.join(rest)}; {_see(ctx)}")
        return rest


class _Entry(NamedTuple):
    run: str
    summary: str


class Commands(_Shared, TyperGroup):
    """A group of commands, itself a command: `add` and `group` say what goes below it.

    A function is named as "module:function". Its parameters are the command's, its docstring is the help, and its value
    the exit code. The module is imported when the command is named; for the help of the group the summary is enough,
    the first sentence of that docstring.
    """

    summary, alone = "", ""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.below: dict[str, _Entry | Commands] = {}

    def add(self, run: str, summary: str) -> None:
        """Add a command; it has the name of its function."""
        self.below[run.partition(":")[2]] = _Entry(run, summary)

    def group(self, name: str, summary: str, *, alone: str = "") -> Commands:
        """The group of this name, made by whichever package asks first; `alone` it is the command of this function."""
        below = self.below.get(name)
        if not isinstance(below, Commands):
            below = Commands(name=name, help=f"{summary}.", rich_markup_mode=None, invoke_without_command=bool(alone))
            below.summary, below.alone = summary, alone
            self.below[name] = below
        return below

    def refuse(self, name: str, summary: str, reason: str) -> None:
        """Add a command that this installation lacks: whatever is asked of it, the answer is the reason."""
        refused = _Refused(name=name)
        refused.summary, refused.reason = summary, reason
        self.below[name] = refused

    def list_commands(self, ctx: Any) -> list[str]:
        """The names below this one, in the order in which they were added."""
        return list(self.below)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, built now if it is the first time; None if there is none."""
        below = self.below.get(cmd_name)
        if below is None or (isinstance(below, Commands) and not below.alone):
            return below
        if cmd_name not in self.commands:
            self.commands[cmd_name] = _group_of(below) if isinstance(below, Commands) else _command_of(below)
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

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words after the group's name in the line of usage."""
        return [*super().collect_usage_pieces(ctx), "[COMMAND] ..." if self.invoke_without_command else "COMMAND ..."]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the lists of options and of commands."""
        with formatter.section("commands"):
            formatter.write_dl([(name, below.summary) for name, below in self.below.items()])
        super().format_options(ctx, formatter)


class _Refused(Commands):
    """A command of which there is no more than the reason why it is not here."""

    reason = ""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Raise a usage error, but for a shell that completes words."""
        if not ctx.resilient_parsing:
            ctx.fail(self.reason)
        return []


def root(run: Callable[..., object]) -> Commands:
    """The group that nothing is above, described by `run`, with the options that set up the completion of shells."""
    settings = {"help_option_names": ["-h", "--help"], "max_content_width": 120}
    app = Typer(cls=Commands, callback=run, name=run.__name__, context_settings=settings, rich_markup_mode=None)
    made = get_command(app)
    assert isinstance(made, Commands)
    return made


def _group_of(group: Commands) -> Commands:
    app = Typer(cls=Commands, callback=_load(group.alone), name=group.name, rich_markup_mode=None)
    made = get_group(app)
    assert isinstance(made, Commands)
    made.below, made.invoke_without_command = group.below, True
    return made


def _command_of(entry: _Entry) -> Any:
    run = _load(entry.run)
    app = Typer(add_completion=False, rich_markup_mode=None)
    app.command(run.__name__, cls=Command)(run)
    return get_command(app)


def _load(run: str) -> Callable[..., Any]:
    module, _, function = run.partition(":")
    return getattr(import_module(module), function)


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
    return f"{name}: {error.message}"


def _see(context: Context | None) -> str:
    return f"`{context.command_path if context else 'diptych'} --help` lists what there is"


def _meant(names: Sequence[str] | None) -> str:
    return f"did you mean {_or(names)}?" if names else ""


def _or(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


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
