"""The aligned-pair network: from a recipe to the graph that a closer look takes, what is drawn, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diptych.cli.main import main
from diptych_model.networks.aligned import WEIGHTS, load_aligned
from diptych_runtime.closer_look.aligned import GRAPH, read_graph
from diptych_runtime.manifest import digest
from diptych_runtime.session import open_session, run_session
from diptych_studies.aligned.shelves import KeptPair, Origins
from diptych_studies.aligned.training import (
    RELEASED,
    AlignedRecipe,
    AlignedRun,
    Budget,
    Draws,
    recipe_from,
    stack_pairs,
    train,
)
from diptych_training.run import METRICS


def kept(count: int, *, copy: bool, kind: str = "noise") -> list[KeptPair]:
    """Pictures beside others, or beside themselves a little darker."""
    found = []
    for number in range(count):
        rng = np.random.default_rng([number, copy])
        a, b = rng.integers(0, 256, (2, 40, 48, 3), np.uint8)
        b = (a * 0.8).astype(np.uint8) if copy else b
        found.append(KeptPair(np.dstack([a, b, np.ones((40, 48), np.uint8)]), copy, kind))
    return found


def answer(checkpoint: Path, pair: np.ndarray) -> np.ndarray:
    """What the network of a checkpoint says of a pair, float32 (1,)."""
    with torch.no_grad():
        return load_aligned(checkpoint)(torch.from_numpy(pair)).numpy()


def test_a_run_leaves_a_graph_of_any_size_with_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "few.toml").write_text(
        "threads = 1\n[aligned]\nfamilies = 8\n[learning]\nsteps = 2\nbatch = 2\nsmall = 32\n"
    )
    run = tmp_path / "run"
    assert main(["train", str(tmp_path / "few.toml"), "-o", str(run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    checkpoint = Path(found.pop("checkpoint"))
    assert checkpoint == run / "best"
    assert json.loads((run / METRICS).read_text()) == found
    assert found["digest"] == digest((checkpoint / WEIGHTS).read_bytes())
    assert 0 < found["copies"] < found["pairs"]

    assert main(["export", str(checkpoint), "-o", str(tmp_path / "aligned"), "--json"]) == 0
    exported = Path(json.loads(capsys.readouterr().out)["graph"])
    assert exported == tmp_path / "aligned" / GRAPH
    session = open_session(exported.read_bytes())
    for rows, columns in ((8, 16), (24, 72)):
        pair = np.random.default_rng(1).random((1, 7, rows, columns), np.float32)
        (odds,) = run_session(session, {"pair": pair})
        np.testing.assert_allclose(odds, answer(checkpoint, pair), atol=1e-4)
    with pytest.raises(SystemExit, match="2"):
        main(["export", str(checkpoint), "-o", str(tmp_path / "other"), "--precision", "int8"])


def test_a_network_learns_what_is_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(self: AlignedRun) -> None:
        self.pairs = self.held_out = [*kept(12, copy=True), *kept(12, copy=False)]
        self.draws = Draws(self.pairs)

    monkeypatch.setattr(AlignedRun, "prepare", prepare)
    budget = Budget(steps=30, batch=8, rate=5e-3, warmup=4, average=0.5, small=48, odd=0.2)
    found = train(AlignedRecipe(aligned=Origins(), learning=budget, threads=1), tmp_path / "run", quiet=True)
    assert found["held_out"]["noise"] == {"copies": 12, "others": 12, "auc": 1.0}
    assert 0.5 < found["edited"]["noise"]["auc"] <= 1.0
    assert np.mean(found["curve"][-4:]) < 0.6 * np.mean(found["curve"][:4])


def test_a_run_may_begin_with_the_released_network_or_with_another_run(tmp_path: Path) -> None:
    aligned, still = Origins(families=1), Budget(steps=1, batch=2, small=32, rate=1e-9, decay=0.0)
    train(AlignedRecipe(aligned=aligned, learning=still, start=RELEASED), tmp_path / "first", quiet=True)
    begun = str(tmp_path / "first" / "best")
    train(AlignedRecipe(aligned=aligned, learning=still, start=begun), tmp_path / "second", quiet=True)
    pair = np.random.default_rng(1).random((1, 7, 24, 32), np.float32)
    (expected,) = run_session(open_session(read_graph()), {"pair": pair})
    for run in ("first", "second"):
        np.testing.assert_allclose(answer(tmp_path / run / "best", pair), expected, atol=1e-4)


def test_an_anchor_holds_a_run_to_what_it_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(self: AlignedRun) -> None:
        self.pairs = self.held_out = [*kept(6, copy=True), *kept(6, copy=False)]
        self.draws = Draws(self.pairs)

    monkeypatch.setattr(AlignedRun, "prepare", prepare)
    moved = {}
    for anchor in (0.0, 1.0):
        budget = Budget(steps=4, batch=6, rate=1e-3, warmup=1, average=0.1, small=48, decay=0.0, anchor=anchor)
        recipe = AlignedRecipe(aligned=Origins(), learning=budget, start=RELEASED, threads=1)
        train(recipe, tmp_path / str(anchor), quiet=True)
        pixels = np.stack([pair.pixels for pair in kept(6, copy=False)])[..., :40, :]
        pairs = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)[:, :, :40, :40]).astype(np.float32)
        pairs[:, :6] /= 255
        (before,) = run_session(open_session(read_graph()), {"pair": pairs[:1]})
        moved[anchor] = abs(float(answer(tmp_path / str(anchor) / "best", pairs[:1])[0] - before[0]))
    assert moved[1.0] < moved[0.0] / 2


def test_copies_are_half_of_what_is_drawn_and_kinds_come_by_the_root_of_their_number() -> None:
    draws = Draws([*kept(2, copy=True), *kept(36, copy=False), *kept(4, copy=False, kind="page")])
    drawn = draws.draw_pairs(3000, np.random.default_rng(0))
    assert np.mean([pair.copy for pair in drawn]) == pytest.approx(0.5, abs=0.04)
    others = [pair.kind for pair in drawn if not pair.copy]
    assert others.count("noise") / others.count("page") == pytest.approx(3, rel=0.2)
    with pytest.raises(ValueError, match="copies and others are needed to learn from, got 2 pairs"):
        Draws(kept(2, copy=True))


def test_a_batch_is_filled_up_with_what_is_not_shown() -> None:
    small, large = np.full((8, 8, 7), 255, np.uint8), np.full((10, 20, 7), 51, np.uint8)
    small[..., 6] = large[..., 6] = 1
    filled = stack_pairs([small, large])
    assert filled.shape == (2, 7, 16, 24)
    assert filled[0].sum() == 7 * 64
    assert filled[1, :6].max() == pytest.approx(0.2)
    assert filled[1, 6].sum() == 200


@pytest.mark.parametrize(
    "values",
    [
        {"aligned": {"families": -1, "archives": ["goods"]}},
        {"aligned": {"families": 0}},
        {"aligned": {"things": 10}},
        {"aligned": {"photos": 1}},
        {"aligned": {"family": 1}},
        {"aligned": {}, "learning": {"small": 8}},
        {"aligned": {}, "learning": {"odd": 1.5}},
        {"aligned": {}, "learning": {"anchor": -0.5}},
        {"aligned": {}, "start": "/nowhere"},
    ],
)
def test_a_recipe_that_cannot_be_learnt_from_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\[aligned\] needs|did you mean 'families'|small must|neither 'aligned'"):
        recipe_from(values)
