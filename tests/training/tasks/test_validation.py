import numpy as np
import pytest
import torch

from diptych_training.tasks.validation import ValidationSet, drawn_at_random, validate


@pytest.fixture(scope="module")
def pictures() -> torch.Tensor:
    return torch.randint(0, 256, (9, 32, 32, 3), generator=torch.Generator().manual_seed(0)).byte()


def test_a_picture_finds_itself_and_re_ranking_keeps_the_candidates(tiny_network, pictures: torch.Tensor) -> None:
    validation = ValidationSet(pictures[:4], pictures, np.eye(4, 9, dtype=bool), "recall@1")
    first, after = validate(tiny_network, validation, 32, candidates=5)
    assert first.summary()["recall@1"] == 1
    assert first.scores.shape == after.scores.shape == (4, 5)
    assert (first.relevant.sum(1) == after.relevant.sum(1)).all()


def test_the_query_itself_is_left_out_where_it_is_named(tiny_network, pictures: torch.Tensor) -> None:
    relevant = np.zeros((4, 9), bool)
    relevant[:, 8] = True
    validation = ValidationSet(pictures[:4], pictures, relevant, "recall@1", itself=np.arange(4))
    first, _ = validate(tiny_network, validation, 32, candidates=100)
    assert first.scores.shape == (4, 8)
    assert first.scores.max() < 1
    assert np.isfinite(first.scores).all()


def test_named_candidates_are_the_only_ones(tiny_network, pictures: torch.Tensor) -> None:
    relevant = np.eye(4, 9, dtype=bool)
    among = np.array([[5, 6, 7]] * 4)
    first, after = validate(tiny_network, ValidationSet(pictures[:4], pictures, relevant, "recall@1", among), 32)
    assert first.scores.shape == (4, 3)
    assert not after.relevant.any()
    assert (np.diff(first.scores) <= 0).all()


def test_candidates_drawn_at_random_are_others_than_the_query_and_always_the_same(pictures: torch.Tensor) -> None:
    validation = ValidationSet(pictures[:4], pictures, np.eye(4, 9, dtype=bool), "recall@1", itself=np.arange(4))
    drawn = drawn_at_random(validation, 200).among
    assert drawn is not None
    assert (drawn == drawn_at_random(validation, 200).among).all()
    for query, row in enumerate(drawn):
        assert set(row.tolist()) == set(range(9)) - {query}
    whole = drawn_at_random(ValidationSet(pictures[:4], pictures, validation.relevant, "recall@1"), 200).among
    assert whole is not None
    assert set(whole[0].tolist()) == set(range(9))
