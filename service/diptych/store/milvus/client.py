"""A Milvus server, asked with a deadline on every call and an error of ours for every one of its own."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from diptych.errors import StoreError, UnreachableError
from diptych.store.location import TOKEN, Address
from diptych_runtime.paths import shell_word

SECONDS = 10.0  # a call may take
SLOW = 60.0  # one may take that makes, loads or renames a collection
OLDEST = (2, 3)

_MISSING, _RELEASED = 100, 101  # Milvus's codes for a collection that is not there, and one that is not loaded


class RefusedError(StoreError):
    """A request that Milvus understood and refuses; `number` is its own code for the reason."""

    number: int | None = None


class MissingError(RefusedError):
    """There is no such collection."""


class Server:
    """The server of an address; thread-safe. Every method raises UnreachableError where none answers in time."""

    def __init__(self, address: Address) -> None:
        """Connect. Raises StoreError for a missing package, a refused login and a server that is too old."""
        try:
            import grpc  # pyright: ignore[reportMissingImports]
            import pymilvus  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise StoreError(
                f"{address} needs the package pymilvus; install it with `pip install 'diptych[milvus]'`"
            ) from None
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # it logs what it raises
        self.address = address
        self._faults = (pymilvus.MilvusException, grpc.RpcError, grpc.FutureTimeoutError)
        self._vague = pymilvus.MilvusException
        with self._translate_errors():
            self.client = pymilvus.MilvusClient(address.server, token=address.token, timeout=SECONDS, dedicated=True)
        self.version = str(self.call("get_server_version"))
        found = re.search(r"(\d+)\.(\d+)", self.version)
        if found and (int(found[1]), int(found[2])) < OLDEST:
            self.close()
            raise StoreError(f"{address} is a Milvus {self.version}; expected 2.3 or newer, update the server")

    def close(self) -> None:
        """Let go of the connection."""
        self.client.close()

    def call(self, method: str, *arguments: Any, timeout: float = SECONDS, **options: Any) -> Any:
        """The result of a method of pymilvus's client. Raises RefusedError, and MissingError without the collection."""
        with self._translate_errors():
            return getattr(self.client, method)(*arguments, timeout=timeout, **options)

    def ask(self, method: str, collection: str, *arguments: Any, **options: Any) -> Any:
        """`call` on a collection, which is loaded where a restart or another name left it unloaded."""
        try:
            return self.call(method, collection, *arguments, **options)
        except RefusedError as error:
            if error.number != _RELEASED:
                raise
        self.call("load_collection", collection, timeout=SLOW)
        return self.call(method, collection, *arguments, **options)

    def list_names(self) -> Sequence[str]:
        """The names of all collections there are."""
        return self.call("list_collections")

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except self._faults as error:
            raise self._translate_error(error) from None

    def _translate_error(self, error: Exception) -> StoreError:
        text = re.sub(r"\s+", " ", str(getattr(error, "message", error)))[:300]
        number = getattr(error, "code", None)
        if re.search("(?i)unauthenticated|auth check failure|permission denied|PERMISSION_DENIED", text):
            login = f"name user and password in the address, or set {TOKEN}"
            return StoreError(f"{self.address} refuses the login ({text}); {login}")
        if number == _MISSING:
            return MissingError(
                f"{self.address} has no such collection (any more); make it with "
                f"`diptych index add --store {shell_word(self.address)} PICTURES`"
            )
        # The numbers 1 and 2 stand for anything, but what pymilvus itself finds wrong has a class of its own.
        clear = number not in (1, 2) or type(error) is not self._vague
        if isinstance(number, int) and clear and not _PASSING.search(text):
            refused = RefusedError(f"{self.address} refuses a request: {text}")
            refused.number = number
            return refused
        return UnreachableError(f"{self.address} does not answer: {text}; is Milvus running there?", seconds=5.0)


# What a server says while it starts, moves its data or has too much to do; it is over after a while.
_PASSING = re.compile(
    "(?i)retry timeout|retry run out|unavailable|not ready|not available|not serving|offline|deadline|rate limit"
    "|no available|initializ|abnormal|shut|closed"
)
