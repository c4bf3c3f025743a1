"""Paths as a person gives them, with `~` and in any form of Unicode, and the folders that every user has."""

from __future__ import annotations

import os
import pwd
import shlex
from pathlib import Path
from unicodedata import normalize

from diptych_runtime.errors import NoHomeError


def given_path(path: str | os.PathLike[str]) -> str:
    """A path of the command line or a setting: `~` in front is expanded, and the name is in the form of what is there.

    Raises NoHomeError.
    """
    return existing_form(expand_home(os.fspath(path)))


def expand_home(text: str) -> str:
    """A path with the home folder in the place of `~` or `~user` at its beginning, which no shell has expanded.

    One that is there as it is written stays, and so does one of a user that there is not. Raises NoHomeError.
    """
    if not text.startswith("~") or os.path.lexists(text):
        return text
    user, _, rest = text[1:].partition("/")
    if user:
        return os.path.expanduser(text)  # noqa: PTH111 - Path.expanduser raises where there is no such user
    if (home := home_folder()) is None:
        raise NoHomeError(f"{text} is in your home folder, and you have none: set HOME, or write the path without ~")
    return str(home / rest)


def existing_form(path: str) -> str:
    """A path that is there, or the one that is there and differs only in the normal form of Unicode (NFC, NFD).

    File systems, archives and programs write é as one letter or as two.
    """
    if path.isascii() or os.path.lexists(path):
        return path
    found: list[str] = []
    for name in path.split("/"):
        forms = (name, *other_forms(name))
        found.append(next((form for form in forms if os.path.lexists("/".join([*found, form]) or "/")), name))
    return "/".join(found)


def other_forms(text: str) -> list[str]:
    """The normal forms of a text, NFC and NFD, that differ from it."""
    return [form for form in dict.fromkeys(normalize(name, text) for name in ("NFC", "NFD")) if form != text]


def shell_word(path: object) -> str:
    """A path as one word of a command that is shown to be pasted: a shell runs nothing in it, and it is no option.

    >>> shell_word("a/b.jpg"), shell_word("$(x) y"), shell_word("-x")
    ('a/b.jpg', "'$(x) y'", './-x')
    """
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


def home_folder() -> Path | None:
    """The user's home folder: that of HOME, or of the list of users; None where neither has one."""
    if os.path.isabs(home := os.environ.get("HOME", "")):  # noqa: PTH117
        return Path(home)
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:  # in a container, for one
        return None


def _user_folder(variable: str, below_home: str, *, otherwise: str) -> Path:
    """The user's folder for data or cache: the one that the XDG variable names, or the one below home.

    Raises NoHomeError, which says what to do `otherwise`.
    """
    if os.path.isabs(named := os.environ.get(variable, "")):  # noqa: PTH117
        return Path(named)
    if (home := home_folder()) is None:
        raise NoHomeError(f"you have no home folder, in which {below_home} would be: {otherwise}, or set HOME")
    return home / below_home


def data_folder(*, otherwise: str) -> Path:
    """The user's folder for data. Raises NoHomeError."""
    return _user_folder("XDG_DATA_HOME", ".local/share", otherwise=otherwise)


def cache_folder(*, otherwise: str) -> Path:
    """The user's folder for cached files. Raises NoHomeError."""
    return _user_folder("XDG_CACHE_HOME", ".cache", otherwise=otherwise)
