"""Ways to lay the panels of a picture, every size another prime."""

import pytest
import torch

from diptych_model.panels import (
    join_panels,
    split_panels,
    to_sequence,
)


def x() -> torch.Tensor:
    """Two pictures of two panels of 3 x 5 positions and 7 channels, every number another."""
    return torch.arange(2 * 2 * 3 * 5 * 7, dtype=torch.float64).reshape(4, 3, 5, 7)


def test_beside_is_the_papers_t_and_apart_undoes_it() -> None:
    t = join_panels(x(), 2)
    assert t.shape == (2, 3, 10, 7)
    assert torch.equal(t[1], torch.cat([x()[2], x()[3]], 1))
    assert torch.equal(split_panels(t, 2), x())


@pytest.mark.parametrize("lay", [lambda x: to_sequence(x, 2), lambda x: join_panels(x, 2)])
def test_half_a_picture_is_refused(lay) -> None:
    with pytest.raises(ValueError, match="pictures of 2 panels are stacked 2 by 2, got 3 panels"):
        lay(x()[:3])
