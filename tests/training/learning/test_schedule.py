import pytest

from diptych_training.learning.schedule import warm_cosine


def test_the_rate_rises_while_it_warms_up_and_then_falls_along_a_cosine_to_nothing():
    rates = [warm_cosine(0.1, step, 100, 10) for step in range(101)]
    assert rates[:10] == sorted(rates[:10])
    assert rates[9:] == sorted(rates[9:], reverse=True)
    assert rates[0] == pytest.approx(0.01)
    assert rates[50] == pytest.approx(0.05)
    assert rates[100] == pytest.approx(0.0)
