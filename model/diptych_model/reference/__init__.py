"""The definitions of the MSAC paper as plain loops in float64: the truth that the fast paths are held against.

Nothing here is optimised and nothing is shared with the code it checks. Pictures are x[i, j] of d channels, without a
batch; indices count from one as in the papers and are moved by one where a tensor is read. Gradients flow, so these
check them too.
"""

from diptych_model.reference.sac import attention, attention_over_panels, convolution, msac, sac

__all__ = ["attention", "attention_over_panels", "convolution", "msac", "sac"]
