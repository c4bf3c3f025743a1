"""The network of losses: one row of log-odds for each pair, whatever else is in the batch, and again from its file."""

from pathlib import Path

import torch

from diptych_model.networks.losses import OUTPUTS, LossesNetwork, load_losses, save_losses


def test_each_pair_has_its_log_odds_whatever_else_is_in_the_batch_and_in_either_order(tmp_path: Path) -> None:
    torch.manual_seed(1)
    network = LossesNetwork().eval()
    views = torch.randint(256, (3, 2, 2, 64, 96, 8), dtype=torch.uint8)
    views[..., 6:] = 255
    odds = network(views)
    assert odds.shape == (3, 2, OUTPUTS)
    assert torch.allclose(odds[1:2], network(views[1:2]), atol=1e-5)
    assert not torch.allclose(odds[0], odds[1])
    assert torch.allclose(network(views.flip(1)), odds.flip(1), atol=1e-5)
    save_losses(network, tmp_path / "kept")
    assert torch.equal(load_losses(tmp_path / "kept")(views), odds)
