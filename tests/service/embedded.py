"""Small rows of a store, with embeddings that are no pictures', and damage to a database that is open."""

from contextlib import closing
from typing import Any

import numpy as np

from diptych.store.records import NewPicture
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.schema import open_connection

SIZE = 5
# Makes a collection of format version 4.
BEFORE_5 = "ALTER TABLE digests DROP COLUMN stamp; ALTER TABLE digests DROP COLUMN frames; DROP TABLE removed;"


def tamper(store: Store, statement: str, *values: object) -> Any:
    """Run a statement behind the back of whoever has the database open; returns the first value of its answer."""
    with closing(open_connection(store.path, read_only=False)) as connection, connection:
        row = connection.execute(statement, values).fetchone()
    return row and row[0]


def unit(seed: int) -> np.ndarray:
    vector = np.random.default_rng(seed).normal(size=SIZE)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def new(number: int) -> NewPicture:
    id = f"{number:032x}"
    facts = {"path": None, "media_type": "image/png", "width": 9, "height": 9, "metadata": {}, "data": None}
    return NewPicture(id=id, sha256=id * 2, revision="r", embedding=unit(number).tobytes(), tokens=b"\0\0", **facts)
