import numpy as np
import pytest

from diptych_training.fine_tuning.measured import measure_models, measured_text

SAME = np.array([True, True, True, False, False, False])
FIRST = np.array([0.9, 0.6, 0.4, 0.6, 0.3, 0.1])
BETTER = np.array([0.99, 0.9, 0.8, 0.3, 0.1, 0.01])


def test_figures_are_of_each_model_and_the_gain_is_over_the_first():
    found = measure_models(SAME, np.arange(6), {"0.01": 0.7, "0.001": 0.95}, {"released": FIRST, "fine-tuned": BETTER})
    assert found["pairs"] == {"same": 3, "different": 3}
    released, tuned = found["models"].values()
    assert released["gain"] == (0, 0, 0)
    assert tuned["gain"][0] == pytest.approx(released["log_loss"] - tuned["log_loss"])
    assert 0 < tuned["gain"][1] < tuned["gain"][0] < tuned["gain"][2]
    assert tuned["ece"] < released["ece"]
    assert {name: one["recall"] for name, one in tuned["verdicts"].items()} == pytest.approx(
        {"same": 1 / 3, "likely": 1, "unsure": 1}
    )
    assert released["verdicts"]["unsure"]["false_positives"] == pytest.approx(1 / 3)
    text = measured_text({"copy": {**found, "strength": None}})
    assert "copy: 3 same, 3 different" in text
    assert "no better network" in text
    assert "not told apart" not in text


def test_what_the_labels_do_not_show_to_be_better_is_said_not_to_be():
    found = measure_models(SAME, np.arange(6), {"0.01": 0.7}, {"released": FIRST, "fine-tuned": FIRST[::-1]})
    assert "not told apart from the release" in measured_text({"copy": {**found, "strength": 1.0}})


def test_pairs_of_one_group_widen_the_interval_and_labels_of_one_kind_have_no_other_rate():
    apart, together = (
        measure_models(SAME, groups, {"0.01": 0.7}, {"released": FIRST, "tuned": BETTER})["models"]["tuned"]["gain"]
        for groups in (np.arange(6), np.array([0, 1, 2, 0, 1, 2]))
    )
    assert together[0] == apart[0]
    assert together != apart
    alone = measure_models(SAME[:3], np.arange(3), {"0.01": 0.7}, {"released": FIRST[:3]})["models"]["released"][
        "verdicts"
    ]
    assert alone["likely"]["false_positives"] is None
    assert alone["likely"]["recall"] == pytest.approx(1 / 3)
