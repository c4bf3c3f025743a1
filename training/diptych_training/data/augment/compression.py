"""JPEG compression of a batch of pictures."""

import io

import numpy as np
import torch
from PIL import Image
from torch import Tensor


def compress(views: Tensor, qualities: Tensor) -> Tensor:
    """Save each picture as JPEG of its quality and read it again: (B, 3, S, S) in [0, 1], int64 (B,)."""
    read = compressed_on_accelerator if views.is_cuda else compressed_on_cpu
    return read(views.clamp(0, 1), qualities)


def compressed_on_cpu(views: Tensor, qualities: Tensor) -> Tensor:
    """Pillow's JPEG, a picture at a time."""
    read = []
    for picture, quality in zip((views * 255).round().byte().permute(0, 2, 3, 1).numpy(), qualities, strict=True):
        file = io.BytesIO()
        Image.fromarray(picture).save(file, "JPEG", quality=int(quality))
        read.append(torch.from_numpy(np.asarray(Image.open(file)).copy()))
    return torch.stack(read).permute(0, 3, 1, 2).float() / 255


def compressed_on_accelerator(views: Tensor, qualities: Tensor) -> Tensor:
    """JPEG on an accelerator: quantised in place, without a file and without a trip to the host."""
    from kornia.enhance import jpeg_codec_differentiable

    return jpeg_codec_differentiable(views, qualities.float())
