"""The card of an artifact whose checkpoint brings none."""

from pathlib import Path

import pytest

from diptych_export.artifact import export_checkpoint
from diptych_model.checkpoint import save_checkpoint
from diptych_runtime.manifest import CARD

HISTORY = {
    "step": 1500,
    "recipe": {"start": "photo-small", "tasks": [{"kind": "classes", "pictures": "/home/ann/shoes"}, {"kind": "copy"}]},
    "metrics": {"classes_map": 0.81, "note": "none"},
    "thresholds": {"0.01": 0.7},
}


@pytest.fixture
def exported(tiny_network, written_graphs, tmp_path):
    """`exported(metadata)` is the card of a checkpoint with these metadata, exported to `tmp_path`/out."""

    def export(metadata: dict) -> str:
        save_checkpoint(tiny_network, tmp_path / "checkpoint", metadata)
        export_checkpoint(tmp_path / "checkpoint", tmp_path / "out", name="shoes", check=False)
        return (tmp_path / "out" / CARD).read_text("latin-1")

    return export


def test_it_says_what_the_model_learned_from_and_what_was_measured_and_names_no_path(exported) -> None:
    card = exported(HISTORY)
    assert "# shoes" in card
    assert "It started from `photo-small`. It learned from `classes`, `copy` for 1,500 steps" in card
    assert "| classes_map | 0.810 |" in card
    assert "*match* is `same` from 0.99000 and `likely` from 0.70000 on." in card
    assert "The graphs were not compared with torch." in card
    assert "ann" not in card.replace("panels", "")
    card = exported({"recipe": {"start": "/home/ann/runs/shoes/best"}})
    assert "It started from a model of your own." in card
    assert "*match* is not calibrated" in card
    assert "Figures" not in card
    assert "/home" not in card


def test_it_is_written_anew_until_somebody_changes_it(exported, tmp_path: Path) -> None:
    assert "classes" in exported(HISTORY)
    changed = exported({}).split("-->\n", 1)[1] + "\nNot for sandals, \xe9tienne.\n"
    assert "classes" not in changed
    (tmp_path / "out" / CARD).write_text(changed, "latin-1")
    assert exported(HISTORY) == changed
