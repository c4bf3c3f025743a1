"""Photos by class: names, numbers, and what is held out."""

from pathlib import Path

import numpy as np
import pytest

from diptych_training.data.classes import labelled_archive, numbered
from diptych_training.errors import DataError


def test_flowers_have_their_kinds_and_a_tenth_or_so_is_held_out(archives: Path) -> None:
    photos = labelled_archive(archives, "flowers", 16)
    assert photos.pixels.shape == (40, 16, 16, 3)
    assert photos.names == ("daisy", "rose")
    assert photos.labels.tolist() == [0, 1] * 20
    assert 0 < photos.held_out.sum() < 12
    assert len(photos.training[0]) + len(photos.validation[1]) == 40


def test_groceries_are_shop_photos_held_out_as_the_data_set_has_it(archives: Path) -> None:
    photos = labelled_archive(archives, "grocery", 16)
    assert len(photos.names) == 12
    assert len(photos.labels) == 25
    assert photos.held_out.tolist() == [False] * 24 + [True]


def test_classes_are_numbered_in_the_order_of_their_names() -> None:
    names, labels = numbered(["b", "a", "b"])
    assert names == ("a", "b")
    assert labels.dtype == np.int64
    assert labels.tolist() == [1, 0, 1]


def test_an_archive_without_classes_is_refused(archives: Path) -> None:
    with pytest.raises(DataError, match="of flowers and grocery, not of 'clothing'"):
        labelled_archive(archives, "clothing", 16)
