"""What the bench counts, against counts made by hand; that all operators are treated alike; its table and picture."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from diptych_model import MSAC, Scale, relative_attention
from diptych_model.mixers import Place
from diptych_studies.benchmarks.operators import bench_operators
from diptych_studies.benchmarks.timing import Contender, peak_bytes, run_race
from diptych_studies.flops import count_flops, count_parameters
from diptych_studies.mixers import MIXERS
from diptych_training.errors import DataError


class Recorder(nn.Module):
    """An operator that writes down, in `seen`, its name and how it was called."""

    def __init__(self, name: str, seen: list[tuple[str, bool, int]]) -> None:
        super().__init__()
        self.name, self.seen = name, seen
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append((self.name, torch.is_grad_enabled() and self.training, torch.get_num_threads()))
        return x * self.weight


@dataclass(frozen=True)
class Shy:
    n: int = 3
    kind: str = field(default="shy", init=False)

    def build(self, place: Place) -> nn.Module:
        raise ValueError(f"the mixer 'shy' stays at home, a place of {place.rows} x {place.cols} or not")


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    """Every mixer there is and one that refuses, at tiny sizes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MIXERS, "shy", Shy)
        patch.setattr("diptych_studies.benchmarks.timing.SAMPLE_SECONDS", 0)
        return bench_operators(width=8, tokens=(8, 18), windows=(1, 3, 4, 5), windowed_tokens=32, repeats=2)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Kernels keep a buffer a thread; with one their size does not hang on the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


def test_the_peak_of_a_chain_of_products_is_its_two_largest_neighbours() -> None:
    A, B, C, D = drawn(5, 3), drawn(3, 101), drawn(101, 31), drawn(31, 2)
    with torch.inference_mode():
        peak, product = peak_bytes(lambda: A @ B @ C @ D)
    # (5, 101) and (5, 31) live together; before (5, 2) is made the first of them is gone.
    assert peak == 4 * 5 * (101 + 31)
    torch.testing.assert_close(product, torch.linalg.multi_dot([A, B, C, D]), rtol=1e-4, atol=1e-4)


def test_the_peak_of_learning_counts_what_is_kept_and_the_gradients() -> None:
    x, U, V, gradient = (drawn(*shape).requires_grad_() for shape in ((5, 3), (3, 7), (7, 2), (5, 2)))

    def learn() -> tuple[Tensor, ...]:
        return torch.autograd.grad(x @ U @ V, [x, U, V], gradient.detach())

    # At the end, with y and the gradients of V and of the hidden (5, 7), those of x and U; the hidden itself is gone.
    assert peak_bytes(learn)[0] == 4 * (5 * 2 + 7 * 2 + 5 * 7 + 5 * 3 + 3 * 7)


@pytest.mark.usefixtures("one_thread")
def test_attention_never_holds_the_scores_unless_it_learns() -> None:
    pictures, heads, tokens, width = 3, 2, 257, 16
    q, k, v = (drawn(pictures, heads, tokens, width) for _ in range(3))
    bias = drawn(heads, tokens, tokens)
    scores = 4 * pictures * heads * tokens * tokens
    with torch.inference_mode():
        serving, served = peak_bytes(lambda: relative_attention(q, k, v, bias))
    learning, learned = peak_bytes(lambda: relative_attention(q, k, v, bias.requires_grad_()))
    assert learning >= scores
    assert serving < scores / 2, "the kernel that goes over the keys block by block was not chosen"
    torch.testing.assert_close(served, learned.detach())


@pytest.mark.usefixtures("one_thread")
def test_msac_holds_its_dense_bias_once_more_while_it_is_made_and_none_where_there_is_none() -> None:
    scales = [Scale(1, 1, heads=4, d_a=8, d_o=8), Scale(3, 3, heads=4, d_a=8, d_o=8)]
    x = drawn(2 * 3, 12, 12, 16)
    bias, scores = 4 * 8 * 288**2, 4 * 3 * 8 * 288**2
    peaks = {}
    for kind in ("panel", "concatenated", "none"):
        msac = MSAC(16, 12, 12, scales, panels=2, bias=kind, segments=kind == "panel")
        with torch.inference_mode():
            peaks[kind] = peak_bytes(lambda msac=msac: msac(x))[0]
    activations = peaks["none"]
    assert activations < bias < scores / 2
    assert bias < peaks["panel"] < 2.1 * bias + activations
    assert bias < peaks["concatenated"] < 2.1 * bias + activations


@pytest.mark.slow
def test_every_mixer_is_measured_at_every_number_of_tokens_or_says_why_not(result: dict[str, Any]) -> None:
    found = {(row["operator"], row["tokens"]): row for row in result["against_tokens"]}
    assert set(found) == {(kind, tokens) for kind in (*MIXERS, "shy") for tokens in (8, 18)}
    for (kind, tokens), row in found.items():
        if kind == "shy":
            side = {8: 2, 18: 3}[tokens]
            assert row["refused"] == f"the mixer 'shy' stays at home, a place of {side} x {side} or not"
            continue
        assert "refused" not in row, row
        module = MIXERS[kind]().build(Place(8, 8, 3, 3, panels=2, segments=True))
        if tokens == 18:
            assert row["parameters"] == count_parameters(module)
            assert row["flops"] == count_flops(module, drawn(2, 3, 3, 8))
        for way in ("forward", "training"):
            timed = row[way]
            assert 0 < timed["low"] <= timed["median"] <= timed["high"]
            assert timed["ratio"] == 1 if kind == "msac" else timed["ratio"] > 0
            # The output at least, or the gradient of the input.
            assert timed["peak_bytes"] >= 4 * tokens * 8
    assert json.loads(json.dumps(result)) == result


def test_filters_are_compared_at_every_size_and_msac_in_its_three_forms(result: dict[str, Any]) -> None:
    rows = result["against_windows"]
    assert {row["tokens"] for row in rows} == {32}
    sizes = {name: [row["window"] for row in rows if row["operator"] == name] for name in {r["operator"] for r in rows}}
    assert sizes["msac"] == [None]
    assert sizes["msac cascaded"] == [5]
    assert {"msac dense", "msac separable", "convolution", "shy"} <= set(sizes)
    assert all(own == [1, 3, 4, 5] for name, own in sizes.items() if name not in ("msac", "msac cascaded"))
    cost = {(row["operator"], row["window"]): row["flops"] for row in rows if "flops" in row}
    for name in ("msac dense", "convolution"):
        assert cost[name, 1] < cost[name, 3] < cost[name, 4] < cost[name, 5]
    assert cost["msac separable", 5] < cost["msac cascaded", 5] < cost["msac dense", 5]
    learned = {(row["operator"], row["window"]): row["parameters"] for row in rows if "parameters" in row}
    # Two 3x3 filter sets in a row, the first from 8 channels to 8.
    assert learned["msac cascaded", 5] == learned["msac dense", 3] + 9 * 8 * 8
    # y = [x, z'] * H at every one of 32 positions, a multiply-add counted twice.
    assert cost["convolution", 3] == 2 * 32 * 9 * (2 * 8) * 8


def test_every_round_has_every_operator_once_and_rounds_differ_in_their_order() -> None:
    seen: list[tuple[str, bool, int]] = []
    x = torch.ones(1)
    racing = [Contender({"operator": name}, Recorder(name, seen), x, x) for name in "abcde"]
    ends: list[int] = []
    run_race(racing, 4, lambda: ends.append(len(seen)))
    calls = {one.row["operator"]: one.calls for one in racing}
    orders = []
    for begun, ended in zip([ends[0] - sum(sum(c.values()) for c in calls.values()), *ends], ends, strict=False):
        order = list(dict.fromkeys(name for name, _, _ in seen[begun:ended]))
        assert sorted(order) == list("abcde")
        for name in order:
            learning = [learns for other, learns, _ in seen[begun:ended] if other == name]
            assert learning == [False] * calls[name]["forward"] + [True] * calls[name]["training"]
        orders.append(tuple(order))
    assert len(set(orders)) > 1
    assert all(len(seconds) == 4 for one in racing for seconds in one.seconds.values())


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"mixers": ["transfromer"]}, "no mixer 'transfromer'; did you mean 'transformer'"),
        ({"mixers": ["quux"]}, "no mixer 'quux'; there are msac, convolution"),
        ({"tokens": (32, 100)}, r"2 \* N \* N: got 100, the nearest such number is 98"),
        ({"tokens": (0,)}, "got 0, the nearest such number is 2"),
        ({"windowed_tokens": 9}, "got 9, the nearest such number is 8"),
        ({"tokens": (), "windows": ()}, "nothing to measure: give numbers of tokens"),
        ({"windows": (3, 0)}, "a window has at least one position, got 0"),
        ({"repeats": 0}, "repeats must be at least 1, got 0"),
        ({"threads": 0}, "threads must be at least 1, got 0"),
        ({"width": -1}, "width must be at least 1, got -1"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_runs(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        bench_operators(**asked, progress=lambda rounds: pytest.fail("it began"))
