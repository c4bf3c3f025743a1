"""Kinds of pictures: the duplicates that are proposed, counted."""

from pathlib import Path

import numpy as np

from diptych_studies.kinds.duplicates import count_proposals, duplicates_text
from diptych_studies.kinds.planted import Planted

NAMES = ["originals/0.jpg", "originals/1.jpg", "originals/2.jpg", "easy/0.jpg", "easy/1.jpg", "hard/0.jpg"]
ORIGINAL = np.array([0, 0, 2, 2, 2, 2])  # the first two are one photo, and all copies are of the third


def made() -> Planted:
    return Planted("made", Path("made"), NAMES, ORIGINAL, ORIGINAL, np.full(6, -1))


def test_without_copies_what_is_one_photo_is_right_and_the_rest_is_wrong():
    found = count_proposals(made(), [["originals/0.jpg", "originals/1.jpg", "originals/2.jpg"]])
    assert found == {"planted": False, "proposed": 2, "right": 1, "wrong": 1, "recall": {}}
    assert count_proposals(made(), [])["proposed"] == 0


def test_a_copy_is_found_in_the_group_of_its_original_whichever_is_kept():
    groups = [["easy/0.jpg", "originals/2.jpg"], ["originals/1.jpg", "easy/1.jpg"]]
    found = count_proposals(made(), groups, planted_too=True)
    assert (found["proposed"], found["right"], found["wrong"]) == (2, 1, 1)
    assert found["recall"] == {"easy": 0.5, "hard": 0.0}


def test_the_table_has_a_row_for_each_set():
    row = {
        "kind": "flowers",
        "pictures": 300,
        "threshold": 0.9,
        "seconds": 20.4,
        "closer_looks": 321,
        "look_share": 0.78,
    }
    sets = [row | count_proposals(made(), []), row | count_proposals(made(), [], planted_too=True)]
    shown = duplicates_text({"model": "photo", "revision": "r", "sets": sets})
    assert shown.count("flowers") == 2
    assert "0%" in shown
    assert shown.splitlines()[-2].split()[-3:] == ["20", "321", "78%"]
    assert shown.endswith("model photo r")
