"""The worth of labels, measured by known truth: what is fitted to one half is judged on the other."""

import numpy as np
import pytest

from diptych.errors import BenchError
from diptych_studies.benchmarks.label_figures import Pairs, figures, text
from diptych_studies.benchmarks.labels import Setting, halves, measure

STATED = {"0.01": 0.8, "0.001": 0.95}


def pairs(shown: list[float], labels: list[bool]) -> Pairs:
    return Pairs(np.arange(2 * len(shown)).reshape(-1, 2), np.array(shown), np.array(labels))


def test_no_class_is_in_both_halves_and_both_have_a_pair():
    known = {f"{name}{side}": name for name in "abcdefgh" for side in (1, 2)}
    one, other = halves(known)
    assert one | other == known
    assert set(one.values()).isdisjoint(other.values())
    with pytest.raises(BenchError, match="4 pictures of 4 classes are too few"):
        halves({name: name for name in "abcd"})


def test_the_figures_are_those_of_the_thresholds_stated():
    found = figures(pairs([0.99, 0.9, 0.4, 0.96, 0.1, 0.0], [True, True, True, False, False, False]), STATED)
    assert found["verdicts"]["same"] == {"least": 0.95, "recall": pytest.approx(1 / 3), "passed": 2, "precision": 0.5}
    assert found["verdicts"]["likely"]["recall"] == pytest.approx(2 / 3)
    assert found["false_positives"] == {"0.01": pytest.approx(1 / 3), "0.001": pytest.approx(1 / 3)}


def test_a_measurement_goes_from_labels_to_the_gain_of_their_calibration(artifact, photo_bytes, tmp_path):
    known = {}
    for seed in range(24):
        path = tmp_path / f"{seed}.jpg"
        path.write_bytes(photo_bytes(seed))
        known[str(path)] = f"class {seed // 4}"
    result = measure(tmp_path, Setting(known, "copy", 40, str(artifact), 1))
    assert result["labels"]["same"] + result["labels"]["different"] == 40
    assert sum(result["pictures"].values()) == 24
    assert list(result["ways"]) == ["released", "calibrated"]
    assert list(result["seconds"]) == ["embedding", "choosing", "looking", "calibrating"]
    shown = text(result)
    for words in ("copy: ", "calibrated over released", "processor time (elapsed), 1 thread:"):
        assert words in shown
