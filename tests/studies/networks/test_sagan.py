"""A small SAGAN: attention from nothing, filters of norm one, the hinge loss by its formula."""

import pytest
import torch
from drawing import draw

from diptych_studies.mixers.non_local import NonLocal
from diptych_studies.networks.sagan import (
    Discriminator,
    Generator,
    SaganConfig,
    SelfAttention,
    discriminator_loss,
    generator_loss,
    list_gammas,
)

TINY = SaganConfig(pixels=16, latent=5, width=4, attend=8, reduction=2)


def tiny(network: type) -> Generator | Discriminator:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return network(TINY)


@pytest.mark.parametrize("network", [Generator, Discriminator])
def test_attention_begins_with_gamma_at_zero_and_changes_nothing_until_it_grows(network: type) -> None:
    made = tiny(network).eval()
    assert list_gammas(made) == [0]
    x = draw(2, 5).float() if network is Generator else draw(2, 3, 16, 16).float()
    (attention,) = [module for module in made.modules() if isinstance(module, SelfAttention)]
    before = made(x)
    filters = attention.block.operator.get_parameter("parametrizations.W_h.original")
    filters.data.mul_(-3)
    torch.testing.assert_close(made(x), before)
    attention.gamma.data.fill_(0.5)
    assert (made(x) - before).abs().max() > 1e-4
    assert list_gammas(made) == [0.5]


def test_the_block_is_the_sources_attention_with_each_filter_divided_by_its_largest_singular_value() -> None:
    torch.manual_seed(1)
    made = SelfAttention(8, 2)
    for _ in range(30):  # the power method comes nearer at every call
        made(draw(1, 8, 3, 5).float())
    made.eval()
    made.gamma.data.fill_(0.7)
    plain = NonLocal(8, 8, 2)
    for name in ("W_f", "W_g", "W_h", "W_v"):
        original = made.block.operator.get_parameter(f"parametrizations.{name}.original")
        norm = torch.linalg.matrix_norm(original.flatten(1), 2)
        getattr(plain, name).data.copy_(original / norm)
    x = draw(2, 8, 3, 5, seed=2).float()
    expected = x + 0.7 * plain(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    torch.testing.assert_close(made(x), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("network", [Generator, Discriminator])
def test_every_weight_but_those_of_batch_norms_and_gamma_is_under_spectral_normalisation(network: type) -> None:
    names = [name for name, _ in tiny(network).named_parameters() if not name.endswith(("bias", "gamma"))]
    normed = [name for name in names if name.endswith(".original")]
    assert len(normed) >= 7
    assert all("layers" in name and name.endswith("weight") for name in set(names) - set(normed))
    assert len(set(names) - set(normed)) == (3 if network is Generator else 0)


def test_the_losses_are_the_hinge_by_its_formula() -> None:
    real, made = torch.tensor([2.0, 0.5, -1.0]), torch.tensor([-3.0, 0.0, 1.0])
    # max(0, 1 - x): 0, 0.5, 2; max(0, 1 + x): 0, 1, 2.
    assert discriminator_loss(real, made).item() == pytest.approx(2.5 / 3 + 1)
    assert generator_loss(made).item() == pytest.approx(2 / 3)
