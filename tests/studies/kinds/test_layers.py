"""The layers over the evidence of pairs that can be laid over each other: what they learn, and how it is stated."""

import numpy as np
import pytest

from diptych_runtime.calibration.evidence import FEATURES, Evidence, feature_rows
from diptych_studies.kinds.layers import IN_VAIN, Layers, fit_layers, mean_of

NAMES = list(FEATURES)
VAIN = {"bias": -1.0, "odds": 0.5, "unmatched": -2.0}


def examples(seed: int, count: int = 600) -> tuple[list[Evidence], np.ndarray]:
    """Copies that are worn all over, or covered at one spot of another colour, and look-alikes with a spot of the same
    colour: no line through these features tells them apart.
    """
    rng = np.random.default_rng(seed)
    sort = rng.integers(0, 3, count)
    seen = [
        Evidence(
            300, 100, 60, 0.4, agreement=0.9, aligned_detail=float(rng.uniform(0.5, 1)),
            deviations=float(rng.uniform(0, 6) if kind == 0 else rng.uniform(18, 30)),
            spot_off=float(rng.uniform(30, 60) if kind == 1 else rng.uniform(0, 10)),
        )
        for kind in sort.tolist()
    ]  # fmt: skip
    return seen, sort < 2


def measured(seen: list[Evidence]) -> np.ndarray:
    return feature_rows(np.full(len(seen), 0.9), seen)


def even(labels: np.ndarray) -> np.ndarray:
    return np.where(labels, 0.5 / labels.sum(), 0.5 / (~labels).sum())


@pytest.fixture(scope="module")
def learnt() -> list[Layers]:
    seen, labels = examples(0)
    return [fit_layers(measured(seen), labels, even(labels), seed=seed) for seed in range(2)]


def test_a_spot_speaks_against_copies_unless_it_was_laid_over_them(learnt: list[Layers]) -> None:
    seen, labels = examples(1)
    odds = mean_of(learnt)(measured(seen))
    assert ((odds > 0) == labels).mean() > 0.97


def test_the_same_seed_learns_the_same_and_the_mean_is_that_of_the_odds(learnt: list[Layers]) -> None:
    seen, labels = examples(0)
    x = measured(seen)
    assert (fit_layers(x, labels, even(labels), seed=1).out == learnt[1].out).all()
    assert mean_of(learnt)(x) == pytest.approx((learnt[0](x) + learnt[1](x)) / 2)


def test_a_verification_says_of_either_sort_of_pairs_what_was_fitted_to_it(learnt: list[Layers]) -> None:
    seen, _ = examples(2, 50)
    fitted = learnt[0].verification(0.5, VAIN, {"bias": 0.0, "odds": 1.0}, 0.7, -0.3)
    x = measured(seen)
    assert fitted._fitted_odds(np.full(50, 0.9), seen) == pytest.approx(0.7 * learnt[0](x) - 0.3, abs=1e-2)
    vain = [Evidence(count) for count in (10, 600)]
    x = measured(vain)[:, [NAMES.index(name) for name in IN_VAIN]]
    assert fitted._fitted_odds(np.full(2, 0.9), vain) == pytest.approx(x @ np.array([VAIN[name] for name in IN_VAIN]))


def test_a_feature_of_which_there_was_nothing_to_learn_says_nothing(learnt: list[Layers]) -> None:
    seen, _ = examples(3, 20)
    known, other = measured(seen), measured(seen)
    other[:, NAMES.index("recoloured")] = 1.0  # the same in all that was learnt from
    assert learnt[0](other) == pytest.approx(learnt[0](known), abs=1e-6)


def test_from_no_pairs_nothing_is_learnt() -> None:
    nothing = fit_layers(np.empty((0, len(NAMES))), np.empty(0, bool), np.empty(0))
    assert nothing(measured(examples(4, 5)[0])).tolist() == [0.0] * 5
