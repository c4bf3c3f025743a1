"""The operators that can stand in MSAC's place; importing them makes their kinds known."""

from diptych_model.mixers import MIXERS
from diptych_studies.mixers.attention_augmented import AttentionAugmented
from diptych_studies.mixers.convolution import PlainConvolution
from diptych_studies.mixers.cross_covariance import CrossCovariance
from diptych_studies.mixers.non_local import NonLocalAttention
from diptych_studies.mixers.squeeze_excitation import SqueezeExcitationConvolution
from diptych_studies.mixers.stand_alone import StandAlone
from diptych_studies.mixers.transformer import Decoder, Transformer

MIXERS.update(
    {
        "convolution": PlainConvolution,
        "transformer": Transformer,
        "decoder": Decoder,
        "attention_augmented": AttentionAugmented,
        "cross_covariance": CrossCovariance,
        "non_local": NonLocalAttention,
        "squeeze_excitation": SqueezeExcitationConvolution,
        "stand_alone": StandAlone,
    }
)

__all__ = [
    "MIXERS",
    "AttentionAugmented",
    "CrossCovariance",
    "Decoder",
    "NonLocalAttention",
    "PlainConvolution",
    "SqueezeExcitationConvolution",
    "StandAlone",
    "Transformer",
]
