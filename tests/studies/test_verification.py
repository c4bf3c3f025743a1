"""The study of the closer look: what it fits, its table, and what it saves."""

import json
import shutil

import pytest
from looked_at import ABOVE, pairs

from diptych.cli.main import main
from diptych_model import load_checkpoint, save_checkpoint
from diptych_runtime.runtime import Runtime
from diptych_studies.kinds import planted
from diptych_studies.kinds.fitting import fit_verification
from diptych_studies.verification import (
    measure_kind,
    read_descriptions,
    save_verification,
    study_verification,
)
from diptych_training.errors import DataError


@pytest.fixture
def small(monkeypatch):
    """Two kinds of a few small pictures."""
    real = planted._prepare_kind
    made = {"_prepare_kind": lambda name, folder, sets: real("pages", folder, sets / name), "KINDS": ("pages", "more")}
    for name, value in {"DRAWN": 10, "COPIES": 4, "SIDE": 96, **made}.items():
        monkeypatch.setattr(planted, name, value)


@pytest.mark.usefixtures("small")
def test_the_study_fits_both_sorts_for_every_question(artifact_of_two, tmp_path):
    result = study_verification(Runtime.open(artifact_of_two), tmp_path, tmp_path, kinds=["pages", "more"])
    assert {question: set(sorts) for question, sorts in result["negatives"].items()} == {
        question: {"random", "nearest"} for question in ("copy", "thing")
    }
    stated = result["negatives"]["thing"]
    assert 0 < stated["random"]["0.01"] < 1
    assert 0 < stated["nearest"]["0.01"] < 1


def test_a_row_counts_the_copies_that_were_missed_and_the_pictures_that_were_wronged():
    one = pairs("one")
    fitted = fit_verification([pairs("two", seed=1)], ABOVE)
    figures = measure_kind(fitted, one)
    assert figures["copies"] == 50
    bar = fitted.thresholds["0.01"]
    passed = fitted.shown_relevance(one.relevance, one.seen) >= bar
    assert figures["at"]["0.01"]["found"] == pytest.approx((passed & one.copies).sum() / 50)
    wrong = {place for pair in one.found[passed & ~one.copies].tolist() for place in pair}
    assert figures["at"]["0.01"]["wrong_pictures"] == pytest.approx(len(wrong) / 200)


def test_what_was_fitted_is_saved_for_the_next_export(tmp_path, tiny_network):
    negatives = {"copy": {"random": {"0.001": 0.5}, "nearest": {"0.01": 0.7}}, "thing": {"random": {}}}
    result = {
        "verification": {"above": 0.9, "weights": {}, "thresholds": {}},
        "thing": {"after_look": {}, "thresholds": {"0.01": 0.7}},
        "negatives": negatives,
    }
    line = {"scale": 1.0, "offset": 0.0}
    old = line | {"after_look": {"looked": {}}}
    save_checkpoint(tiny_network, tmp_path / "model", {"questions": {"copy": line, "thing": old}})
    save_verification(result, tmp_path / "model")
    assert load_checkpoint(tmp_path / "model")[1]["questions"]["copy"] == {
        "scale": 1.0,
        "offset": 0.0,
        "verification": result["verification"],
        "negatives": negatives["copy"],
    }
    thing = load_checkpoint(tmp_path / "model")[1]["questions"]["thing"]
    assert thing == line | result["thing"] | {"negatives": negatives["thing"]}
    before = (tmp_path / "model" / "weights.safetensors").read_bytes()
    made = tmp_path / "artifact"
    shutil.copytree(tmp_path / "model", made / "checkpoint")
    stated = {"name": "m", "questions": {"copy": dict(line), "thing": dict(line)}}
    (made / "manifest.json").write_text(json.dumps(stated))
    save_verification(result, made)
    told = json.loads((made / "manifest.json").read_text())
    assert told["questions"] == load_checkpoint(made / "checkpoint")[1]["questions"] != stated["questions"]
    assert (made / "checkpoint" / "weights.safetensors").read_bytes() == before
    save_checkpoint(tiny_network, tmp_path / "other", {"questions": {"match": {"scale": 1.0, "offset": 0.0}}})
    with pytest.raises(DataError, match="has no calibrated question 'copy'"):
        save_verification(result, tmp_path / "other")
    with pytest.raises(DataError, match="nowhere is neither a checkpoint nor an artifact"):
        save_verification(result, tmp_path / "nowhere")


def test_what_nothing_can_be_written_into_is_refused_before_anything_is_looked_at(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["study", "verification", "--save", str(tmp_path / "nowhere")]) == 1
    assert "nowhere is neither a checkpoint nor an artifact" in capsys.readouterr().err
    for number, content in enumerate((b"{", b"\xff\xfe", b"[]", b'{"questions": 5}')):
        damaged = tmp_path / str(number)
        damaged.mkdir()
        (damaged / "config.json").write_bytes(content)
        with pytest.raises(DataError, match=r"config\.json is damaged: "):
            read_descriptions(damaged)
        shutil.rmtree(damaged)
    assert list(tmp_path.iterdir()) == []
