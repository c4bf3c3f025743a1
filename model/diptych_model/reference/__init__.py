"""The definitions of the papers as plain loops in float64: the truth that the fast paths are held against.

Nothing here is optimised and nothing is shared with the code it checks. Pictures are x[i, j] of d channels, without a
batch; indices count from one as in the papers and are moved by one where a tensor is read. Gradients flow, so these
check them too.
"""

from diptych_model.reference.convolutional import (
    average_pooling,
    non_local,
    non_local_block,
    relative_self_attention,
    squeeze,
    squeeze_excitation,
)
from diptych_model.reference.cross_covariance import (
    class_attention,
    cross_covariance_attention,
    cross_covariance_layer,
    local_patch_interaction,
)
from diptych_model.reference.sac import attention, attention_over_panels, convolution, msac, sac
from diptych_model.reference.stand_alone import attention_stem, stand_alone
from diptych_model.reference.transformer import decoder_layer, encoder_layer, facing_decoder, multi_head, sinusoids

__all__ = [
    "attention",
    "attention_over_panels",
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
    "msac",
    "multi_head",
    "non_local",
    "non_local_block",
    "relative_self_attention",
    "sac",
    "sinusoids",
    "squeeze",
    "squeeze_excitation",
    "stand_alone",
]
