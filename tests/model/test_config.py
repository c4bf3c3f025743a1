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


MERGED = {"correspondence": True, "merge": 2, "questions": ("copy", "thing"), "parts": 2}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"segment": "both"}, "segment must be one of relative, added, concatenated, none, got 'both'"),
        ({"seam": "ajar"}, "seam must be one of closed, tokens, pixels, got 'ajar'"),
        ({"bias": "concatenated"}, "set bias = 'panel'"),
        ({"pixels": 100}, "multiple of the encoder's reduction 16, got 100"),
        ({"width": 0}, "must be positive"),
        ({"questions": ("thing", "copy")}, "questions must be one of"),
        (MERGED | {"merge": 3}, "merge must divide the grid of 8 tokens, got 3"),
        (MERGED | {"correspondence": False}, "merge is for correspondence = true"),
        (MERGED | {"embedding": 9}, "its length is a multiple of them; got 2 parts and a length of 9"),
        (MERGED | {"parts": 3}, "one part for all questions or one for each of the 2"),
        ({"bank": 5}, "bank is for correspondence = true"),
        ({"seam": "pixels", "relation": "late"}, "the relation 'late' needs tokens of one picture"),
        ({"segment": "added", "mixer": Msac(crossing=4.0)}, "crossing 4: set crossing = 0 in the mixer"),
        (
            {"seam": "pixels", "segment": "added", "encoder": EfficientNetLite()},
            r"a segment that is added learns through the encoder's first stages: set network\.encoder\.still = 0",
        ),
    ],
)
def test_a_configuration_that_cannot_be_is_refused_with_the_way_out(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PairConfig(**changes)
