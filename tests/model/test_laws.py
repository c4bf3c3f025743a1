"""What holds for the pair network with MSAC; the studies' mixers are held to the same laws."""

from collections.abc import Callable

import pytest
from laws import LAWS, network, tokens


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_a_law_holds_for_msac(law: Callable[[str], None]) -> None:
    law("msac")


@pytest.mark.parametrize("relation", ["late", "siamese"])
def test_a_relation_without_a_trunk_has_no_attention_to_show(relation: str) -> None:
    assert network("msac").has_attention
    made = network("msac", relation=relation)
    assert not made.has_attention
    with pytest.raises(ValueError, match=f"the relation '{relation}' has no attention across the seam to show"):
        made.attention(*tokens(made))
