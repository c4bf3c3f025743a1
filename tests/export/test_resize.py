import pytest
import torch
from networks import small_network

from diptych_export.artifact import resize_network
from diptych_runtime.errors import ArtifactError

FORMS = {
    "relative": {"segment": "relative"},
    "no segment": {"segment": "none", "bias": "none"},
    "added": {"segment": "added"},
    "the paper's literal form": {"seam": "pixels", "segment": "concatenated", "bias": "concatenated"},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("pixels", [16, 40])
def test_a_network_of_another_size_computes_what_the_network_does_on_such_panels(form: str, pixels: int) -> None:
    network = small_network(pixels=24, **FORMS[form]).eval()
    other = resize_network(network, pixels)
    assert other.config.pixels == pixels
    a, b = torch.rand(2, 3, 3, pixels, pixels, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(other(a, b), network(a, b))
        torch.testing.assert_close(other.encode(a)[1], network.encode(a)[1])


def test_its_own_size_is_the_network_itself() -> None:
    network = small_network(pixels=32)
    assert resize_network(network, 32) is network


@pytest.mark.parametrize("pixels", [0, 20, -8, 2056])
def test_a_size_it_does_not_take_is_refused_with_those_it_does(pixels: int) -> None:
    with pytest.raises(
        ArtifactError, match=f"panels of {pixels} pixels cannot be written: take a multiple of 8 from 8 to"
    ):
        resize_network(small_network(pixels=32), pixels)
