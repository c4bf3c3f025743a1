import dataclasses
import json
from pathlib import Path

import pytest
import torch

from diptych_model import PairConfig, PairNetwork, load_checkpoint, save_checkpoint


def test_a_checkpoint_gives_back_the_same_network_configuration_and_metadata(
    tmp_path: Path, tiny_network: PairNetwork
) -> None:
    digest = save_checkpoint(tiny_network, tmp_path, {"step": 7})
    loaded, metadata = load_checkpoint(tmp_path)
    assert loaded.config == tiny_network.config
    assert metadata == {"step": 7}
    assert digest == json.loads((tmp_path / "config.json").read_text())["sha256"]
    a, b = torch.rand(2, 1, 3, 32, 32)
    assert torch.equal(loaded(a, b), tiny_network(a, b))


def test_damage_to_a_checkpoint_is_named(tmp_path: Path, tiny_network: PairNetwork) -> None:
    save_checkpoint(tiny_network, tmp_path)
    weights = tmp_path / "weights.safetensors"
    damaged = bytearray(weights.read_bytes())
    damaged[-3] ^= 1
    weights.write_bytes(damaged)
    with pytest.raises(ValueError, match="is damaged: expected SHA-256"):
        load_checkpoint(tmp_path)
    weights.unlink()
    with pytest.raises(ValueError, match=r"has no weights\.safetensors"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("network", "rest", "message"),
    [
        # Refused before it takes memory.
        ({"embedding": 2_000_000_000}, {}, r"does not fit config\.json: expected .*2000000000"),
        ({}, {"format": 99}, "is of format 99, this version reads 3"),
    ],
)
def test_a_description_of_more_than_the_weights_hold_or_of_another_format_is_refused(
    network: dict, rest: dict, message: str, tmp_path: Path, tiny_network: PairNetwork
) -> None:
    save_checkpoint(tiny_network, tmp_path)
    described = json.loads((tmp_path / "config.json").read_text())
    described["network"] |= network
    (tmp_path / "config.json").write_text(json.dumps(described | rest))
    with pytest.raises(ValueError, match=message):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"segment": "both"}, "segment must be one of relative, added, concatenated, none, got 'both'"),
        ({"bias": "concatenated"}, "set bias = 'panel'"),
        ({"pixels": 100}, "multiple of the encoder's reduction 16, got 100"),
        ({"questions": ("what",)}, "questions must be one of"),
        ({"merge": 3}, "merge must divide the grid of 8 tokens"),
        ({"blocks": 0}, "must be positive"),
        ({"width": 0}, "must be positive"),
        ({"expansion": 0.0}, "must be positive"),
        ({"seam": "ajar"}, "seam must be one of closed, tokens, pixels, got 'ajar'"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused_with_the_way_out(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(PairConfig(), **changes)


@pytest.mark.parametrize("text", ['{"network": ', "[1, 2]"])
def test_a_damaged_description_is_named(tmp_path, text):
    (tmp_path / "weights.safetensors").write_bytes(b"")
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=r"config\.json is damaged \(.*\); restore it or train again"):
        load_checkpoint(tmp_path)
