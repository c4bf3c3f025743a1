from pathlib import Path

import pytest

from diptych.batch.stream import PairScorer
from diptych.batch.workers.encoder import Encoder


@pytest.fixture
def names(gallery):
    return sorted(str(path) for path in gallery.rglob("*.jpg"))


def test_memory_stays_bounded_and_forgotten_pictures_score_the_same(scorer, gallery, names):
    worker = PairScorer(Encoder(scorer, gallery))
    worker.capacity = 3
    sides = [a for a in names for _ in range(2)], names[:2] * len(names)
    once = worker.score_chunk(*sides)
    assert len(worker._kept) == 3
    assert list(worker.score_chunk(*sides).list_results()) == list(once.list_results())


def test_which_side_a_picture_is_on_makes_no_difference_to_the_score(scorer, names):
    worker = PairScorer(Encoder(scorer, Path("/")))
    sides = [a for a in names for _ in range(3)], names[:3] * len(names)
    assert worker.score_chunk(*sides).raw.tolist() == worker.score_chunk(*reversed(sides)).raw.tolist()


def test_a_picture_that_cannot_be_read_is_an_error_of_its_pair_under_the_name_of_its_column(scorer, names):
    worker = PairScorer(Encoder(scorer, Path("/")), ("left", "right"))
    scores = worker.score_chunk([names[0], "", names[1]], ["gone.jpg", "gone.jpg", names[0]])
    assert scores.errors == {
        0: "right: gone.jpg does not exist",
        1: "left: the path is empty; right: gone.jpg does not exist",
    }
    alone = worker.score_chunk([names[1]], [names[0]])
    assert scores.raw[2] == alone.raw[0]


def test_a_name_in_another_normal_form_is_that_of_the_file_that_is_there(scorer, gallery, names):
    Path(names[0]).rename(gallery / "Gro\u0308\u00dfe.jpg")
    worker = PairScorer(Encoder(scorer, gallery))
    assert worker.score_chunk(["Gr\u00f6\u00dfe.jpg"], [names[1]]).errors == {}
    assert worker.encoder.read_stamp("Gr\u00f6\u00dfe.jpg") is not None
