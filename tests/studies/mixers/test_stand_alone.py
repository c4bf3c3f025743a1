"""Stand-alone self-attention and its stem against the float64 loops; every size another prime."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from drawing import assert_equal_with_gradients, draw
from torch import Tensor, nn

from diptych_model.mixers import Place
from diptych_studies import reference
from diptych_studies.mixers import StandAlone, local_attention
from diptych_studies.mixers.stand_alone import AttentionStem, StandAloneAttention


def randomised(module: nn.Module, seed: int) -> None:
    for number, parameter in enumerate(module.parameters()):
        parameter.data = draw(*parameter.shape, seed=seed + number) * 0.5
    module.double()


def built(place: Place, seed: int = 1, **settings) -> StandAloneAttention:
    mixer = StandAlone(**settings).build(place)
    randomised(mixer, seed)
    return mixer


def matrices(weight: Tensor, heads: int) -> list[Tensor]:
    return list(weight.flatten(1).chunk(heads))


def by_loops(mixer: StandAloneAttention, x: Tensor, **settings) -> Tensor:
    """The reference on every picture of a batch."""
    attention, panels = mixer.attention, 2 if mixer.faced else 1
    W_Q, W_K, W_V = (matrices(weight, mixer.heads) for weight in (mixer.W_Q, mixer.W_K, mixer.W_V))
    tables = {"r_row": attention.r_row, "r_col": attention.r_col, "s": attention.s}
    if mixer.joined > 1:
        t = [torch.cat([a, b], 1) for a, b in x.unflatten(0, (-1, 2))]
        seam = x.shape[2]
        wide = [
            reference.stand_alone([one], W_Q, W_K, W_V, attention.k, **tables, seam=seam, **settings)[0] for one in t
        ]
        assert settings.get("stride", 1) == 1
        return torch.stack([half for one in wide for half in one.split(seam, 1)])
    pictures = x.unflatten(0, (-1, panels))
    return torch.stack(
        [
            y
            for one in pictures
            for y in reference.stand_alone(list(one), W_Q, W_K, W_V, attention.k, **tables, **settings)
        ]
    )


TWO = {"panels": 2, "segments": True}
CASES = {
    "the paper's form": (Place(5, 6, 3, 7), {"k": 3, "heads": 2}),
    "scaled, several blocks each way": (Place(2, 3, 7, 11), {"k": 3, "heads": 1, "scaled": True}),
    "an even window, wider than the picture": (Place(3, 10, 2, 5), {"k": 4, "heads": 2}),
    "an even window over several blocks": (Place(3, 2, 7, 6), {"k": 2, "heads": 1}),
    "grouped heads": (Place(6, 9, 3, 5), {"k": 3, "heads": 3, "grouped": True}),
    "strided with a rest": (Place(3, 4, 5, 7, stride=2), {"k": 3, "heads": 2}),
    "no embeddings": (Place(5, 4, 3, 2, bias="none"), {"k": 3, "heads": 4}),
    "two panels": (Place(5, 6, 3, 2, panels=2), {"k": 3, "heads": 2}),
    "two panels in blocks": (Place(2, 3, 5, 7, **TWO, stride=3), {"k": 2, "heads": 1, "scaled": True}),
    "two panels without embeddings": (Place(5, 6, 2, 3, bias="none", **TWO), {"k": 3, "heads": 2}),
    "an open seam": (Place(3, 4, 2, 5, open_seam=True, **TWO), {"k": 3, "heads": 2}),
    "an open seam in blocks": (Place(2, 3, 2, 5, open_seam=True, bias="concatenated", panels=2), {"k": 4, "heads": 1}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("pictures", [1, 3])
def test_stand_alone_attention_and_all_its_gradients_equal_the_loops(case: str, pictures: int) -> None:
    place, settings = CASES[case]
    mixer = built(place, **settings)
    x = draw(pictures * place.panels, place.rows, place.cols, place.d, seed=20).requires_grad_()
    switches = {name: value for name, value in settings.items() if name in ("scaled", "grouped")}
    expected = by_loops(mixer, x, stride=place.stride, **switches)
    assert_equal_with_gradients(mixer(x), expected, [x, *mixer.parameters()])


def test_a_window_over_the_whole_picture_is_multi_head_attention() -> None:
    mixer = built(Place(6, 6, 3, 5, bias="none"), k=11, heads=2, scaled=True)
    oracle = nn.MultiheadAttention(6, 2, bias=False, batch_first=True, dtype=torch.float64)
    oracle.in_proj_weight.data = torch.cat([mixer.W_Q, mixer.W_K, mixer.W_V]).view(18, 6).detach()
    oracle.out_proj.weight.data = torch.eye(6, dtype=torch.float64)
    x = draw(2, 3, 5, 6)
    flat = x.flatten(1, 2)
    torch.testing.assert_close(mixer(x), oracle(flat, flat, flat)[0].view(2, 3, 5, 6))


@pytest.mark.parametrize("k", [3, 5])
def test_unfolded_windows_give_the_same(k: int) -> None:
    """An oracle by torch's own `unfold`: all k^2 keys of a position side by side."""
    mixer = built(Place(3, 4, 11, 13), k=k, heads=1)
    x = draw(2, 11, 13, 3)
    flat = x.permute(0, 3, 1, 2)
    windows = F.unfold(flat, k, padding=k // 2).view(2, 3, k * k, 11 * 13)
    real = F.unfold(torch.ones_like(flat[:, :1]), k, padding=k // 2).view(2, k * k, 11 * 13)
    q, keys, values = (
        torch.einsum("fd,zd...->zf...", W.flatten(1), z)
        for W, z in ((mixer.W_Q, flat.flatten(2)), (mixer.W_K, windows), (mixer.W_V, windows))
    )
    r_row, r_col = mixer.attention.r_row, mixer.attention.r_col
    assert r_row is not None
    assert r_col is not None
    r = torch.cat([r_row[0, 0].repeat_interleave(k, 0), r_col[0, 0].repeat(k, 1)], 1)
    scores = torch.einsum("zft,zfkt->zkt", q, keys + r.T[:, :, None])
    weights = scores.masked_fill(real == 0, -torch.inf).softmax(1)
    y = torch.einsum("zkt,zfkt->zft", weights, values)
    torch.testing.assert_close(mixer(x), y.view(2, 4, 11, 13).permute(0, 2, 3, 1))


@pytest.mark.parametrize("block", [1, 3, 100])
def test_how_queries_are_cut_into_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    mixer = built(Place(3, 4, 11, 13, **TWO), k=5, heads=2)
    x = draw(2, 11, 13, 3)
    expected = mixer(x)
    monkeypatch.setattr(local_attention, "BLOCK", block)
    torch.testing.assert_close(mixer(x), expected)


def test_segments_add_a_parameter_where_nothing_else_tells_the_panels_apart() -> None:
    alone = Place(3, 4, 5, 7, segments=True)
    expected = {
        alone: False,
        replace(alone, panels=2): False,
        replace(alone, panels=2, bias="none"): True,
        replace(alone, panels=2, open_seam=True): True,
        replace(alone, panels=2, open_seam=True, segments=False): False,
    }
    for place, wanted in expected.items():
        assert (StandAlone(3, heads=2).build(place).attention.s is not None) == wanted, place


def test_a_head_of_odd_width_gives_the_column_offset_the_channel_more() -> None:
    attention = built(Place(3, 10, 3, 5), k=3, heads=2).attention
    assert attention.r_row is not None
    assert attention.r_col is not None
    assert (attention.r_row.shape, attention.r_col.shape) == ((1, 2, 3, 2), (1, 2, 3, 3))


def stem(seed: int = 3, **settings) -> AttentionStem:
    made = AttentionStem(3, 10, heads=2, window=2, mixtures=5, **settings)
    randomised(made, seed)
    return made.eval()


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_the_stem_and_all_its_gradients_equal_the_loops(scaled: bool, batch: int) -> None:
    made, x = stem(scaled=scaled), draw(batch, 4, 6, 3, seed=30).requires_grad_()
    by_head = [[mixture[:5] for mixture in made.W_V], [mixture[5:] for mixture in made.W_V]]
    weights = (matrices(made.W_Q, 2), matrices(made.W_K, 2), by_head)
    expected = torch.stack(
        [reference.attention_stem(one, *weights, made.emb_row, made.emb_col, made.nu, scaled=scaled) for one in x]
    )
    wanted = [p for name, p in made.named_parameters() if not name.startswith("norm")]
    assert_equal_with_gradients(made.attend_blocks(x), expected, [x, *wanted])
