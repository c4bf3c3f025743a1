"""Multiscale self attentive convolutions and the pair network, in torch.

Our letters and the paper's (Barkan, *Multiscale Self Attentive Convolutions for Vision and Language Modeling*):

| paper | here | meaning |
|---|---|---|
| x in R^{N x M x d} | `x` (B, N, M, d) | a picture of N rows, M columns, d channels; a sentence has N = 1 (section 5) |
| x * h, x * H (Def. 1, 2) | `convolve` | convolution, centred at the ceiling [n/2] |
| WX (Lemma 1) | `convolve` with a 1x1 filter | a matrix product is a 1x1 convolution |
| H_Q, H_K, H_V; q, k, v (Eq. 1) | `SAC.H_Q`, `.H_K`, `.H_V`; `SAC.project` | n x m filters of queries, keys, values |
| n, m, d_a, d_o, C | `Scale.n`, `.m`, `.d_a`, `.d_o`, `.heads` | filter size, key width, value width, heads |
| alpha, a (Eq. 2, 3) | in `relative_attention` | scores, coefficients: a softmax over the key positions |
| b (Eq. 3) | `RelativeBias.table` | relative positional bias, by distance in rows and columns |
| y (Eq. 4) | result of `relative_attention` | attended values |
| y*, H_Y (2.1) | in `SAC.reduce`; `SAC.H_Y` | the heads side by side; joined |
| H_R, y', y'', H_Y (3) | `SAC.H_R`; in `SAC.reduce`; `SAC.H_Y_R` | the parallel convolution; joined with attention |
| gamma^l, psi, H_phi, phi (4) | in `MSAC.forward`; `MSAC.H_phi` | outputs of the L scales, side by side, reduced |
| a cascade of filter sets (6) | `Scale.cascade`, `SAC.before` | 5x5 as two 3x3 |
| t = [x, z] (6.1) | `panels` | the diptych: panels stacked in the batch axis, or columns side by side |
| x_seg, z_seg (6.1) | `Segments.x_seg`, `.z_seg` | segment augmentation, added or concatenated |

The paper's H_V of shape d_o x 1 x 1 x 2 d_o in section 4 is a misprint for the H_Y of section 3. `reference`
has them all as plain loops.
"""

from diptych_model import reference
from diptych_model.attention import RelativeBias, relative_attention
from diptych_model.checkpoint import load_checkpoint, save_checkpoint
from diptych_model.config import PairConfig
from diptych_model.convolution import convolve
from diptych_model.encoders import ENCODERS, EfficientNetLite, Encoder, Residual
from diptych_model.mixers import MIXERS, Mixer, Msac, Place
from diptych_model.network import PairNetwork
from diptych_model.operators import MSAC, SAC, Scale

__all__ = [
    "ENCODERS",
    "MIXERS",
    "MSAC",
    "SAC",
    "EfficientNetLite",
    "Encoder",
    "Mixer",
    "Msac",
    "PairConfig",
    "PairNetwork",
    "Place",
    "RelativeBias",
    "Residual",
    "Scale",
    "convolve",
    "load_checkpoint",
    "reference",
    "relative_attention",
    "save_checkpoint",
]
