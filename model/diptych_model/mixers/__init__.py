"""The operators that can stand in MSAC's place, under one interface: settings (`Mixer`) that build a module for a
`Place`.
"""

from collections.abc import Mapping
from typing import Any

from diptych_model.mixers.attention_augmented import AttentionAugmented
from diptych_model.mixers.convolution import PlainConvolution
from diptych_model.mixers.cross_covariance import CrossCovariance
from diptych_model.mixers.mixer import Attentive, Mixer, Place
from diptych_model.mixers.msac import Msac
from diptych_model.mixers.non_local import NonLocalAttention
from diptych_model.mixers.squeeze_excitation import SqueezeExcitationConvolution
from diptych_model.mixers.stand_alone import StandAlone
from diptych_model.mixers.transformer import Decoder, Transformer
from diptych_model.operators import Scale
from diptych_model.settings import chosen_kind, known_settings

MIXERS: dict[str, type[Mixer]] = {
    "msac": Msac,
    "convolution": PlainConvolution,
    "transformer": Transformer,
    "decoder": Decoder,
    "attention_augmented": AttentionAugmented,
    "cross_covariance": CrossCovariance,
    "non_local": NonLocalAttention,
    "squeeze_excitation": SqueezeExcitationConvolution,
    "stand_alone": StandAlone,
}

__all__ = [
    "MIXERS",
    "AttentionAugmented",
    "Attentive",
    "CrossCovariance",
    "Decoder",
    "Mixer",
    "Msac",
    "NonLocalAttention",
    "Place",
    "PlainConvolution",
    "SqueezeExcitationConvolution",
    "StandAlone",
    "Transformer",
    "mixer_from",
]


def mixer_from(values: Mapping[str, Any]) -> Mixer:
    """Read `{"kind": ..., settings}`, as in a recipe or a checkpoint; unknown kinds and settings are refused."""
    cls, known = chosen_kind(MIXERS, values, "mixer", "msac")
    if "scales" in known:
        known["scales"] = tuple(Scale(**known_settings(Scale, scale, "a scale")) for scale in known["scales"])
    return cls(**known)
