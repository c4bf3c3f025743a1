"""The aligned-pair network: the same in either order, in any grid, and learning from what differs."""

import pytest
import torch

from diptych_model.networks.aligned import STRIDE, WINDOWS, AlignedPairNetwork, _correlate_windows


@pytest.fixture(scope="module")
def network() -> AlignedPairNetwork:
    torch.manual_seed(0)
    return AlignedPairNetwork((4, 8, 12, 16)).eval()


def pairs(count: int, rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    found = torch.rand(count, 7, rows, columns, generator=torch.Generator().manual_seed(seed))
    found[:, 6] = 1
    return found


def test_the_order_of_the_pictures_changes_nothing(network: AlignedPairNetwork) -> None:
    pair = pairs(3, 4 * STRIDE, 5 * STRIDE)
    torch.testing.assert_close(network(pair), network(pair[:, [3, 4, 5, 0, 1, 2, 6]]))


def test_every_pair_of_a_batch_is_answered_by_itself_in_a_grid_of_any_size(network: AlignedPairNetwork) -> None:
    pair = pairs(3, 2 * STRIDE, 7 * STRIDE)
    odds = network(pair)
    assert odds.shape == (3,)
    torch.testing.assert_close(odds, torch.cat([network(one[None]) for one in pair]))
    assert network(pairs(1, STRIDE, STRIDE)).isfinite().all()


def test_places_that_are_not_shown_are_not_looked_at(network: AlignedPairNetwork) -> None:
    pair = pairs(1, 6 * STRIDE, 12 * STRIDE)
    pair[..., 6 * STRIDE :] = 0
    other = pair.clone()
    other[:, :6, :, 10 * STRIDE :] = 0.7  # far from what is shown
    torch.testing.assert_close(network(pair), network(other))
    pair[:, 6] = 0
    assert network(pair).isfinite().all()


def test_correlations_are_those_of_each_window() -> None:
    a, b = pairs(1, 20, 20)[:, :3], pairs(1, 20, 20, 1)[:, :3]
    found = _correlate_windows(a, b)
    assert found.shape == (1, 12 * len(WINDOWS), 5, 5)
    # The middle of five cells of four pixels, in the window of all: one number for each colour.
    for channel in range(3):
        x, y = a[0, channel].flatten(), b[0, channel].flatten()
        expected = torch.corrcoef(torch.stack([x, y]))[0, 1]
        assert found[0, 24 + channel, 2, 2].item() == pytest.approx(expected.item(), abs=2e-3)
    same = _correlate_windows(a, 0.2 + 0.5 * a)  # another brightness and contrast
    assert same[0, :3].min() > 0.98
