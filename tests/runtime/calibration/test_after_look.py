"""The probability of a thing after a closer look: what counts for it and what against."""

import numpy as np
import pytest
from judged import AFTER

from diptych_runtime.calibration.after_look import AfterLook


def test_a_look_in_vain_costs_a_thing_nothing_where_it_begins_to_count_and_the_more_the_surer_a_copy_was():
    after = AFTER["thing"].after_look
    assert after is not None
    copies, own, looked = np.linspace(after.above, 1 - 1e-9, 50), np.full(50, 2.0), np.ones(50, bool)
    found = after.relevance_apart(own, copies, looked)
    assert found[0] == after.relevance_apart(own[:1], copies[:1], ~looked[:1])[0]
    assert (np.diff(found) < 0).all()
    assert found[-1] < 0.7 * found[0]
    alike = np.linspace(-9, 9, 50)
    assert (np.diff(after.relevance_apart(alike, np.full(50, 0.99), looked)) > 0).all()


def test_the_thing_after_a_look_is_no_less_likely_the_surer_the_copy_or_the_network_is():
    after = AFTER["thing"].after_look
    assert after is not None
    odds, shares = np.linspace(-20, 20, 41), np.linspace(0, 1, 41)
    assert (np.diff(after.relevance(odds, np.full(41, 0.3))) >= 0).all()
    assert (np.diff(after.relevance(np.full(41, 1.0), shares)) >= 0).all()
    assert (np.diff(after.relevance_apart(odds, shares, odds > 99)) > 0).all()


@pytest.mark.parametrize(("wrong", "value"), [("logit", -1.0), ("copy", -0.1), ("bias", float("inf")), ("colour", 1.0)])
def test_weights_that_would_turn_the_order_of_scores_around_are_refused(wrong, value):
    looked, apart = {"bias": 0.0, "logit": 0.0, "copy": 0.0}, {"bias": -1.0, "logit": 0.0, "in_vain": 0.0}
    AfterLook(looked, apart)
    with pytest.raises(ValueError, match="'looked' needs the weights bias, logit, copy, all but the bias 0 or more"):
        AfterLook(looked | {wrong: value}, apart)
    with pytest.raises(ValueError, match="'apart' needs the weights bias, logit, in_vain, all but the bias 0 or more"):
        AfterLook(looked, apart | {"in_vain": -0.1})
    for above in (0.0, 1.0):
        with pytest.raises(ValueError, match=f"'above' needs to be more than 0 and less than 1, got {above}"):
            AfterLook(looked, apart, above=above)
