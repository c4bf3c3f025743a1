import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from diptych_model import PairNetwork, load_checkpoint, save_checkpoint


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


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("weights.safetensors", lambda data: data[:-3] + bytes([data[-3] ^ 1]) + data[-2:], "expected SHA-256"),
        ("weights.safetensors", lambda data: None, r"has no weights\.safetensors"),
        ("config.json", lambda data: b'{"network": ', r"config\.json is damaged \(.*\); restore it or train again"),
        ("config.json", lambda data: b"[1, 2]", r"config\.json is damaged \(.*\); restore it or train again"),
        ("config.json", lambda data: data.replace(b'"format": 3', b'"format": 99'), "is of format 99, .* reads 3"),
        # Refused before it takes memory.
        (
            "config.json",
            lambda data: data.replace(b'"embedding": 10', b'"embedding": 2000000000'),
            "expected .*2000000",
        ),
    ],
)
def test_a_checkpoint_that_is_not_whole_or_of_another_format_is_refused(
    file: str, change: Callable[[bytes], bytes | None], message: str, tmp_path: Path, tiny_network: PairNetwork
) -> None:
    save_checkpoint(tiny_network, tmp_path)
    changed = change((tmp_path / file).read_bytes())
    (tmp_path / file).unlink()
    if changed is not None:
        (tmp_path / file).write_bytes(changed)
    with pytest.raises(ValueError, match=message):
        load_checkpoint(tmp_path)
