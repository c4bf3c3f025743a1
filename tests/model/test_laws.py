"""What holds for the pair network with either mixer of the package; the studies' mixers are held to the same laws."""

from collections.abc import Callable

import pytest
from laws import LAWS, network, tokens


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("kind", ["msac", "convolution"])
def test_a_law_holds_for_the_mixer(law: Callable[[str], None], kind: str) -> None:
    law(kind)


def test_of_both_msac_alone_attends_from_patch_to_patch() -> None:
    assert [network(kind).has_attention for kind in ("msac", "convolution")] == [True, False]


@pytest.mark.parametrize("relation", ["late", "siamese"])
def test_a_relation_without_a_trunk_has_no_attention_to_show(relation: str) -> None:
    made = network("msac", relation=relation)
    assert not made.has_attention
    with pytest.raises(ValueError, match=f"the relation '{relation}' has no attention across the seam to show"):
        made.attention(*tokens(made))
