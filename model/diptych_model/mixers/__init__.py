"""The operators of the trunk under one interface: settings (`Mixer`) that build a module for a `Place`.

The others, which only studies train, are in `diptych_studies.mixers` and join `MIXERS` from there.
"""

from collections.abc import Mapping
from typing import Any

from diptych_model.mixers.mixer import Attentive, Mixer, Place
from diptych_model.mixers.msac import Msac
from diptych_model.operators import Scale
from diptych_model.settings import chosen_kind, known_settings

MIXERS: dict[str, type[Mixer]] = {"msac": Msac}

__all__ = ["MIXERS", "Attentive", "Mixer", "Msac", "Place", "mixer_from"]


def mixer_from(values: Mapping[str, Any]) -> Mixer:
    """Read `{"kind": ..., settings}`, as in a recipe or a checkpoint; unknown kinds and settings are refused."""
    cls, known = chosen_kind(MIXERS, values, "mixer", "msac")
    if "scales" in known:
        known["scales"] = tuple(Scale(**known_settings(Scale, scale, "a scale")) for scale in known["scales"])
    return cls(**known)
