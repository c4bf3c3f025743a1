"""Which numbers of a closer look pay: odd copies, what is left out of a fit, and the study's table."""

import numpy as np
import pytest
from looked_at import pairs
from PIL import Image

from diptych_runtime.runtime import Runtime
from diptych_studies.kinds import planted
from diptych_studies.kinds.numbers import (
    NETWORK,
    Known,
    fit_numbers,
    measure_choices,
    numbers_and_more,
    numbers_text,
    study_numbers,
)
from diptych_studies.kinds.odd_edits import ODD_EDITS
from diptych_studies.kinds.planted import add_odd_copies, open_planted


@pytest.fixture
def small(monkeypatch):
    for name, value in {"DRAWN": 26, "COPIES": 4, "SIDE": 128}.items():
        monkeypatch.setattr(planted, name, value)


def test_every_odd_edit_makes_another_picture_of_the_same_size():
    rgb = np.asarray(Image.effect_mandelbrot((96, 80), (-2, -1, 1, 1), 40).convert("RGB"))
    for name, edit in ODD_EDITS.items():
        edited = edit(rgb, np.random.default_rng(0))
        assert edited.shape == rgb.shape, name
        assert edited.dtype == np.uint8, name
        assert (edited != rgb).any(), name


def test_odd_copies_are_drawn_once_and_match_their_originals(small, tmp_path):
    plain = open_planted("pages", tmp_path, tmp_path / "sets")
    made = add_odd_copies(plain)
    odd = made.names[len(plain.names) :]
    assert [name.partition("-")[2] for name in odd] == [f"{name}.jpg" for name in ODD_EDITS] + ["glass.jpg"]
    copies = np.array([(made.original[place], place) for place in range(len(plain.names), len(made.names))])
    assert made.is_match(copies, "copy").all()
    times = [(made.folder / name).stat().st_mtime_ns for name in odd]
    again = add_odd_copies(plain)
    assert again.names == made.names
    assert [(made.folder / name).stat().st_mtime_ns for name in odd] == times


def make_known(kind: str, seed: int = 0) -> Known:
    """Made pairs, of whose copies every other one is hard, and the others easy."""
    made = pairs(kind, seed=seed)
    family = np.where(made.copies, np.where(np.arange(len(made.copies)) % 2, "hard", "easy"), "")
    return Known(made, numbers_and_more(made), family)


def test_a_fit_to_numbers_that_tell_copies_ranks_those_of_another_kind_first():
    one, others = make_known("one"), [make_known("two", 1), make_known("three", 2)]
    by = {
        names: fit_numbers(others, names, one) for names in (("bias", "odds"), ("bias", "registered", "aligned_odds"))
    }
    plain, better = (values[one.pairs.copies].mean() - values[~one.pairs.copies].mean() for values in by.values())
    assert better > plain + 1


AGREEING = {"agreeing": ("bias", "odds", "registered", "aligned_odds")}


def test_a_family_that_is_left_out_is_not_fitted_to_and_alone_measured():
    kinds = [make_known("one"), make_known("two", 1)]
    assert "hard" not in kinds[0].without_family("hard").family
    assert kinds[0].without_family("hard").pairs.copies.sum() == (kinds[0].family == "easy").sum()
    assert measure_choices(kinds, "odd", AGREEING) == {}  # of which there are none
    for found in (measure_choices(kinds, "", AGREEING), measure_choices(kinds, "hard", AGREEING)):
        assert set(found) == {NETWORK, "agreeing"}
        assert found[NETWORK]["least"]["gain"] == 0
        low, high = found["agreeing"]["least"]["interval"]
        assert low <= found["agreeing"]["least"]["gain"] <= high
        assert found["agreeing"]["mean"] > found[NETWORK]["mean"]


def test_the_study_measures_every_choice_with_each_family_left_out(small, artifact_that_looks, tmp_path, monkeypatch):
    real = planted._prepare_kind
    monkeypatch.setattr(planted, "_prepare_kind", lambda name, folder, sets: real("pages", folder, sets / name))
    monkeypatch.setattr(planted, "KINDS", ("pages", "more"))
    runtime = Runtime.open(artifact_that_looks)
    result = study_numbers(runtime, tmp_path, tmp_path, kinds=["pages", "more"], choices=AGREEING)
    assert list(result["left_out"]) == ["no family", "easy edits", "hard edits", "odd edits"]
    assert set(result["left_out"]["no family"]) == {NETWORK, "agreeing"}
    text = numbers_text(result)
    assert text.count("least gain over the network alone") == 4
    assert "agreeing" in text
