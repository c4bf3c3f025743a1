import pytest
import torch

from diptych_training.device import default_device, mixed_precision, torch_threads


def test_networks_are_trained_on_cuda_where_there_is_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    for there, expected in ((False, "cpu"), (True, "cuda:1")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert default_device(1) == torch.device(expected)


@pytest.mark.parametrize(
    ("able", "expected"),
    [
        ({"avx512_f": True, "avx512_vnni": True, "avx512_bf16": False}, torch.float32),
        ({"avx512_bf16": True}, torch.bfloat16),
        ({"amx_bf16": True}, torch.bfloat16),
        ({"architecture": "arm64"}, torch.float32),
    ],
)
def test_a_processor_computes_in_bfloat16_only_with_instructions_for_it(
    able: dict, expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: able)
    a = torch.ones(2, 2)
    with mixed_precision(torch.device("cpu")):
        assert (a @ a).dtype == expected
    with mixed_precision(torch.device("cpu"), False):
        assert (a @ a).dtype == torch.float32


def test_threads_are_as_many_as_asked_for_within_the_block_and_as_before_after_it_and_after_an_error() -> None:
    before = torch.get_num_threads()
    with torch_threads(before + 2):
        assert torch.get_num_threads() == before + 2
    with pytest.raises(ValueError, match="of the block"), torch_threads(before + 1):
        raise ValueError("of the block")
    assert torch.get_num_threads() == before
