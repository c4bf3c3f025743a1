"""The circle of docs/labelling.md, as it stands there: label, calibrate, search."""

import re
import shlex
import shutil
from pathlib import Path

from diptych import Collection
from diptych.cli.main import main
from diptych.labelling.choose import pairs_to_label
from diptych_runtime.own_calibration import CALIBRATION

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs" / "labelling.md"


def circle() -> list[list[str]]:
    """The words of the commands below the heading."""
    text = DOCUMENT.read_text().split("## The whole circle", 1)[1]
    block = re.search(r"```bash\n(.*?)```", text, re.S)
    assert block is not None
    return [shlex.split(line, comments=True)[1:] for line in block[1].splitlines() if line.startswith("diptych ")]


def test_every_command_of_the_circle_runs_and_the_collection_has_a_calibration(
    artifact, photo_bytes, tmp_path, monkeypatch
):
    (tmp_path / "photos").mkdir()
    for seed in range(16):
        (tmp_path / "photos" / f"{seed}.jpg").write_bytes(photo_bytes(seed))
    shutil.copy(tmp_path / "photos/3.jpg", tmp_path / "query.jpg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DIPTYCH_THREADS", "1")
    monkeypatch.setenv("DIPTYCH_MODEL", str(artifact))
    commands = circle()
    assert [words[0] for words in commands] == ["index", "serve", "calibrate", "search"]
    for words in commands:
        if words[0] == "serve":
            _answer(artifact)
            continue
        # What is labelled here teaches this network nothing.
        more = ["--force"] if words[0] == "calibrate" else []
        assert main([*words, *more, "--quiet"]) == 0, words
    assert (tmp_path / "store" / CALIBRATION).is_file()


def _answer(model: Path) -> None:
    """A person's answers: the likelier half of the pairs are the same, but for one in five."""
    from diptych import Scorer

    with Collection.open("store", Scorer.load(str(model), provider="cpu", threads=1)) as collection:
        pairs = sorted(pairs_to_label(collection, 40), key=lambda pair: pair.relevance_score)
        for number, pair in enumerate(pairs):
            same = (number >= len(pairs) / 2) != (number % 5 == 0)
            collection.label(pair.a.id, pair.b.id, "same" if same else "different")
