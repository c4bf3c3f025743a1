from pathlib import Path

import pytest
import torch

from diptych_model import PairConfig, PairNetwork, Residual, save_checkpoint
from diptych_training.learning.relations import related_by

SETTINGS = {"pixels": 24, "encoder": Residual((5,), (1,)), "width": 7, "embedding": 14, "blocks": 1}
KNOWING = {"correspondence": True, "channels": 8, "merge": 2, "questions": ("copy", "thing"), "parts": 2, "bank": 3}


@pytest.mark.parametrize("changes", [{}, KNOWING])
@pytest.mark.parametrize("relation", ["late", "siamese"])
def test_a_control_has_the_panel_part_of_the_model_and_sees_the_same(relation, changes, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = PairNetwork(PairConfig(**(SETTINGS | changes))).eval()
    save_checkpoint(model, tmp_path)
    control = related_by(relation, tmp_path).eval()
    pictures = torch.rand(3, 3, 24, 24)
    with torch.no_grad():
        (tokens, embeddings), (seen, same) = model.encode(pictures), control.encode(pictures)
    torch.testing.assert_close(same, embeddings)
    if relation == "late":
        torch.testing.assert_close(seen, tokens[..., :7])
    assert control.relate(seen, seen).shape == model.relate(tokens, tokens).shape
