"""A decoder that never comes back: worker processes must be able to import it."""

import time


def hang(*_: object, name: str | None = None) -> None:
    time.sleep(60)
