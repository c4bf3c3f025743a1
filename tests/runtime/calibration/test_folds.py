import numpy as np
import pytest

from diptych_runtime.calibration.folds import group_by_picture


def test_pairs_that_share_a_picture_stay_together_the_largest_group_first():
    sides = np.array([[7, 8], [0, 1], [2, 3], [1, 4], [8, 9], [4, 5], [10, 11], [12, 13]])
    assert group_by_picture(sides).tolist() == [1, 0, 2, 0, 1, 0, 3, 4]


@pytest.mark.parametrize("sides", [np.empty((0, 2), np.int64), np.array([[0, 1], [1, 2], [2, 3], [5, 6]])])
def test_where_most_pairs_hang_together_each_is_one_by_itself(sides):
    assert group_by_picture(sides).tolist() == [*range(len(sides))]
