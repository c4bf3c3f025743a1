"""Options that several of the service's subcommands have, and the kinds of values that they take."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from diptych.store.filters import to_sql
from diptych.store.location import Address, parse_location
from diptych_runtime.calibration.questions import ASKED
from diptych_runtime.session import PROVIDERS

_STORE = "the folder of the collection, or milvus://host:port/name"


def store(parser: argparse.ArgumentParser) -> None:
    """Add `--store`, a folder or an address on Milvus."""
    parser.add_argument("--store", metavar="DIR|URL", type=a_place, required=True, help=_STORE)


def stores(parser: argparse.ArgumentParser) -> None:
    """Add `--store` and `--collections`, of which one may be given."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--store", metavar="DIR|URL", type=a_place, help=_STORE)
    which.add_argument("--collections", metavar="ROOT", type=a_folder, help="a folder with the folders of several")


def urls(parser: argparse.ArgumentParser) -> None:
    """Add `--urls`."""
    parser.add_argument(
        "--urls", action="store_true", help="fetch pictures that are named by web address (limits: DIPTYCH_URL_*)"
    )


def filter(parser: argparse.ArgumentParser) -> None:
    """Add `--filter`."""
    parser.add_argument(
        "--filter", type=a_condition, metavar="JSON", help="""only these: '{"label": "shoe", "price": {"$lt": 50}}'"""
    )


def top(parser: argparse.ArgumentParser, default: int | None) -> None:
    """Add `--top`; without a default it is all."""
    shown = "all" if default is None else default
    parser.add_argument("--top", metavar="N", type=number(1), default=default, help=f"how many (default: {shown})")


def model(parser: argparse.ArgumentParser) -> None:
    """Add `--model`, `--provider` and `--threads`."""
    parser.add_argument(
        "--model", default="photo", help="a bundled model or an artifact directory (default: %(default)s)"
    )
    parser.add_argument("--provider", choices=PROVIDERS, default="auto", help="(default: %(default)s)")
    parser.add_argument("--threads", type=number(1), help="by default what this process may use")


def question(parser: argparse.ArgumentParser, default: str | None, said: str = "%(default)s") -> None:
    """Add `--question`; `said` is the default in words."""
    parser.add_argument(
        "--question",
        choices=ASKED,
        default=default,
        help="is one picture made from the other (copy), or do both show the same thing? (default: " + said + ")",
    )


def engine(parser: argparse.ArgumentParser) -> None:
    """Add `--engine` and `--address`."""
    parser.add_argument(
        "--engine", choices=("local", "ray"), default="local", help="who computes (default: %(default)s)"
    )
    parser.add_argument("--address", metavar="HOST:PORT", help="the Ray cluster (default: one of this machine alone)")


def a_place(text: str) -> Path | Address:
    """A folder, or an address on Milvus."""
    try:
        return parse_location(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def a_folder(text: str) -> Path:
    """A folder, and no address."""
    found = a_place(text)
    if isinstance(found, Address):
        raise argparse.ArgumentTypeError(f"expected a folder of this machine, got {found}, which is on Milvus")
    return found


def number(least: int, most: int | None = None) -> Callable[[str], int]:
    """A whole number of this range."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}") from None
        if value < least or (most is not None and value > most):
            limits = f"at least {least}" if most is None else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"expected a number {limits}, got {value}")
        return value

    return parse


def positive(what: str = "a number above 0", most: float = 1e12) -> Callable[[str], float]:
    """A number above 0, `most` at most; `what` says so in the error."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not 0 < value <= most:
            raise argparse.ArgumentTypeError(f"expected {what}, got {text!r}")
        return value

    return parse


SECONDS = positive("a number of seconds above 0", 1e6)
PROBABILITY = positive("a number above 0 and at most 1", 1.0)
AMOUNT = positive()


def a_condition(text: str) -> dict[str, Any]:
    """A condition on metadata, as JSON."""
    try:
        condition = json.loads(text)
        to_sql(condition)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"expected a condition as JSON: {error}") from None
    return condition
