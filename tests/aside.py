"""Pictures that `dedupe` put aside, for the tests of its journals."""

import hashlib
from pathlib import Path

from diptych.dedupe.actions.past import Entry
from diptych.dedupe.actions.undo_log import UndoLog
from diptych.pictures.content import picture_id
from diptych.pictures.walk import TRASH


def id_of(data: bytes) -> str:
    """The id of a picture with these bytes."""
    return picture_id(hashlib.sha256(data).hexdigest())


def put_aside(root: Path) -> Path:
    """The folder of a picture that was put aside, and of its journal, in a folder that has one more, which was kept."""
    trash = root / TRASH / "1"
    trash.mkdir(parents=True)
    (root / "kept.jpg").write_bytes(b"kept")
    (trash / "a.jpg").write_bytes(b"a")
    entry = (root / "a.jpg", trash / "a.jpg", id_of(b"a"), root / "kept.jpg", id_of(b"kept"))
    with UndoLog.begin(trash / "journal.jsonl", "delete", [root / TRASH], [root]) as journal:
        journal.note(Entry(*map(str, entry)))
    return trash
