import pytest
import torch
from networks import small_network

from diptych_export.resize import resized
from diptych_runtime.errors import ArtifactError


@pytest.mark.parametrize("bias", ["panel", "none"])
def test_a_smaller_network_computes_what_the_network_does_on_smaller_panels(bias: str) -> None:
    network = small_network(pixels=32, segment="relative" if bias == "panel" else "none", bias=bias).eval()
    smaller = resized(network, 24)
    assert (smaller.config.pixels, smaller.config.token_shape) == (24, (3, 3, 12))
    a, b = torch.rand(2, 3, 3, 24, 24, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(smaller(a, b), network(a, b))
        assert torch.equal(smaller.encode(a)[1], network.encode(a)[1])


def test_its_own_size_is_the_network_itself() -> None:
    network = small_network(pixels=32)
    assert resized(network, 32) is network


@pytest.mark.parametrize("pixels", [0, 20, 40, -8])
def test_a_size_it_does_not_take_is_refused_with_those_it_does(pixels: int) -> None:
    with pytest.raises(
        ArtifactError, match=f"panels of {pixels} pixels cannot be written: take a multiple of 8, at most 32"
    ):
        resized(small_network(pixels=32), pixels)


def test_segments_made_for_one_size_are_refused_by_name() -> None:
    with pytest.raises(ArtifactError, match="x_seg is made for one size of panel"):
        resized(small_network(pixels=32, segment="added"), 24)
