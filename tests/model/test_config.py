"""The configuration of a pair network: what the literal form keeps of a picture, and what it cannot be."""

import pytest

from diptych_model.config import PairConfig
from diptych_model.encoders import EfficientNetLite
from diptych_model.mixers import Msac


def test_what_the_literal_form_has_in_the_tokens_place_are_pixels() -> None:
    closed, literal = PairConfig(pixels=64), PairConfig(pixels=64, seam="pixels")
    assert closed.token_shape == (4, 4, 96)
    assert literal.token_shape == (64, 64, 3)
    assert literal.grid == closed.grid == 4


@pytest.mark.parametrize("segment", ["relative", "added", "concatenated", "none"])
def test_segments_are_of_the_pixels_where_t_is_made_of_pixels_and_they_are_added_or_concatenated(segment: str) -> None:
    literal = PairConfig(seam="pixels", segment=segment)
    assert literal.segments_pixels == (segment in ("added", "concatenated"))
    assert not PairConfig(segment=segment).segments_pixels
    assert PairConfig.from_dict(literal.to_dict()) == literal


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"relation": "late"}, "the relation 'late' needs tokens of one picture"),
        ({"segment": "added", "mixer": Msac(crossing=4.0)}, "crossing 4: set crossing = 0 in the mixer"),
        (
            {"segment": "added", "encoder": EfficientNetLite()},
            r"a segment that is added learns through the encoder's first stages: set network\.encoder\.still = 0",
        ),
    ],
)
def test_what_the_literal_form_cannot_be_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PairConfig(seam="pixels", **changes)
