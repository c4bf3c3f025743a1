"""The last maps of a pair part: the same logits as the network's, and fits that move them as far as labels say."""

import numpy as np
import pytest
import torch
from exported import make_literal_network, make_tiny_network

from diptych_model import PairNetwork
from diptych_runtime.calibration.recalibration import log_loss
from diptych_training.errors import DataError
from diptych_training.fine_tuning.adapter import Adapter, Fitting, Labelled, Link, fit_column

AS_IT_IS = Link(1.0, 0.0)
TWO = {"questions": ("copy", "thing"), "parts": 2}


def network_of(changes: dict) -> PairNetwork:
    return make_tiny_network(**changes)


@pytest.fixture(params=[{}, TWO, TWO | {"correspondence": True, "channels": 12}], ids=["one", "two", "correspondence"])
def adapter(request) -> Adapter:
    return Adapter(network_of(request.param))


def tokens_of(adapter: Adapter, count: int, seed: int) -> np.ndarray:
    shape = adapter.network.config.token_shape
    return np.random.default_rng(seed).normal(size=(count, *shape)).astype(np.float16)


def relate(adapter: Adapter, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        found = adapter.network.relate(*(torch.from_numpy(t.astype(np.float32)) for t in (a, b)))
    return found.numpy().reshape(len(a), -1)


def test_features_and_weights_give_the_logits_of_the_network(adapter: Adapter) -> None:
    a, b = (tokens_of(adapter, 5, seed) for seed in (1, 2))
    logits = adapter.logits(adapter.compute_features(a, b), adapter.weights())
    np.testing.assert_allclose(logits, relate(adapter, a, b), atol=1e-5)


def test_weights_that_are_put_into_the_network_are_those_it_computes_with(adapter: Adapter) -> None:
    a, b = (tokens_of(adapter, 5, seed) for seed in (3, 4))
    features, weights = adapter.compute_features(a, b), adapter.weights()
    changed = weights + np.random.default_rng(5).normal(0, 0.1, weights.shape)
    assert np.abs(adapter.logits(features, changed) - relate(adapter, a, b)).max() > 0.05
    adapter.set_weights(changed)
    np.testing.assert_allclose(relate(adapter, a, b), adapter.logits(features, changed), atol=1e-5)
    np.testing.assert_allclose(adapter.weights(), changed, atol=1e-6)


def test_a_network_that_relates_pixels_is_refused() -> None:
    with pytest.raises(DataError, match="the seam 'pixels' and the relation 'trunk'"):
        Adapter(make_literal_network())


def labelled(count: int, noise: float, seed: int = 0) -> tuple[Labelled, np.ndarray]:
    """Pairs that are the same by the second feature, of which the weights to begin with know nothing; the third is a
    one.
    """
    rng = np.random.default_rng(seed)
    features = np.concatenate([rng.normal(size=(count, 2)), np.ones((count, 1))], 1)
    same = features[:, 1] + noise * rng.normal(size=count) > 0
    return Labelled("match", features, same, np.arange(count)), np.array([0.1, 0.0, 0.0])


def test_a_fit_learns_what_the_labels_say_and_less_the_firmer_it_is_held() -> None:
    given, begin = labelled(200, 0.3)
    fits = [
        fit_column(given.features, given.same, begin, AS_IT_IS, strength, given.features)
        for strength in (0.1, 10, 1000)
    ]
    losses = [log_loss(AS_IT_IS.relevance(given.features @ weights), given.same).mean() for weights in fits]
    moved = [np.abs(weights - begin).max() for weights in fits]
    assert losses[0] < 0.3 < losses[1] < losses[2] < log_loss(np.full(200, 0.5), given.same).mean()
    assert moved[0] > moved[1] > moved[2]


def fitting(begin: np.ndarray) -> Fitting:
    adapter = Adapter(network_of({}))
    return Fitting(adapter, begin[:, None], AS_IT_IS, np.random.default_rng(9).normal(size=(50, 3)), folds=5)


def test_cross_validation_takes_a_fit_where_there_is_something_to_learn_and_none_where_labels_are_chance() -> None:
    given, begin = labelled(200, 0.3)
    made = fitting(begin)
    assert made.choose_strength(given, (30.0, 3.0)) == 3.0
    ticks: list[None] = []
    held = made.cross_validate(given, (30.0, 3.0), lambda: ticks.append(None))[:, 0]
    assert len(ticks) == 5
    assert log_loss(AS_IT_IS.relevance(held), given.same).mean() < 0.4
    chance = Labelled("match", given.features, np.random.default_rng(3).random(200) < 0.5, given.groups)
    assert made.choose_strength(chance, (30.0, 3.0)) is None
    assert np.array_equal(made.cross_validate(chance, (30.0, 3.0), lambda: None), made.logits(chance, made.weights))


def test_a_pair_is_judged_by_a_fit_that_saw_none_of_its_group() -> None:
    given, begin = labelled(61, 0.3)
    made = fitting(begin)
    twins = Labelled("match", np.tile(given.features, (2, 1)), np.tile(given.same, 2), np.tile(np.arange(61), 2))
    held = made.held_out(twins, 1.0)
    np.testing.assert_allclose(held[:61], held[61:], atol=1e-9)
    alone = made.held_out(Labelled("match", twins.features, twins.same, np.arange(122)), 1.0)
    assert np.abs(alone - held).max() > 1e-3
