import numpy as np
import pytest
import torch

from diptych_training.data.archives import Archives
from diptych_training.data.augment.views import OUTSIDE
from diptych_training.errors import DataError
from diptych_training.tasks import Source, task_from

ARCHIVES = ["clothing", "flowers", "goods", "grocery"]


@pytest.fixture(scope="module")
def renderings(opened):
    return opened("rendered", queries=7, archives=ARCHIVES)


def test_every_thing_is_found_among_things_and_lookalikes_that_are_rivals(renderings, drawn) -> None:
    part = drawn(renderings)
    assert part.match.shape == (7, 14)
    assert np.array_equal(part.match, np.eye(7, 14, dtype=bool))
    assert (part.match ^ part.rival).all()


def test_views_of_one_thing_are_linked_by_places(renderings, drawn) -> None:
    part = drawn(renderings)
    assert part.linked
    for views in (part.queries, part.references):
        on = (views.places < OUTSIDE).all(-1)
        assert 0 < on.float().mean() < 1
        assert views.places[on].abs().max() <= 1
        assert (views.places[~on] == OUTSIDE).all()


def test_photos_that_are_held_out_are_never_printed_in_training(renderings) -> None:
    splits = {renderings.photos.rows[i].split for i in renderings.printed}
    assert splits == {"train"}
    assert len(renderings.textures) == len(renderings.printed)
    held_out = renderings.photos.find_places(kinds=renderings.kinds, split="validation")
    assert len(held_out)
    kept_apart = {photo.numpy().tobytes() for photo in renderings._make_textures(held_out)}
    assert not kept_apart & {photo.numpy().tobytes() for photo in renderings.textures}


def test_the_validation_set_asks_for_things_of_held_out_photos_among_lookalikes(renderings) -> None:
    validation = renderings.validation()
    held_out = renderings.photos.find_places(kinds=renderings.kinds, split="validation")
    subjects = len(np.unique(renderings.subject[held_out]))
    assert validation.queries.shape == (min(150, subjects), 16, 16, 3)
    assert len(validation.gallery) == 2 * len(validation.queries)
    assert validation.headline == "recall@1"
    assert (validation.relevant.sum(1) == 1).all()
    assert validation.queries.dtype == torch.uint8


def test_archives_with_nothing_to_print_are_refused_with_a_way_out(archives) -> None:
    source = Source(Archives(22, archives), 16, 0, torch.device("cpu"))
    empty = source.archives.load_photos(("goods",))
    object.__setattr__(empty, "rows", tuple(row for row in empty.rows if row.split == "test"))
    source.archives._read["goods"] = empty
    with pytest.raises(DataError, match=r"needs photos of two subjects or more .* goods have none"):
        task_from({"kind": "rendered", "archives": ["goods"]}).open(source)
