"""The probability of a thing after a closer look: what counts for it and what against."""

from dataclasses import replace

import numpy as np
import pytest
from judged import AFTER, evidence

from diptych_runtime.calibration.after_look import AfterLook
from diptych_runtime.calibration.evidence import FEATURES, feature_rows
from diptych_runtime.calibration.recalibration import log_odds


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


def test_what_was_laid_over_each_other_is_judged_by_its_evidence_alone_and_by_itself():
    after = AFTER["thing"].after_look
    assert after is not None
    seen = [one for one in evidence() if one is not None and one.is_registered]
    copies = np.linspace(0, 1, len(seen))
    found = after.relevance(copies, seen)
    assert found.tolist() == after.relevance(copies[::-1], seen).tolist()
    assert found[7:9].tolist() == after.relevance(copies[7:9], seen[7:9]).tolist()
    agreeing = [replace(one, agreement=share) for one, share in zip(seen, np.linspace(0.6, 1, len(seen)), strict=True)]
    less = [replace(one, agreement=0.6) for one in seen]
    assert (after.relevance(copies, agreeing) >= after.relevance(copies, less)).all()
    known = feature_rows(copies, seen)[:, [*FEATURES].index("inliers")]
    plain = replace(after, looked={"inliers": 2.0})
    np.testing.assert_allclose(log_odds(plain.relevance(copies, seen)), 2 * known)


@pytest.mark.parametrize(("wrong", "value"), [("bias", float("inf")), ("colour", 1.0), ("copy", 0.5)])
def test_weights_of_what_no_look_sees_or_that_would_turn_the_order_of_scores_around_are_refused(wrong, value):
    looked, apart = {"bias": 0.0, "agreement_60": -1.0}, {"bias": -1.0, "logit": 0.0, "in_vain": 0.0}
    AfterLook(looked, apart)
    with pytest.raises(ValueError, match="'looked' needs finite weights of bias, odds, .*, got .*" + wrong):
        AfterLook(looked | {wrong: value}, apart)
    with pytest.raises(ValueError, match="'apart' needs the weights bias, logit, in_vain, all but the bias 0 or more"):
        AfterLook(looked, apart | {"in_vain": -0.1})
    for above in (0.0, 1.0):
        with pytest.raises(ValueError, match=f"'above' needs to be more than 0 and less than 1, got {above}"):
            AfterLook(looked, apart, above=above)
