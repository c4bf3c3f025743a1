import numpy as np
import torch

from diptych_training.data.augment import Views, make_identity_places
from diptych_training.learning.batch import join_parts
from diptych_training.tasks import Part


def part(queries: int, references: int, *, linked: bool) -> Part:
    asked, shown = (
        Views(torch.full((count, 3, 2, 2), 0.5), make_identity_places(count, 2)) for count in (queries, references)
    )
    match = np.arange(queries)[:, None] == np.arange(references)[None, :]
    return Part(asked, shown, match, ~match, linked=linked)


def test_tasks_lie_beside_each_other_and_do_not_mix() -> None:
    step = join_parts([part(2, 3, linked=True), part(3, 5, linked=False)])
    assert step.match.shape == (5, 8)
    assert len(step.pictures) == len(step.places) == 5 + 8
    assert step.linked.tolist() == [True, True, False, False, False]
    known = step.match | step.rival
    assert known[:2, :3].all()
    assert known[2:, 3:].all()
    assert known.sum() == 2 * 3 + 3 * 5
