"""What a closer look at a possible copy says of the thing."""

from dataclasses import replace

import numpy as np
import pytest
from judged import QUESTIONS, drawn, evidence

from diptych_runtime.calibration.evidence import NUMBERS, AfterLook, Evidence
from diptych_runtime.calibration.recalibration import log_odds, sigmoid
from diptych_runtime.judgement import question_probabilities
from diptych_runtime.own_calibration import OwnQuestion

WEIGHTS = {"bias": -1.0, "odds": 0.25, "registered": 0.5, "containment": 2.0, "aligned_odds": 0.75}
AFTER = AfterLook(WEIGHTS, 0.5)
VAIN = Evidence(300)


def test_what_got_no_look_is_told_by_the_network_and_what_was_laid_over_the_other_by_the_numbers():
    own, copies = np.array([0.2, 0.999, 0.7]), np.full(3, 0.9)
    assert AFTER.relevance(own, copies, [None] * 3).tolist() == own.tolist()
    laid = [
        Evidence(300, 90, 60, containment=share, aligned_odds=odds) for share, odds in ((1, 4), (0.5, -2), (0.9, 0))
    ]
    odds = -1 + 0.25 * log_odds(own) + 0.5 + 2 * np.array([1, 0.5, 0.9]) + 0.75 * np.array([4, -2, 0])
    assert AFTER.relevance(own, copies, laid) == pytest.approx(sigmoid(odds), abs=1e-7)


def test_a_look_in_vain_speaks_against_the_thing_by_as_much_as_the_network_was_surer_of_a_copy():
    own = np.full(3, 0.95)
    found = AFTER.relevance(own, np.array([0.1, 0.5, 0.99]), [VAIN] * 3)
    assert found[:2] == pytest.approx(own[:2], abs=1e-7), "where looks begin the probability does not jump"
    assert log_odds(found[2:]) == pytest.approx(log_odds(own[:1]) - 0.5 * log_odds(np.array([0.99])), abs=1e-4)


def test_a_calibration_of_ones_own_puts_all_of_them_on_its_line():
    questions = QUESTIONS | {"thing": replace(QUESTIONS["thing"], after_look=AFTER)}
    own = OwnQuestion(0.7, -0.4, {"0.01": 0.7, "0.001": 0.96}, 30, 40)
    moved = questions | {"thing": own.apply_to(questions["thing"])}
    logits, seen = drawn(questions), evidence()
    before, after = (question_probabilities(asked, logits, seen) for asked in (questions, moved))
    free = (before["thing"] > before["copy"]) & (after["thing"] > after["copy"])
    free &= (np.abs(log_odds(before["thing"])) < 9) & (np.abs(logits[:, 1]) < 12)
    for looked in (False, True):
        some = free & np.array([(one is not None) == looked for one in seen])
        assert some.sum() > 50
        assert log_odds(after["thing"][some]) == pytest.approx(0.7 * log_odds(before["thing"][some]) - 0.4, abs=0.02)


@pytest.mark.parametrize(
    ("weights", "in_vain"),
    [({"bias": 1.0}, 0.5), (WEIGHTS | {"more": 1.0}, 0.5), (dict.fromkeys(NUMBERS, np.inf), 0.5), (WEIGHTS, np.nan)],
)
def test_what_is_no_calibration_is_refused(weights, in_vain):
    with pytest.raises(ValueError, match="'after_look' needs finite weights bias, odds, registered, containment"):
        AfterLook(weights, in_vain)
