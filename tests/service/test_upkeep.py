"""docs/operating.md does what it says: its commands are run in their order, over another model and an older format."""

import re
import shlex
from contextlib import closing
from pathlib import Path

import pytest
from embedded import BEFORE_5

from diptych.store.open import open_store
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.schema import DATABASE, VERSION, open_connection

PAGE = Path(__file__).parents[2] / "docs" / "operating.md"


def commands() -> dict[str, list[list[str]]]:
    """The words of the commands of the page, by section."""
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return {
        section.partition("\n")[0]: [
            shlex.split(line)[1:]
            for block in re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
            for line in block.splitlines()
        ]
        for section in sections
    }


def paths(store: Path) -> set[str | None]:
    with open_store(store, read_only=True) as opened:
        return {record.path for record in opened.page(100)}


@pytest.fixture
def store(diptych, artifact, gallery, data_home, tmp_path, monkeypatch) -> Path:
    """The default collection, of 12 pictures, seen from a folder with a query."""
    monkeypatch.setenv("DIPTYCH_MODEL", str(artifact))
    monkeypatch.setenv("DIPTYCH_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "query.jpg").write_bytes((gallery / "01.jpg").read_bytes())
    assert diptych("index", "add", gallery).code == 0
    return data_home / "diptych"


def test_a_backup_is_checked_and_gives_back_what_was_lost_since(diptych, store, gallery, tmp_path, photo_bytes):
    before = paths(store)
    assert len(before) == 12
    for words in commands()["Backup"]:
        assert diptych(*words).code == 0, words
    (tmp_path / "new.jpg").write_bytes(photo_bytes(30))
    assert diptych("index", "remove", gallery / "01.jpg").code == 0
    assert diptych("index", "add", tmp_path / "new.jpg").code == 0
    first, second, *rest = commands()["Restore"]
    refused = diptych(*first)
    assert (refused.code, "holds 1 picture that the backup" in refused.err) == (1, True)
    for words in (second, *rest):
        assert diptych(*words).code == 0, words
    assert paths(store) == paths(tmp_path / "elsewhere") == before


def test_another_model_is_refused_until_the_collection_was_rebuilt_and_the_backup_leads_back(
    diptych, store, artifact, other_artifact, monkeypatch
):
    def run(words: list[str]):
        return diptych(*[str(other_artifact) if word == "photo-small" else word for word in words])

    backup, rebuild, search, restore, search_again = commands()["Another model"]
    assert run(backup).code == 0
    refused = diptych(*search, "--model", other_artifact)
    assert (refused.code, "diptych index rebuild --store" in refused.err) == (1, True)
    monkeypatch.delenv("DIPTYCH_MODEL")
    for words in (rebuild, search):
        assert run(words).code == 0, words
    monkeypatch.setenv("DIPTYCH_MODEL", str(artifact))
    assert run(search).code == 1, "it belongs to the other model now"
    for words in (restore, search_again):
        assert run(words).code == 0, words


def test_a_collection_of_an_older_format_is_brought_to_the_present_and_its_backup_stays_old(
    diptych, store, gallery, tmp_path
):
    def version(folder: Path) -> int:
        with Store.open(folder, read_only=True) as opened, opened.reading() as connection:
            return connection.execute("PRAGMA user_version").fetchone()[0]

    with closing(open_connection(store / DATABASE, read_only=False)) as connection:
        connection.executescript(f"{BEFORE_5} DROP TABLE digests; DROP TABLE labels; PRAGMA user_version=1;")
    before = paths(store)
    for words in commands()["Another version of Diptych"]:
        assert diptych(*words).code == 0, words
    assert version(store) == version(tmp_path / "backups/before-upgrade") == 1, "what only reads leaves it as it is"
    assert diptych("index", "remove", gallery / "01.jpg").code == 0
    assert version(store) == VERSION > 1
    assert diptych("index", "restore", "backups/before-upgrade", "--store", "new").code == 0
    assert paths(tmp_path / "new") == before != paths(store)
    assert diptych("search", "query.jpg", "--store", "new").code == 0
    assert diptych("index", "verify", "--store", "new").code == 0
