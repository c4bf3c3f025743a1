"""The circle of docs/labelling.md, as it stands there: label, calibrate, fine-tune, adopt."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from diptych import Collection
from diptych.cli.main import main
from diptych.labelling.choose import pairs_to_label

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs" / "labelling.md"


def circle() -> list[list[str]]:
    """The words of the commands below the heading."""
    text = DOCUMENT.read_text().split("## The whole circle", 1)[1]
    block = re.search(r"```bash\n(.*?)```", text, re.S)
    assert block is not None
    return [shlex.split(line, comments=True)[1:] for line in block[1].splitlines() if line.startswith("diptych ")]


@pytest.mark.slow  # torch's exporter alone takes ten seconds
def test_every_command_of_the_circle_runs_and_the_collection_has_the_new_model(
    artifact, tiny_network, photo_bytes, tmp_path, monkeypatch
):
    from diptych_model import save_checkpoint

    start = shutil.copytree(artifact, tmp_path / "start")
    save_checkpoint(tiny_network, start / "checkpoint")
    (tmp_path / "photos").mkdir()
    for seed in range(16):
        (tmp_path / "photos" / f"{seed}.jpg").write_bytes(photo_bytes(seed))
    shutil.copytree(ROOT / "training/recipes", tmp_path / "training/recipes")
    shutil.copy(tmp_path / "photos/3.jpg", tmp_path / "query.jpg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DIPTYCH_THREADS", "1")
    monkeypatch.setenv("DIPTYCH_MODEL", str(start))
    commands = circle()
    assert [words[0] for words in commands] == ["index", "serve", "calibrate", "label", "train", "models", "search"]
    for words in commands:
        if words[:2] == ["models", "use"]:
            monkeypatch.delenv("DIPTYCH_MODEL")
        if words[0] == "serve":
            _answer(start)
            continue
        # What is labelled here teaches this network nothing.
        more = {"train": ["--set", f"start={start}", "--set", "background=20"], "calibrate": ["--force"]}.get(
            words[0], []
        )
        assert main([*words, *more, "--quiet"]) == 0, words
    from diptych.store.sqlite.database import Store

    with Store.open("store", read_only=True) as store:
        adopted = store.adopted_model()
    assert adopted is not None
    assert adopted.model == "shoes"


def _answer(model: Path) -> None:
    """A person's answers: the likelier half of the pairs are the same, but for one in five."""
    from diptych import Scorer

    with Collection.open("store", Scorer.load(str(model), provider="cpu", threads=1)) as collection:
        pairs = sorted(pairs_to_label(collection, 40), key=lambda pair: pair.relevance_score)
        for number, pair in enumerate(pairs):
            same = (number >= len(pairs) / 2) != (number % 5 == 0)
            collection.label(pair.a.id, pair.b.id, "same" if same else "different")
