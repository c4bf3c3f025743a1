"""A run has the threads that its recipe names, and leaves the program those that it had."""

import pytest
import torch

from diptych_training.threads import torch_threads


def test_threads_are_as_many_as_asked_for_within_the_block_and_as_before_after_it_and_after_an_error():
    before = torch.get_num_threads()
    with torch_threads(before + 2):
        assert torch.get_num_threads() == before + 2
    assert torch.get_num_threads() == before
    with pytest.raises(ValueError, match="of the block"), torch_threads(before + 1):
        raise ValueError("of the block")
    assert torch.get_num_threads() == before
