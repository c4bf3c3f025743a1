import pytest

from diptych_model.mixers import Place
from diptych_studies.mixers.places import require_supported


def test_a_place_names_what_a_mixer_cannot_do_there() -> None:
    with pytest.raises(ValueError, match="the mixer 'x' takes bias = 'panel' or 'none', got 'concatenated'"):
        require_supported(Place(3, 5, 2, 2, bias="concatenated"), "x", bias=("panel", "none"))
