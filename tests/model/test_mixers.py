"""The interface of the mixers: settings from a file, places they refuse, and MSAC behind it."""

import pytest
import torch

from diptych_model.mixers import Msac, Place, mixer_from
from diptych_model.operators import Scale


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "msaac"}, "there is no mixer 'msaac'; did you mean 'msac'"),
        ({"kind": 7}, "there is no mixer 7: msac"),
        ({"kind": "msac", "scale": []}, "the mixer 'msac' has no setting 'scale'; did you mean 'scales'"),
        ({"kind": "msac", "scales": []}, "at least one scale"),
        ({"kind": "msac", "scales": [{"heds": 2}]}, "a scale has no setting 'heds'; did you mean 'heads'"),
    ],
)
def test_a_mixer_that_cannot_be_is_refused_with_a_suggestion(values: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mixer_from(values)


def test_crossing_sets_every_other_sac_to_the_other_panel_and_its_values_to_what_it_takes_away() -> None:
    scales = (Scale(1, 1, heads=1, d_a=4, d_o=4),) * 3 + (Scale(3, 3, heads=1, d_a=4, d_o=4),)
    place = Place(8, 8, 3, 5, panels=2, segments=True)
    plain, crossed = Msac(scales).build(place), Msac(scales, crossing=3.0).build(place)
    for number, (before, after) in enumerate(zip(plain.sacs, crossed.sacs, strict=True)):
        assert before.bias is not None
        assert after.bias is not None
        same, other = after.bias.table - before.bias.table
        assert (same == (-3 if number % 2 == 0 else 0)).all()
        assert (other == (0 if number % 2 == 0 else -3)).all()
    # Two plain SACs of four values look across and together take away half of the eight channels they see.
    seen = sum(
        crossed.H_phi[:, 4 * number : 4 * number + 4, 0, 0] @ crossed.sacs[number].H_V[:, :, 0, 0] for number in (0, 2)
    )
    torch.testing.assert_close(seen, -0.5 * torch.eye(8), atol=1e-6, rtol=0)
