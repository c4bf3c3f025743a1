"""What holds for every task."""

import numpy as np
import pytest
import torch

from diptych_training.tasks import TASKS, task_from

SETTINGS = {
    "copy": {"queries": 6, "archives": ["clothing", "goods"]},
    "catalogue": {"queries": 5},
    "instance": {"queries": 3},
    "character": {"groups": 2, "size": 5},
    "rendered": {"queries": 3, "archives": ["flowers", "goods"]},
}


@pytest.fixture(scope="module", params=sorted(SETTINGS))
def task(request: pytest.FixtureRequest, opened):
    return opened(request.param, **SETTINGS[request.param])


def test_every_query_has_a_match_and_a_rival_and_no_pair_is_both(task, drawn) -> None:
    part = drawn(task)
    assert part.match.shape == part.rival.shape == (len(part.queries.pictures), len(part.references.pictures))
    assert part.match.any(1).all()
    assert part.rival.any(1).all()
    assert not (part.match & part.rival).any()


def test_views_are_panels_in_range_with_a_place_for_every_pixel(task, drawn) -> None:
    part = drawn(task)
    for views in (part.queries, part.references):
        assert views.pictures.shape[1:] == (3, 16, 16)
        assert views.places.shape == (len(views.pictures), 16, 16, 2)
        assert views.pictures.min() >= 0
        assert views.pictures.max() <= 1


def test_the_same_draws_give_the_same_part_and_others_another(task, drawn) -> None:
    assert torch.equal(drawn(task, 3).queries.pictures, drawn(task, 3).queries.pictures)
    assert not torch.equal(drawn(task, 3).queries.pictures, drawn(task, 4).queries.pictures)
    assert len(drawn(task, fill=2).match) > len(drawn(task).match)


def test_an_exam_is_always_the_same_and_its_queries_can_be_found(task) -> None:
    validation, again = task.validation(), task.validation()
    assert torch.equal(validation.queries, again.queries)
    assert torch.equal(validation.gallery, again.gallery)
    assert len(validation.queries)
    assert validation.relevant.shape == (len(validation.queries), len(validation.gallery))
    assert validation.relevant.any(1).all()
    if validation.itself is not None:
        assert not validation.relevant[np.arange(len(validation.queries)), validation.itself].any()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "copi"}, "there is no task 'copi'; did you mean 'copy'"),
        ({}, "there is no task '': kind is one of copy, catalogue"),
        ({"kind": "copy", "querys": 3}, "the task 'copy' has no setting 'querys'; did you mean 'queries'"),
    ],
)
def test_what_is_not_known_of_a_task_is_refused_with_a_suggestion(values: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        task_from(values)


def test_every_kind_is_registered_under_its_own_name() -> None:
    needed = {"classes": {"pictures": "x"}, "pairs": {"table": "x"}}
    assert set(TASKS) == set(SETTINGS) | set(needed)
    for kind, cls in TASKS.items():
        assert cls(**needed.get(kind, {})).kind == kind  # pyright: ignore[reportArgumentType]
