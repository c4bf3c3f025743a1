"""Small rows of a store, with embeddings that are no pictures'."""

import numpy as np

from diptych.store.records import NewPicture

SIZE = 5
# Makes a collection of format version 4.
BEFORE_5 = "ALTER TABLE digests DROP COLUMN stamp; ALTER TABLE digests DROP COLUMN frames; DROP TABLE removed;"


def unit(seed: int) -> np.ndarray:
    vector = np.random.default_rng(seed).normal(size=SIZE)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def new(number: int) -> NewPicture:
    id = f"{number:032x}"
    facts = {"path": None, "media_type": "image/png", "width": 9, "height": 9, "metadata": {}, "data": None}
    return NewPicture(id=id, sha256=id * 2, revision="r", embedding=unit(number).tobytes(), tokens=b"\0\0", **facts)
