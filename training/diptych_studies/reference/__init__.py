"""The other papers' definitions as plain loops in float64, as `diptych_model.reference` has the MSAC paper's."""

from diptych_model.reference import convolution
from diptych_studies.reference.convolutional import (
    average_pooling,
    non_local,
    non_local_block,
    relative_self_attention,
    squeeze,
    squeeze_excitation,
)
from diptych_studies.reference.cross_covariance import (
    class_attention,
    cross_covariance_attention,
    cross_covariance_layer,
    local_patch_interaction,
)
from diptych_studies.reference.stand_alone import attention_stem, stand_alone
from diptych_studies.reference.transformer import decoder_layer, encoder_layer, facing_decoder, multi_head, sinusoids

__all__ = [
    "attention_stem",
    "average_pooling",
    "class_attention",
    "convolution",
    "cross_covariance_attention",
    "cross_covariance_layer",
    "decoder_layer",
    "encoder_layer",
    "facing_decoder",
    "local_patch_interaction",
    "multi_head",
    "non_local",
    "non_local_block",
    "relative_self_attention",
    "sinusoids",
    "squeeze",
    "squeeze_excitation",
    "stand_alone",
]
