"""The study of mixers on photos: every run a row of a CSV, rates chosen with one seed, the rest laid beside MSAC."""

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from diptych_model import PairConfig
from diptych_model.network import PairPart
from diptych_studies import variants
from diptych_studies.mixers import MIXERS, Transformer
from diptych_studies.photo_pairs import run, study
from diptych_studies.photo_pairs.run import (
    compute_answers,
    learn_step,
    measure_embedding,
    measure_pair_part,
)
from diptych_studies.photo_pairs.study import (
    PRIOR,
    RunTable,
    study_on_photos,
)
from diptych_studies.photo_pairs.tokens import SETS, Drawn, Tokens, panel_digest
from diptych_studies.variants import ON_PHOTOS, PHOTO, choose_variants
from diptych_training.errors import DataError

SMALL = replace(
    PHOTO, pixels=64, width=6, embedding=8, bank=4, channels=8, blocks=1, mixer=variants.scales_of(1, sacs=1)
)
DRAWN = Drawn(steps=3, asked=4, candidates=5)


def write_tokens(folder: Path, config: PairConfig, drawn: Drawn) -> Path:
    """Tokens of nobody: queries that are their matches with a little noise."""
    folder.mkdir()
    rng = torch.Generator().manual_seed(0)
    kept = {}
    for step in range(drawn.steps):
        references = torch.randn(6, *config.token_shape, generator=rng)
        tokens = torch.cat([references[:4] + 0.3 * torch.randn(references[:4].shape, generator=rng), references])
        kept[f"{step}.tokens"] = tokens.half()
        kept[f"{step}.chosen"] = torch.tensor([[4, 8, 9], [5, 6, 9], [6, 7, 4], [7, 4, 5]])
        kept[f"{step}.matched"] = torch.tensor([True, True, False, True])
        kept[f"{step}.copies"] = torch.tensor([True, True, True, False])
    save_file(kept, folder / "steps.safetensors")
    for kind in SETS:
        gallery = torch.randn(8, *config.token_shape, generator=rng)
        candidates = torch.tensor([[1, 0, 3], [1, 2, 5], [2, 4, 6], [3, 0, 1]])
        held_out = {
            "queries": (gallery[:4] + 0.3 * torch.randn(gallery[:4].shape, generator=rng)).half(),
            "gallery": gallery.half(),
            "candidates": candidates,
            "cosines": torch.tensor([[0.9, 0.8, 0.1]]).repeat(4, 1),
            "relevant": candidates == torch.arange(4)[:, None],
            "positives": torch.ones(4, dtype=torch.long),
        }
        save_file(held_out, folder / f"{kind}.safetensors")
    (folder / "drawn.json").write_text(json.dumps({**asdict(drawn), "panel": panel_digest()}))
    return folder


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Tokens:
    return Tokens(write_tokens(tmp_path_factory.mktemp("tokens") / "kept", SMALL, DRAWN))


def small_variants() -> dict[str, variants.Variant]:
    found = {"msac": SMALL, "transformer": replace(SMALL, mixer=Transformer(heads=2))}
    return {name: variants.Variant(replace(config, segment="added"), "msac") for name, config in found.items()}


@pytest.fixture(scope="module")
def finished(tokens: Tokens, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict, list[str]]:
    directory, ended = tmp_path_factory.mktemp("study"), []
    shutil.copytree(tokens.folder, directory / study.TOKENS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ON_PHOTOS, "mixers", small_variants)
        patch.setattr(study, "PHOTO", SMALL)
        return directory, do_study(directory, directory, finished=ended.append), ended


def do_study(directory: Path, data: Path | None, **changes) -> dict:
    settings = {"steps": 2, "rates": (1e-3, 1e-2), "seeds": 2, "drawn": DRAWN, "processes": 0} | changes
    return study_on_photos("mixers", directory, data, **settings)


def test_every_mixer_is_in_the_study_and_all_have_the_same_parameters() -> None:
    made = choose_variants(ON_PHOTOS["mixers"](), "mixers", (), PairPart)
    assert set(made) == set(MIXERS)
    sizes = [sum(p.numel() for p in PairPart(variant.config).parameters()) for variant in made.values()]
    assert max(sizes) <= 1.005 * min(sizes)


def test_the_panel_part_of_the_study_is_that_of_the_released_model() -> None:
    from diptych_model.checkpoint import read_description
    from diptych_training.recipe import start_of

    released = PairConfig.from_dict(read_description(start_of("photo"))["network"])
    trunk = {"blocks", "mixer", "channels", "segment", "bias", "expansion"}
    ours, theirs = asdict(PHOTO), asdict(released)
    assert {key: value for key, value in ours.items() if key not in trunk} == {
        key: value for key, value in theirs.items() if key not in trunk
    }


def test_a_step_in_parts_has_the_gradients_of_the_whole_step(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for related in (3, 1000):
        monkeypatch.setattr(run, "RELATED", related)
        torch.manual_seed(0)
        pair = PairPart(SMALL)
        loss = learn_step(pair, tokens.read_pairs(1))
        found.append((loss, [p.grad.clone() for p in pair.parameters() if p.grad is not None]))
    (parts, in_parts), (whole, at_once) = found
    # Each part's log-loss of the matches and of the others is a mean of its own rows: alike when rows are.
    assert parts == pytest.approx(whole, rel=1e-4)
    assert len(in_parts) == len(at_once) > 10
    for one, other in zip(in_parts, at_once, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_the_figures_are_of_candidates_in_the_order_of_the_logits(tokens: Tokens) -> None:
    pair = PairPart(SMALL)
    held_out = tokens.held_out("copies")
    logits = compute_answers(pair, held_out, 0)
    assert logits.shape == held_out.candidates.shape
    # The correspondence begins with the cosine and the best match: what is the query with a little noise comes first.
    best = held_out.candidates.gather(1, logits.argmax(1, keepdim=True)).squeeze(1)
    assert best.tolist() == [0, 1, 2, 3]
    assert measure_pair_part(pair, tokens)["copies_recall_at_1"] == 1
    assert measure_embedding(tokens)["copies_recall_at_1"] == pytest.approx(0.75)


def test_all_rates_are_run_with_one_seed_and_the_best_with_the_others(finished) -> None:
    directory, result, ended = finished
    labels = ["msac", "transformer", PRIOR]
    assert [row["variant"] for row in result["rows"]] == labels
    rows = RunTable(directory / "mixers-photos.csv").rows
    trained = [(row["variant"], row["rate"], row["seed"]) for row in rows if row["rate"]]
    assert trained[:6] == [(label, rate, 0) for label in labels for rate in (1e-3, 1e-2)]
    assert [(label, seed) for label, _, seed in trained[6:]] == [(label, 1) for label in labels]
    assert len(ended) == 9
    for row in result["rows"]:
        tried = {one["rate"]: one["curve"][-1] for one in rows if one["variant"] == row["variant"] and one["seed"] == 0}
        assert row["rate"] == min(tried, key=lambda rate: tried[rate])
        assert row["copies_micro_ap"]["mean"] == pytest.approx(np.mean(row["copies_micro_ap"]["by_seed"]))
        assert row["seeds"] == len(row["copies_micro_ap"]["by_seed"]) == 2
    gained = result["rows"][1]["difference"]["mean"]
    first, second = (row["copies_micro_ap"]["mean"] for row in result["rows"][:2])
    assert gained == pytest.approx(second - first)
    assert result["rows"][0]["difference"] is None


def test_a_study_goes_on_from_the_csv_alone(finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, result, _ = finished
    monkeypatch.setitem(ON_PHOTOS, "mixers", small_variants)
    monkeypatch.setattr(study, "PHOTO", SMALL)
    runs = shutil.copy(directory / "mixers-photos.csv", tmp_path / "kept.csv")
    assert do_study(tmp_path, None, runs=runs) == result
    # One row lost: with nothing to train on the rest is shown, and else that run alone is made.
    lines = Path(runs).read_text().splitlines(keepends=True)
    Path(runs).write_text("".join(lines[:-1]))
    shown = do_study(tmp_path, None, runs=runs)
    assert [row["seeds"] for row in shown["rows"]] == [2, 2, 1]
    shutil.copytree(directory / study.TOKENS, tmp_path / study.TOKENS)
    ended: list[str] = []
    again = do_study(tmp_path, tmp_path, runs=runs, finished=ended.append)
    assert ended == [f"{PRIOR}, rate {result['rows'][2]['rate']:g}, seed 1"]
    assert [row["copies_micro_ap"] for row in again["rows"]] == [row["copies_micro_ap"] for row in result["rows"]]


def test_tokens_of_other_settings_are_refused(tokens: Tokens, tmp_path: Path) -> None:
    shutil.copytree(tokens.folder, tmp_path / study.TOKENS)
    with pytest.raises(DataError, match=r"has tokens drawn with .*remove that folder, or name another directory"):
        study_on_photos("mixers", tmp_path, tmp_path, drawn=Drawn(steps=4), processes=0)


def test_runs_over_tokens_of_another_release_are_shown_and_not_gone_on_from(
    finished, tmp_path: Path, monkeypatch
) -> None:
    directory, result, _ = finished
    monkeypatch.setitem(ON_PHOTOS, "mixers", small_variants)
    monkeypatch.setattr(study, "PHOTO", SMALL)
    runs = tmp_path / "kept.csv"
    runs.write_text((directory / "mixers-photos.csv").read_text().replace(panel_digest(), "0123456789ab"))
    assert do_study(tmp_path, None, runs=runs) == result
    with pytest.raises(DataError, match=r"kept.csv has runs over tokens of .* part \(0123456789ab\).*--runs"):
        do_study(tmp_path, tmp_path, runs=runs)
